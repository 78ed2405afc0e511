#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/reference/reference.h"
#include "exactness.h"

namespace talon::test {

inline const std::filesystem::path kStories260k = TALON_TEST_DATA "/golden/stories260k/target";
inline const std::filesystem::path kStories15m = TALON_DOWNLOADS "/stories15m/stories15M.bin";
inline const std::filesystem::path kSmollm2 =
    TALON_DOWNLOADS "/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
inline const std::filesystem::path kTinyllama =
    TALON_DOWNLOADS "/tinyllama/TinyLlama-1.1B-Chat.IQ2_XXS.gguf";

inline std::unique_ptr<Backend> reference_backend(int threads) {
  return make_reference_backend(threads);
}
/// With the activations that talon chooses for models so small.
inline std::unique_ptr<Backend> cpu_backend(int threads) {
  return make_cpu_backend({.threads = threads, .activations = Activations::mixed, .pin = false});
}

/// Prompts of the stories models, of 1 to 75 tokens; some repeat themselves, so that n-grams are
/// found.
std::vector<std::vector<TokenId>> story_prompts();
/// The first `count` questions of spec_bench_dev.jsonl as SmolLM2 reads them, cut to `longest`
/// tokens.
std::vector<std::vector<TokenId>> question_prompts(const std::filesystem::path& model,
                                                   std::size_t count, std::size_t longest);

}  // namespace talon::test
