#pragma once

#include <torch/types.h>

#include <vector>

#include "train/head/batch.h"
#include "train/head/head_model.h"

namespace talon {

/// Weights of the parts of the loss; each is a mean over queries, and unrolled step j counts
/// decay^j.
struct LossOptions {
  double soft = 1;        // cross-entropy with the target's distribution
  double top = 0;         // the same with its ten likeliest tokens (HASS, docs/methods.md 7.4)
  double hard = 0;        // the same with its likeliest token: what greedy decoding accepts
  double acceptance = 0;  // -log of the likelihood of acceptance
  double variation = 0;   // total variation: 1 - the likelihood of acceptance
  double coupled = 0;     // -log of the chance that a coupled draft gives to the token drawn
  CouplingWeights coupling = {};
  double feature = 0;  // smooth-L1 to the target's vector (EAGLE-1)
  double decay = 0.8;
  double feature_rms = 1;  // by which features are divided before smooth-L1
};

struct HeadLoss {
  torch::Tensor total;             // differentiable
  std::vector<double> step_loss;   // of each step, per query, before decay
  std::vector<double> step_right;  // share of queries whose likeliest token is the target's; only
                                   // when asked for
};

/// The target's logits as it draws with them, scaled and capped, of the tokens of `rows` (rows of
/// target.output), for `vectors` [queries, hidden] that its output matrix reads.
torch::Tensor target_logits(const TargetTables& target, const torch::Tensor& vectors,
                            const torch::Tensor& rows);

/// The loss of a batch over the tokens `chosen` ([tokens] i64, ascending): target and head are both
/// restricted to them and renormalised. `seed` is that of the noise of the coupled loss, one row a
/// position, at the temperature of the position's answer; at 0 drafts take the head's logits as
/// they are (docs/methods.md 3.5).
HeadLoss head_loss(const HeadModel& model, const TargetTables& target, const Batch& batch,
                   const torch::Tensor& chosen, int steps, const LossOptions& options,
                   std::uint64_t seed, bool count_right);

}  // namespace talon
