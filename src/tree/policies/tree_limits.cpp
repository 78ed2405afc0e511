#include "tree/policies/tree_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace talon {

TreePlan TreeLimits::within(const PlanContext& context) const {
  return {std::min(nodes, context.rows_available), std::min(levels, context.levels_available),
          topk};
}

TreeLimits take_limits(OptionText& options, TreeLimits usual) {
  TreeLimits limits{};
  limits.topk = options.take_int("topk", usual.topk, 1, 64);
  limits.levels = options.take_int("levels", usual.levels, 1, 64);
  limits.nodes = options.take_int("nodes", usual.nodes, 1, 1024);
  return limits;
}

std::vector<int> take_counts(OptionText& options, std::string_view key, std::string_view usual,
                             int most) {
  const std::string text = options.take_text(key, std::string(usual));
  std::vector<int> counts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    OptionText one(fmt::format("{}:{}={}", options.name(), key, text.substr(begin, end - begin)));
    counts.push_back(one.take_int(key, 0, 1, most));
    begin = end + 1;
  }
  return counts;
}

double log_sum_exp(std::span<const float> path_log_p) {
  if (path_log_p.empty()) return -INFINITY;
  const double largest = *std::max_element(path_log_p.begin(), path_log_p.end());
  double sum = 0;
  for (const float log_p : path_log_p) sum += std::exp(static_cast<double>(log_p) - largest);
  return largest + std::log(sum);
}

}  // namespace talon
