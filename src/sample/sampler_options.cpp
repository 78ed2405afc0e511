#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "sample/sampler.h"

namespace talon {
namespace {

template <typename Value>
void require(bool valid, std::string_view field, std::string_view expected, const Value& found) {
  if (!valid)
    throw UsageError(fmt::format("sampler {}: expected {}, found {}", field, expected, found));
}

void require_token(TokenId token, std::string_view field, int vocabulary) {
  require(token >= 0 && token < vocabulary, field,
          fmt::format("token ids from 0 to {}", vocabulary - 1), token);
}

}  // namespace

void check(const SamplerOptions& options, int vocabulary) {
  const auto finite = [](double value) { return std::isfinite(value); };
  const auto share = [](double value) { return value > 0 && value <= 1; };
  require(finite(options.temperature) && options.temperature >= 0, "temperature", "0 or more",
          options.temperature);
  require(options.top_k >= 0, "top_k", "0 (off) or more", options.top_k);
  require(share(options.top_p), "top_p", "more than 0 and at most 1", options.top_p);
  require(options.min_p >= 0 && options.min_p <= 1, "min_p", "0 (off) to 1", options.min_p);
  require(share(options.typical_p), "typical_p", "more than 0 and at most 1", options.typical_p);
  require(finite(options.repetition_penalty) && options.repetition_penalty > 0,
          "repetition_penalty", "more than 0", options.repetition_penalty);
  require(finite(options.presence_penalty), "presence_penalty", "a number",
          options.presence_penalty);
  require(finite(options.frequency_penalty), "frequency_penalty", "a number",
          options.frequency_penalty);
  require(options.penalty_window >= 0, "penalty_window", "0 (all) or more", options.penalty_window);
  for (const auto& [token, bias] : options.logit_bias) {
    require_token(token, "logit_bias", vocabulary);
    require(std::isfinite(bias), "logit_bias", "a number", bias);
  }
  for (const TokenId token : options.banned) require_token(token, "banned", vocabulary);
  for (const TokenId token : options.banned_early) {
    require_token(token, "banned_early", vocabulary);
  }
  require(options.least_answer >= 0, "least_answer", "0 or more", options.least_answer);
}

}  // namespace talon
