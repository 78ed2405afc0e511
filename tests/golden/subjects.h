#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "deviation.h"

namespace talon {

/// A downloaded model with recorded outputs.
struct Subject {
  std::string golden;  // folder of its recorded outputs
  std::string file;    // below downloads/
  double tolerance;    // of a float32 engine, on logits and log-likelihoods (from its README)

  std::filesystem::path path() const { return std::filesystem::path(TALON_DOWNLOADS) / file; }
  bool missing() const { return !std::filesystem::exists(path()); }
};
inline void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.golden; }

inline const Subject kStories15m = {"stories15m", "stories15m/stories15M.bin", 1e-4};
inline const Subject kSmolLm2 = {"smollm2-135m", "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 1e-3};
inline const Subject kTinyLlama = {"tinyllama-1.1b", "tinyllama/TinyLlama-1.1B-Chat.IQ2_XXS.gguf",
                                   2e-3};

/// The bounds of a float32 engine: logits, likelihoods, and every greedy token whose margin exceeds
/// twice the tolerance.
inline void expect_float32(const std::string& what, const Deviation& d, double tolerance) {
  print(what, d);
  EXPECT_LE(d.last_logits_max, tolerance);
  EXPECT_LE(d.nll_max, tolerance);
  EXPECT_LE(d.largest_missed_margin, 2 * tolerance);
}

}  // namespace talon
