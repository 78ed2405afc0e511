#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "tree/policy_registry.h"

namespace talon {
namespace {

float ln(double p) { return static_cast<float>(std::log(p)); }

/// An engine's estimates where one row takes 10 ms and each further one `row_ms`.
struct Machine {
  explicit Machine(double row_ms) : estimates(256) {
    for (int i = 0; i < CostModel::kMemory; ++i) {
      for (const int rows : {1, 2, 4, 8, 16, 64, 256})
        estimates.cost.observe(rows, 10 + row_ms * (rows - 1));
    }
  }
  std::unique_ptr<TreePolicy> policy(std::string_view name) {
    return make_policy(name, {&estimates});
  }
  SharedEstimates estimates;
};

PlanContext alone() { return {.position = 10, .rows_available = 64, .levels_available = 64}; }

/// A chain whose nodes each follow with probability p.
DraftTree chain(int nodes, double p) {
  DraftTree tree(0);
  for (NodeId node = 0; node < nodes; ++node)
    tree.add(node, 1, static_cast<float>((node + 1) * std::log(p)));
  return tree;
}

/// One round of a policy with `tree` proposed, of which the text follows the first `right` nodes of
/// a chain. Returns the nodes that were checked.
int play(TreePolicy& policy, const SharedEstimates& estimates, DraftTree tree, int right) {
  const TreePlan plan = policy.plan(alone());
  if (plan.nodes == 0) tree.reset(0);
  policy.select(tree, plan, alone());
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
  outcome.check_ms = estimates.cost.check_ms(tree.size());
  outcome.batch_rows = tree.size();
  outcome.batch_tokens = static_cast<int>(emitted.size());
  policy.learn(outcome);
  return tree.draft_nodes();
}

TEST(Policies, TheTableNamesEachPolicyOnceAndMakesIt) {
  SharedEstimates estimates(64);
  for (const PolicyEntry& entry : policies()) {
    EXPECT_NE(make_policy(entry.name, {&estimates}), nullptr) << entry.name;
    EXPECT_FALSE(entry.summary.empty()) << entry.name;
    EXPECT_THROW(make_policy(std::string(entry.name) + ":nonsense=1", {&estimates}), UsageError);
  }
  try {
    make_policy("thruput", {&estimates});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "policy: expected one of throughput, fixed, found \"thruput\"");
  }
}

TEST(Policies, EveryPolicyKeepsATreeWithinTheRowsThereAre) {
  for (const PolicyEntry& entry : policies()) {
    Machine machine(0.01);
    auto policy = machine.policy(entry.name);
    PlanContext context = alone();
    context.rows_available = 3;
    const TreePlan plan = policy->plan(context);
    DraftTree tree = chain(10, 0.99);
    tree.add(0, 7, ln(0.9));
    policy->select(tree, plan, context);
    EXPECT_NO_THROW(check_invariants(tree)) << entry.name;
    EXPECT_LE(tree.draft_nodes(), 3) << entry.name;
    context.rows_available = 0;
    EXPECT_EQ(policy->plan(context).nodes, 0) << entry.name;
  }
}

TEST(FixedPolicy, KeepsTheDraftersWholeTree) {
  Machine machine(1000);
  EXPECT_EQ(play(*machine.policy("fixed"), machine.estimates, chain(12, 0.01), 0), 12);
}

TEST(ThroughputPolicy, BuysNodesWhileTheyAreWorthTheirTime) {
  // A token is worth 10 ms and a row costs 2: nodes pay down to a chance of 0.2. The start stake
  // buys two rows at most.
  Machine machine(2);
  auto policy = machine.policy("throughput");
  DraftTree tree(0);
  tree.add(0, 1, ln(0.6));
  tree.add(0, 2, ln(0.25));
  tree.add(0, 3, ln(0.1));
  policy->select(tree, policy->plan(alone()), alone());
  EXPECT_EQ(tree.token, (std::vector<TokenId>{0, 1, 2}));
}

TEST(ThroughputPolicy, DoesNotDraftWhenRowsCostMoreThanTheyBring) {
  Machine machine(9);
  auto policy = machine.policy("throughput");
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(play(*policy, machine.estimates, chain(8, 0.5), 0), 0);
  }
}

TEST(ThroughputPolicy, LosesAtMostTwoPercentToADrafterThatIsAlwaysSureAndAlwaysWrong) {
  Machine machine(3);
  auto policy = machine.policy("throughput");
  double spent_ms = 0;
  for (int token = 0; token < 128; ++token) {
    const int nodes = play(*policy, machine.estimates, chain(16, 0.99), 0);
    spent_ms += machine.estimates.cost.check_ms(1 + nodes);
  }
  EXPECT_LE(spent_ms, 128 * 10 * 1.02);
  EXPECT_GT(spent_ms, 128 * 10);  // it did try
}

TEST(ThroughputPolicy, DraftsDeepWhereTheDrafterIsRight) {
  Machine machine(1);
  auto policy = machine.policy("throughput");
  int nodes = 0;
  for (int round = 0; round < 40; ++round)
    nodes = play(*policy, machine.estimates, chain(16, 0.6), 16);
  EXPECT_GE(nodes, 12);
}

TEST(ThroughputPolicy, RecoversWhenADrafterThatWasWrongBecomesRight) {
  Machine machine(1);
  auto policy = machine.policy("throughput");
  for (int round = 0; round < 200; ++round) play(*policy, machine.estimates, chain(8, 0.6), 0);
  EXPECT_EQ(play(*policy, machine.estimates, chain(8, 0.6), 8),
            0);  // it has learned that this is useless
  int nodes = 0;
  for (int round = 0; round < 60; ++round)
    nodes = play(*policy, machine.estimates, chain(8, 0.6), 8);
  EXPECT_GE(nodes, 4);
}

TEST(ThroughputPolicy, AsksAnExpensiveDrafterThatNeverHelpsOnlyRarely) {
  Machine machine(1);
  auto policy = machine.policy("throughput");
  int asked = 0;
  for (int round = 0; round < 500; ++round) {
    const TreePlan plan = policy->plan(alone());
    asked += plan.nodes > 0 ? 1 : 0;
    DraftTree tree(0);
    if (plan.nodes > 0) tree.add(0, 1, ln(0.5));
    policy->select(tree, plan, alone());
    const std::vector<NodeId> accepted = {0};
    const std::vector<TokenId> emitted = {2};
    policy->learn({&tree, accepted, emitted, plan.nodes > 0 ? 5.0 : 0.0, 10, 1, tree.size(), 1});
  }
  EXPECT_LT(asked, 20);
  EXPECT_GT(asked, 5);
}

}  // namespace
}  // namespace talon
