#include "tree/policies/policies.h"
#include "tree/policies/policy_of.h"
#include "tree/policies/tree_limits.h"

namespace talon {
namespace {

struct DddOptions {
  TreeLimits limits;
  double threshold;
  TreeLevels after = TreeLevels::none();  // one call a level
};

/// Dynamic Depth Decoding, arXiv:2409.00142: an EAGLE-2 tree that ends after one of the draft calls
/// in `after` when the beam's probability, log of the sum over its nodes, is below `threshold`. The
/// first call gives the children of the root.
class DddState : public PolicyState {
 public:
  explicit DddState(const DddOptions& options) : options_(options) {}

  TreePlan plan(const PlanContext& context) override {
    TreePlan plan = options_.limits.within(context);
    plan.ask_after = options_.after;
    return plan;
  }
  int expand(std::span<const float> path_log_p) override {
    const bool goes_on = log_sum_exp(path_log_p) >= options_.threshold;
    return goes_on ? static_cast<int>(path_log_p.size()) : 0;
  }

 private:
  const DddOptions& options_;
};

}  // namespace

std::unique_ptr<TreePolicy> make_ddd_policy(OptionText& options, const PolicyContext&) {
  DddOptions parsed;
  parsed.limits = take_limits(options, {10, 11, 59});
  parsed.threshold = options.take_double("threshold", -0.3, -100, 0);
  for (const int call : take_counts(options, "after", "5/7/9", 64)) parsed.after.add(call);
  return std::make_unique<PolicyOf<DddState, DddOptions>>(std::move(parsed));
}

}  // namespace talon
