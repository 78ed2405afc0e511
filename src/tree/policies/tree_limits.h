#pragma once

#include <span>
#include <vector>

#include "core/options.h"
#include "tree/tree_policy.h"

namespace talon {

/// The limits of an EAGLE-2 tree, as options of the policies that stop it early. The drafter's own
/// limits hold as well.
struct TreeLimits {
  int topk;    // nodes expanded per level
  int levels;  // below the root
  int nodes;   // sent to the check, root excluded

  TreePlan within(const PlanContext& context) const;
};
std::vector<Option> limit_options(TreeLimits usual);
TreeLimits read_limits(Options& options);

/// log of the sum of the paths' probabilities: how much of the drafter's belief is alive at a
/// level.
double log_sum_exp(std::span<const float> path_log_p);

}  // namespace talon
