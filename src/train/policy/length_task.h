#pragma once

#include <memory>

#include "train/policy/draft_examples.h"
#include "train/policy/policy_options.h"
#include "train/policy/policy_task.h"

namespace talon {

/// AdaEAGLE's length predictor (arXiv:2412.18910; docs/methods.md 6.3): the label of a feature is
/// how many drafted tokens were accepted there. Figures: "loss"; "error", the mean distance between
/// the length that the policy would choose (an ordinal predictor's at chance 1/2) and the label;
/// both also of the best constant of the texts learned from. Copies what it needs.
std::unique_ptr<PolicyTask> make_length_task(const ExampleSplit& split,
                                             const PolicyTrainOptions& options);

}  // namespace talon
