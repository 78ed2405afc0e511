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

std::unique_ptr<TreePolicy> make_ddd(Options& options, const PolicyContext&) {
  DddOptions parsed{read_limits(options), options.real("threshold")};
  for (const int call : options.wholes("after")) parsed.after.add(call);
  return std::make_unique<PolicyOf<DddState, DddOptions>>(std::move(parsed));
}

}  // namespace

PolicyEntry ddd_policy() {
  return {.name = "ddd",
          .summary =
              "Dynamic Depth Decoding (arXiv:2409.00142): an EAGLE-2 tree that ends when the "
              "beam's probability is low",
          .options = joined(
              {{"threshold", RealNumber{-100, 0}, "-0.3", "its logarithm"},
               {"after", WholeNumbers{1, 64}, "5/7/9", "draft calls after which it is looked at"}},
              limit_options({10, 11, 59})),
          .make = make_ddd};
}

}  // namespace talon
