#pragma once

#include <torch/types.h>

namespace talon {

// Losses of the predictors, differentiable in their first argument; means over rows.

/// AdaEAGLE's asymmetric L1 (arXiv:2412.18910): |predicted - length|, times `lambda` where the
/// prediction is short. Its minimiser is the lambda / (1 + lambda) quantile. Both: [rows].
torch::Tensor asymmetric_loss(const torch::Tensor& predicted, const torch::Tensor& length,
                              double lambda);

/// Binary cross-entropy of the chances that at least 1, 2, ... tokens are accepted, mean over rows
/// and columns. logits: [rows, most]; length: [rows].
torch::Tensor ordinal_loss(const torch::Tensor& logits, const torch::Tensor& length);

/// The chance that a round ends after each level: of the level's decision to stop and all earlier
/// ones to go on; the last level needs none. stop_logit: [rows, levels - 1], log of the odds of
/// stopping; result: [rows, levels]. decides: [rows, levels - 1], 1 where there is a decision, 0
/// where the draft cannot go on.
torch::Tensor stop_law(const torch::Tensor& stop_logit, const torch::Tensor& decides);

/// Minus the tokens per millisecond of rounds that end by `law`: the ratio of the means, exact over
/// all stops (no actions are drawn). Its gradient is that of tokens - rate * ms at the current rate
/// (Dinkelbach). All: [rows, levels].
torch::Tensor throughput_loss(const torch::Tensor& law, const torch::Tensor& tokens,
                              const torch::Tensor& ms);

/// Minus the expected reward, exact over all stops.
torch::Tensor reward_loss(const torch::Tensor& law, const torch::Tensor& reward);

}  // namespace talon
