#include <algorithm>
#include <vector>

#include "tree/policies/policies.h"
#include "tree/policies/tree_limits.h"

namespace talon {
namespace {

/// Dynamic Depth Decoding, arXiv:2409.00142: an EAGLE-2 tree that ends after one of the draft calls
/// in `after` when the beam's probability, log of the sum over its nodes, is below `threshold`. The
/// first call gives the children of the root.
class DddPolicy : public TreePolicy {
 public:
  DddPolicy(const TreeLimits& limits, double threshold, std::vector<int> after)
      : limits_(limits), threshold_(threshold), after_(std::move(after)) {}

  TreePlan plan(const PlanContext& context) override {
    calls_ = 0;
    return limits_.within(context);
  }
  int expand(std::span<const float> path_log_p) override {
    ++calls_;
    const bool checks = std::find(after_.begin(), after_.end(), calls_) != after_.end();
    if (checks && log_sum_exp(path_log_p) < threshold_) return 0;
    return static_cast<int>(path_log_p.size());
  }
  void select(DraftTree& tree, const TreePlan&, const PlanContext& context) override {
    tree.prune(limits_.within(context).nodes);
  }
  void learn(const RoundOutcome&) override {}

 private:
  TreeLimits limits_;
  double threshold_;
  std::vector<int> after_;
  int calls_ = 0;
};

}  // namespace

std::unique_ptr<TreePolicy> make_ddd_policy(OptionText& options, const PolicyContext&) {
  const TreeLimits limits = take_limits(options, {10, 11, 59});
  const double threshold = options.take_double("threshold", -0.3, -100, 0);
  return std::make_unique<DddPolicy>(limits, threshold, take_counts(options, "after", "5/7/9", 64));
}

}  // namespace talon
