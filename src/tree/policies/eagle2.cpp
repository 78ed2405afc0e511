#include "tree/policies/policies.h"
#include "tree/policies/policy_of.h"
#include "tree/policies/tree_limits.h"

namespace talon {
namespace {

/// EAGLE-2, arXiv:2406.16858: every round the same depth, width and number of nodes, the likeliest
/// of those that the head drafted.
class Eagle2State : public PolicyState {
 public:
  explicit Eagle2State(const TreeLimits& limits) : limits_(limits) {}
  TreePlan plan(const PlanContext& context) override {
    TreePlan plan = limits_.within(context);
    plan.ask_after = TreeLevels::none();
    return plan;
  }

 private:
  const TreeLimits& limits_;
};

std::unique_ptr<TreePolicy> make_eagle2(Options& options, const PolicyContext&) {
  return std::make_unique<PolicyOf<Eagle2State, TreeLimits>>(read_limits(options));
}

}  // namespace

PolicyEntry eagle2_policy() {
  return {.name = "eagle2",
          .summary =
              "EAGLE-2 (arXiv:2406.16858): the same depth, width and number of nodes every "
              "round",
          .options = limit_options({10, 6, 59}),
          .make = make_eagle2};
}

}  // namespace talon
