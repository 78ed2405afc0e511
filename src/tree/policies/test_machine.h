#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>
#include <vector>

#include "tree/policy_registry.h"

namespace talon::test {

inline float ln(double p) { return static_cast<float>(std::log(p)); }

/// An engine's estimates where one row takes 10 ms and each further one `row_ms`.
struct Machine {
  explicit Machine(double row_ms, double pass_ms = 2) : estimates(256, profile(row_ms, pass_ms)) {}

  static CostProfile profile(double row_ms, double pass_ms) {
    CostProfile result;
    for (const int rows : {1, 2, 4, 8, 16, 64, 256}) {
      result.checks.push_back({rows, 0, 10 + row_ms * (rows - 1)});
    }
    result.levels = {{1, pass_ms}, {16, pass_ms}};
    return result;
  }
  std::unique_ptr<TreePolicy> policy(std::string_view name) {
    return make_policy(name, {&estimates});
  }
  SharedEstimates estimates;
};

inline PlanContext alone() {
  return {.position = 10, .rows_available = 64, .levels_available = 64};
}

/// A chain whose nodes each follow with probability p.
inline DraftTree chain(int nodes, double p) {
  DraftTree tree(0);
  for (NodeId node = 0; node < nodes; ++node)
    tree.add(node, 1, static_cast<float>((node + 1) * std::log(p)));
  return tree;
}

/// Lets a policy cut a tree as a round would.
inline TreePlan cut(TreePolicy& policy, DraftTree& tree, const PlanContext& context = alone()) {
  const TreePlan plan = policy.plan(context);
  if (plan.nodes == 0) tree.reset(0);
  policy.offer(tree, context);
  policy.select(tree, plan, context);
  return plan;
}

/// Tells the policy that the text followed the first `right` nodes of a chain.
inline void report(TreePolicy& policy, const SharedEstimates& estimates, const DraftTree& tree,
                   int right, double draft_ms = 0) {
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
  outcome.draft_ms = draft_ms;
  outcome.check_ms = estimates.cost.check_ms(tree.size());
  outcome.batch_rows = tree.size();
  outcome.batch_tokens = static_cast<int>(emitted.size());
  policy.learn(outcome);
}

/// One round of a policy with `tree` proposed, of which the text follows the first `right` nodes of
/// a chain. Returns the nodes that were checked.
inline int play(TreePolicy& policy, const SharedEstimates& estimates, DraftTree tree, int right) {
  cut(policy, tree);
  report(policy, estimates, tree, right);
  return tree.draft_nodes();
}

}  // namespace talon::test
