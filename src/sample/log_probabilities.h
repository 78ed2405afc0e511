#pragma once

#include <span>
#include <utility>
#include <vector>

#include "core/types.h"

namespace talon {

/// What the target thought of one token of an answer: natural logarithms of probabilities in the
/// target's own row, before any bias, penalty, temperature or cut.
struct TokenLogprobs {
  TokenId token = 0;
  double log_p = 0;
  std::vector<std::pair<TokenId, double>> top;  // the most likely, of equals the smaller id first
};

/// Of `token` and of the `top` most likely tokens of a row. A pure function of the row: the same
/// bytes however it was reached. Throws Error for a row with NaN or without a finite largest logit.
TokenLogprobs log_probabilities(std::span<const float> logits, TokenId token, int top);

}  // namespace talon
