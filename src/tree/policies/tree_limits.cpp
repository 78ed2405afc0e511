#include "tree/policies/tree_limits.h"

#include <algorithm>
#include <cmath>

namespace talon {

TreePlan TreeLimits::within(const PlanContext& context) const {
  return {std::min(nodes, context.rows_available), std::min(levels, context.levels_available),
          topk};
}

std::vector<Option> limit_options(TreeLimits usual) {
  return {
      {"topk", WholeNumber{1, 64}, std::to_string(usual.topk), "nodes expanded per level"},
      {"levels", WholeNumber{1, 64}, std::to_string(usual.levels), "most levels below the root"},
      {"nodes", WholeNumber{1, 1024}, std::to_string(usual.nodes),
       "most draft nodes, root excluded"}};
}

TreeLimits read_limits(Options& options) {
  return {options.whole("topk"), options.whole("levels"), options.whole("nodes")};
}

double log_sum_exp(std::span<const float> path_log_p) {
  if (path_log_p.empty()) return -INFINITY;
  const double largest = *std::max_element(path_log_p.begin(), path_log_p.end());
  double sum = 0;
  for (const float log_p : path_log_p) sum += std::exp(static_cast<double>(log_p) - largest);
  return largest + std::log(sum);
}

}  // namespace talon
