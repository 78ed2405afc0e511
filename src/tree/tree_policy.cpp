#include "tree/tree_policy.h"

namespace talon {

void PolicyState::turn_to(std::uint32_t /*source*/) {}

bool PolicyState::start(const DraftTree&, int /*waiting*/) { return true; }

int PolicyState::expand(std::span<const float> path_log_p) {
  return static_cast<int>(path_log_p.size());
}

void PolicyState::offer(const DraftTree&, const PlanContext&, RowBudget&) {}

void PolicyState::select(DraftTree& tree, const TreePlan& plan, const PlanContext&, RowBudget&) {
  tree.prune(plan.nodes);
}

void PolicyState::learn(const RoundOutcome&) {}

}  // namespace talon
