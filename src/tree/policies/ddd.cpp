#include <algorithm>
#include <vector>

#include "tree/policies/policies.h"
#include "tree/policies/policy_of.h"
#include "tree/policies/tree_limits.h"

namespace talon {
namespace {

struct DddOptions {
  TreeLimits limits;
  double threshold;
  std::vector<int> after;
};

/// Dynamic Depth Decoding, arXiv:2409.00142: an EAGLE-2 tree that ends after one of the draft calls
/// in `after` when the beam's probability, log of the sum over its nodes, is below `threshold`. The
/// first call gives the children of the root.
class DddState : public PolicyState {
 public:
  explicit DddState(const DddOptions& options) : options_(options) {}

  TreePlan plan(const PlanContext& context) override {
    calls_ = 0;
    return options_.limits.within(context);
  }
  int expand(std::span<const float> path_log_p) override {
    ++calls_;
    const std::vector<int>& after = options_.after;
    const bool checks = std::find(after.begin(), after.end(), calls_) != after.end();
    if (checks && log_sum_exp(path_log_p) < options_.threshold) return 0;
    return static_cast<int>(path_log_p.size());
  }

 private:
  const DddOptions& options_;
  int calls_ = 0;
};

}  // namespace

std::unique_ptr<TreePolicy> make_ddd_policy(OptionText& options, const PolicyContext&) {
  DddOptions parsed;
  parsed.limits = take_limits(options, {10, 11, 59});
  parsed.threshold = options.take_double("threshold", -0.3, -100, 0);
  parsed.after = take_counts(options, "after", "5/7/9", 64);
  return std::make_unique<PolicyOf<DddState, DddOptions>>(std::move(parsed));
}

}  // namespace talon
