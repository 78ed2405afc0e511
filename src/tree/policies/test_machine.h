#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "tree/policy_registry.h"

namespace talon::test {

inline float ln(double p) { return static_cast<float>(std::log(p)); }

/// What an engine knows where one row takes 10 ms and each further one `row_ms`.
struct Machine {
  explicit Machine(double row_ms, double pass_ms = 2) : Machine(profile(row_ms, pass_ms)) {}
  explicit Machine(const CostProfile& profile) : costs(256, profile), drafter(256, profile) {}

  static CostProfile profile(double row_ms, double pass_ms) {
    CostProfile result;
    for (const int rows : {1, 2, 4, 8, 16, 64, 256}) {
      result.checks.push_back({rows, 0, 10 + row_ms * (rows - 1)});
    }
    result.levels = {{1, pass_ms}, {16, pass_ms}};
    return result;
  }
  /// The state of a sequence under that policy, which the machine keeps.
  std::unique_ptr<PolicyState> policy(std::string_view name) {
    return policies.emplace_back(make_policy(name))->start(drafter, costs);
  }
  MachineCosts costs;
  DrafterEstimates drafter;
  std::deque<std::unique_ptr<TreePolicy>> policies;
};

inline PlanContext alone() {
  return {.position = 10, .rows_available = 64, .levels_available = 64, .mean_position = 10};
}

/// A chain whose nodes each follow with probability p.
inline DraftTree chain(int nodes, double p) {
  DraftTree tree(0);
  for (NodeId node = 0; node < nodes; ++node)
    tree.add(node, 1, static_cast<float>((node + 1) * std::log(p)));
  return tree;
}

/// A head that grows a chain level by level, each node right with chance p given its parent and
/// sure of just that. Returns the levels that were grown. waiting: tokens that it has not seen.
struct ChainHead {
  double p;
  double pass_ms;

  int draft(PolicyState& policy, DraftTree& tree, double& draft_ms, int waiting = 0) const {
    draft_ms = 0;
    if (!policy.start(tree, waiting)) return 0;
    int levels = 0;
    bool more = true;
    while (more && levels < 16) {
      draft_ms += pass_ms;
      ++levels;
      tree.add(levels - 1, 1, static_cast<float>(levels * std::log(p)));
      const std::vector<float> beam = {tree.nodes.back().log_p};
      more = policy.expand(beam) > 0;
    }
    return levels;
  }
};

/// Lets a policy that made `plan` cut the tree, as a round of this sequence alone would.
inline void cut(PolicyState& policy, DraftTree& tree, const TreePlan& plan,
                const PlanContext& context) {
  RowBudget rows;
  rows.begin_round();
  policy.offer(tree, context, rows);
  policy.select(tree, plan, context, rows);
}
/// Lets it plan as well.
inline TreePlan cut(PolicyState& policy, DraftTree& tree, const PlanContext& context = alone()) {
  const TreePlan plan = policy.plan(context);
  if (plan.nodes == 0) tree.reset(0);
  cut(policy, tree, plan, context);
  return plan;
}

/// Tells the policy that the text followed the first `right` nodes of a chain.
inline void report(PolicyState& policy, const Machine& machine, const DraftTree& tree, int right,
                   double draft_ms = 0) {
  std::vector<TokenId> emitted;
  std::vector<NodeId> accepted = {0};
  for (NodeId node = 0; node < std::min(right, tree.draft_nodes()); ++node) {
    emitted.push_back(1);
    accepted.push_back(node + 1);
  }
  emitted.push_back(right > tree.draft_nodes() ? 1 : 2);
  RoundOutcome outcome;
  outcome.tree = &tree;
  outcome.accepted = accepted;
  outcome.emitted = emitted;
  outcome.draft_ms = outcome.own_draft_ms = draft_ms;
  outcome.sharers = 1;
  outcome.check_ms = machine.costs.check_ms(tree.size());
  outcome.draft_rows = tree.draft_nodes();
  outcome.batch_tokens = static_cast<int>(emitted.size());
  policy.learn(outcome);
}

/// One round of a policy with `tree` proposed, of which the text follows the first `right` nodes of
/// a chain. Returns the nodes that were checked.
inline int play(PolicyState& policy, const Machine& machine, DraftTree tree, int right) {
  cut(policy, tree);
  report(policy, machine, tree, right);
  return tree.draft_nodes();
}

}  // namespace talon::test
