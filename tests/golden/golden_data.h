#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/types.h"
#include "io/json.h"

namespace talon {

/// The recorded outputs of one model: tests/data/golden/NAME, whose README says how they were made.
struct GoldenCase {
  std::vector<TokenId> prompt;
  std::vector<std::pair<TokenId, double>> last_logits;  // the 20 largest and the 64 fixed ones
  double log_sum_exp = 0, mean = 0, deviation = 0, smallest = 0;
  std::vector<TokenId> greedy;
  std::vector<double> margin, log_p;  // of each greedy token
};
struct GoldenText {
  std::vector<TokenId> ids;
  std::vector<double> nll;  // of ids[i + 1] given ids[0 .. i]
  std::vector<TokenId> argmax;
  std::vector<double> margin;
};
/// llama.cpp's figures for the same inputs, per configuration.
struct GoldenPeer {
  std::string configuration;
  std::vector<double> text_nll;
  double argmax_agreement = 0, mean_kl = 0;
  std::vector<double> last_logits_max_abs, last_kl;  // per prompt
};
struct Golden {
  std::vector<GoldenCase> cases;
  GoldenText text;
  std::vector<GoldenPeer> peers;
};
Golden read_golden(const std::string& name);

/// The parsed file below tests/data/golden, decompressed if its name ends in .zst.
Json read_golden_json(const std::string& file);

}  // namespace talon
