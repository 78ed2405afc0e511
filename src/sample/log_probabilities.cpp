#include "sample/log_probabilities.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "sample/token_weights.h"

namespace talon {
namespace {

float largest_of(std::span<const float> logits) {
  float largest = logits.front();
  for (const float logit : logits) {
    if (std::isnan(logit)) fail("log-probabilities: expected numbers as logits, found NaN");
    largest = std::max(largest, logit);
  }
  if (!std::isfinite(largest)) fail("log-probabilities: expected finite logits, found infinity");
  return largest;
}

}  // namespace

TokenLogprobs log_probabilities(std::span<const float> logits, TokenId token, int top) {
  const float largest = largest_of(logits);
  std::vector<double> weights(logits.size());
  token_weights(logits, largest, 1, weights);
  const double log_sum = std::log(std::accumulate(weights.begin(), weights.end(), 0.0));
  const auto log_p = [&](TokenId id) {
    return static_cast<double>(logits[static_cast<std::size_t>(id)]) - largest - log_sum;
  };
  TokenLogprobs result{token, log_p(token), {}};
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto likelier = [&](TokenId a, TokenId b) {
    const float logit_a = logits[static_cast<std::size_t>(a)];
    const float logit_b = logits[static_cast<std::size_t>(b)];
    return logit_a != logit_b ? logit_a > logit_b : a < b;
  };
  const auto count = std::min<std::ptrdiff_t>(top, static_cast<std::ptrdiff_t>(ids.size()));
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), likelier);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const TokenId id = ids[static_cast<std::size_t>(i)];
    result.top.emplace_back(id, log_p(id));
  }
  return result;
}

}  // namespace talon
