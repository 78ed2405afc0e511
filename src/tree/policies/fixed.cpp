#include "tree/policies/policies.h"

namespace talon {
namespace {

/// As much as there is room for, every round: what is drafted is up to the drafter's own options.
class FixedPolicy : public TreePolicy {
 public:
  TreePlan plan(const PlanContext& context) override {
    return {context.rows_available, context.levels_available, context.rows_available};
  }
  int expand(std::span<const float> path_log_p) override {
    return static_cast<int>(path_log_p.size());
  }
  void select(DraftTree& tree, const TreePlan&, const PlanContext& context) override {
    tree.prune(context.rows_available);
  }
  void learn(const RoundOutcome&) override {}
};

}  // namespace

std::unique_ptr<TreePolicy> make_fixed_policy(OptionText&, const PolicyContext&) {
  return std::make_unique<FixedPolicy>();
}

}  // namespace talon
