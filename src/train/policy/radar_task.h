#pragma once

#include <memory>

#include "train/policy/draft_examples.h"
#include "train/policy/policy_options.h"
#include "train/policy/policy_task.h"
#include "train/policy/train_policy.h"

namespace talon {

/// RADAR's network (arXiv:2512.14069; docs/methods.md 6.4): what a round brings for every level it
/// may end after is known, so its expectation over the network's decisions is exact and is followed
/// without drawing actions. Figures: "loss", in units of what the best constant has on the texts
/// learned from; "rate", tokens per unit of cost with decisions drawn by the network; "likelier
/// rate", with the likelier ones; "levels" drafted; "constant loss", "constant rate" and "constant
/// levels" of the one level that is best on the texts learned from. Copies what it needs.
std::unique_ptr<PolicyTask> make_radar_task(const ExampleSplit& split, const RoundCosts& costs,
                                            const PolicyTrainOptions& options);

}  // namespace talon
