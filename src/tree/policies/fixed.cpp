#include "tree/policies/policies.h"
#include "tree/policies/policy_of.h"

namespace talon {
namespace {

struct NoOptions {};

/// As much as there is room for, every round: what is drafted is up to the drafter's own options.
class FixedState : public PolicyState {
 public:
  explicit FixedState(const NoOptions&) {}
  TreePlan plan(const PlanContext& context) override {
    return {context.rows_available, context.levels_available, context.rows_available,
            TreeLevels::none()};
  }
};

std::unique_ptr<TreePolicy> make_fixed(Options&, const PolicyContext&) {
  return std::make_unique<PolicyOf<FixedState, NoOptions>>(NoOptions{});
}

}  // namespace

PolicyEntry fixed_policy() {
  return {.name = "fixed",
          .summary = "always the whole tree that the drafter's own options describe",
          .options = {},
          .make = make_fixed};
}

}  // namespace talon
