#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tree/policies/test_machine.h"

// The policy `throughput` in a batch of several sequences.
namespace talon::throughput_crowd_test {
namespace {

using test::alone;
using test::chain;
using test::ChainHead;
using test::cut;
using test::Machine;

/// Sequences of 30 rounds each, eight at a time, with a head of which `right` tokens of each draft
/// come true. All prompts have the same length, as those of one template. Returns how many drafts
/// there were.
int drafts_in_a_crowd(Machine& machine, int answers, int right) {
  constexpr int kCrowd = 8, kRounds = 30;
  const ChainHead head{0.7, 0.5};
  int drafts = 0;
  for (int first = 0; first < answers; first += kCrowd) {
    std::vector<std::unique_ptr<PolicyState>> crowd;
    for (int i = 0; i < kCrowd; ++i) crowd.push_back(machine.policy("throughput"));
    for (int round = 0; round < kRounds; ++round) {
      for (int i = 0; i < kCrowd; ++i) {
        PolicyState& policy = *crowd[static_cast<std::size_t>(i)];
        PlanContext context = alone();
        context.position = 120 + round;
        context.sequences = kCrowd;
        context.other_rows = kCrowd - 1;
        DraftTree tree(0);
        double draft_ms = 0;
        const TreePlan plan = policy.plan(context);
        if (plan.nodes > 0 && head.draft(policy, tree, draft_ms) > 0) ++drafts;
        test::cut(policy, tree, plan, context);
        std::vector<NodeId> accepted = {0};
        for (NodeId node = 1; node <= std::min(right, tree.draft_nodes()); ++node) {
          accepted.push_back(node);
        }
        std::vector<TokenId> emitted(accepted.size(), 1);
        if (right == 0) emitted.back() = 2;
        RoundOutcome outcome;
        outcome.tree = &tree;
        outcome.accepted = accepted;
        outcome.emitted = emitted;
        outcome.draft_ms = outcome.own_draft_ms = draft_ms;
        outcome.sharers = plan.nodes > 0 ? 1 : 0;
        outcome.sequences = kCrowd;
        outcome.draft_rows = tree.draft_nodes();
        outcome.batch_tokens = kCrowd - 1 + static_cast<int>(emitted.size());
        policy.learn(outcome);
      }
    }
  }
  return drafts;
}

TEST(ThroughputInACrowd, InACrowdAHeadThatDoesNotPayIsTriedByFewForAll) {
  Machine machine(0.4, 0.5);
  EXPECT_LT(drafts_in_a_crowd(machine, 160, 0), 40);
}

TEST(ThroughputInACrowd, InACrowdAHeadThatPaysDraftsForAllAlsoAfterItDidNot) {
  Machine machine(0.05, 0.5);
  drafts_in_a_crowd(machine, 160, 0);
  drafts_in_a_crowd(machine, 800, 4);
  EXPECT_GT(drafts_in_a_crowd(machine, 80, 4), 80 * 20);
}

/// Answers of 30 rounds, eight at once, of a head whose first token is right with chance 0.7, by
/// passes that take as long whoever shares them. Returns the share of rounds with a draft.
double share_of_drafts(Machine& machine, int answers, double pass_ms) {
  constexpr int kCrowd = 8, kRounds = 30;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(0, 1);
  PlanContext context = alone();
  context.sequences = kCrowd;
  context.other_rows = kCrowd - 1;
  int drafts = 0;
  for (int first = 0; first < answers; first += kCrowd) {
    std::vector<std::unique_ptr<PolicyState>> crowd;
    for (int i = 0; i < kCrowd; ++i) crowd.push_back(machine.policy("throughput"));
    for (int round = 0; round < kRounds; ++round) {
      std::vector<DraftTree> trees(kCrowd, DraftTree(0));
      std::vector<TreePlan> plans;
      std::vector<bool> ran;
      for (const auto& policy : crowd) plans.push_back(policy->plan(context));
      for (std::size_t i = 0; i < kCrowd; ++i) {
        ran.push_back(plans[i].nodes > 0 && crowd[i]->start(trees[i], 0));
        if (ran[i]) trees[i].add(0, 1, test::ln(0.7));
      }
      const auto sharers = static_cast<int>(std::ranges::count(ran, true));
      drafts += sharers;
      int draft_rows = 0, tokens = 0;
      for (std::size_t i = 0; i < kCrowd; ++i) {
        test::cut(*crowd[i], trees[i], plans[i], context);
        draft_rows += trees[i].draft_nodes();
      }
      std::vector<int> right;
      for (const DraftTree& tree : trees) {
        right.push_back(uniform(random) < 0.7 ? tree.draft_nodes() : 0);
        tokens += 1 + right.back();
      }
      for (std::size_t i = 0; i < kCrowd; ++i) {
        const std::vector<NodeId> accepted = {0, 1};
        const std::vector<TokenId> emitted = {1, 1};
        const auto count = static_cast<std::size_t>(1 + right[i]);
        RoundOutcome outcome;
        outcome.tree = &trees[i];
        outcome.accepted = std::span(accepted).first(count);
        outcome.emitted = std::span(emitted).first(count);
        outcome.draft_ms = sharers > 0 ? pass_ms : 0;
        outcome.own_draft_ms = ran[i] ? pass_ms : 0;
        outcome.sharers = ran[i] ? sharers : 0;
        outcome.sequences = kCrowd;
        outcome.draft_rows = draft_rows;
        outcome.batch_tokens = tokens;
        crowd[i]->learn(outcome);
      }
    }
  }
  return static_cast<double>(drafts) / (answers * kRounds);
}

TEST(ThroughputInACrowd, PassesThatPayOnlyWhereAllShareThemAreTakenUp) {
  Machine machine(0.4, 1.2);  // a token is worth 1.6 ms
  machine.drafter.pass_gain.fill(-0.1);
  share_of_drafts(machine, 800, 1.2);
  EXPECT_GT(share_of_drafts(machine, 160, 1.2), 0.5);
}

/// A round of eight sequences in which this one proposed nothing, and others drafted for 2 ms.
void see_others_draft(PolicyState& policy, int sharers) {
  const DraftTree tree(0);
  const std::vector<NodeId> accepted = {0};
  const std::vector<TokenId> emitted = {1};
  RoundOutcome outcome;
  outcome.tree = &tree;
  outcome.accepted = accepted;
  outcome.emitted = emitted;
  outcome.draft_ms = 2;
  outcome.own_draft_ms = sharers > 0 ? 0.004 : 0;
  outcome.sharers = sharers;
  outcome.sequences = 8;
  outcome.draft_rows = 0;
  outcome.batch_tokens = 8;
  policy.learn(outcome);
}

TEST(ThroughputInACrowd, WhatOthersSpendOnDraftsIsNotItsOwn) {
  Machine machine(0.3, 0.5);
  auto policy = machine.policy("throughput");
  PlanContext crowd = alone();
  crowd.sequences = 8;
  crowd.other_rows = 7;
  for (int round = 0; round < 200; ++round) {
    DraftTree tree(0);
    const TreePlan plan = policy->plan(crowd);
    EXPECT_GT(plan.nodes, 0) << "its table costs next to nothing, round " << round;
    test::cut(*policy, tree, plan, crowd);
    see_others_draft(*policy, round % 2 == 0 ? 1 : 0);
  }
  EXPECT_GT(test::play(*policy, machine, chain(4, 0.9), 4), 0) << "when the others have left";
}

TEST(ThroughputInACrowd, APauseOfADrafterEndsAlsoInACrowd) {
  Machine machine(0.3, 0.5);
  auto policy = machine.policy("throughput");
  for (int round = 0; round < 40; ++round) {  // a drafter that takes a tenth of a token, in vain
    DraftTree tree = chain(1, 0.3);
    const bool drafts = test::cut(*policy, tree).nodes > 0;
    test::report(*policy, machine, tree, 0, drafts ? 1 : 0);
  }
  int drafted = 0;
  for (int round = 0; round < 400; ++round) {
    PlanContext crowd = alone();
    crowd.sequences = 8;
    crowd.other_rows = 7;
    const bool drafts = policy->plan(crowd).nodes > 0;
    DraftTree tree(0);
    test::cut(*policy, tree, {}, crowd);
    see_others_draft(*policy, 0);
    drafted += drafts;
  }
  EXPECT_GT(drafted, 4) << "every 65 rounds at least";
}

TEST(ThroughputInACrowd, WhatACrowdFoundDoesNotKeepOneThatIsAloneFromDrafting) {
  Machine machine(0.4, 0.5);
  drafts_in_a_crowd(machine, 160, 0);
  auto policy = machine.policy("throughput");
  ASSERT_GT(policy->plan(alone()).nodes, 0);
  EXPECT_TRUE(policy->start(DraftTree(0), 0));
}

TEST(ThroughputInACrowd, ACrowdedMachineEndsAtPlainDecoding) {
  // 30 sequences, and every row costs as much as a token brings.
  Machine machine(0.33);
  auto policy = machine.policy("throughput");
  PlanContext context = alone();
  context.sequences = 30;
  context.other_rows = 29;
  DraftTree tree = chain(8, 0.5);
  cut(*policy, tree, context);
  EXPECT_EQ(tree.draft_nodes(), 0);
}

/// Nodes that one of eight sequences checks in 50 rounds, all of them wrong, when others draft
/// `earlier` nodes before it in each round and `later` ones after it.
int wrong_nodes_beside(int earlier, int later) {
  Machine machine(0.4);
  auto policy = machine.policy("throughput");
  PlanContext context = alone();
  context.sequences = 8;
  context.other_rows = 7;
  int nodes = 0;
  for (int round = 0; round < 50; ++round) {
    DraftTree tree = chain(8, 0.8);
    context.drafted_rows = 0;
    const TreePlan plan = policy->plan(context);
    if (plan.nodes == 0) tree.reset(0);
    context.drafted_rows = earlier;
    cut(*policy, tree, plan, context);
    nodes += tree.draft_nodes();
    const std::vector<NodeId> accepted = {0};
    const std::vector<TokenId> emitted = {2};
    policy->learn({.tree = &tree,
                   .accepted = accepted,
                   .emitted = emitted,
                   .sequences = 8,
                   .draft_rows = earlier + tree.draft_nodes() + later,
                   .batch_tokens = 8});
  }
  return nodes;
}

TEST(ThroughputInACrowd, TheLastOfACrowdLosesNoMoreThanTheFirst) {
  EXPECT_GT(wrong_nodes_beside(0, 56), 0);
  EXPECT_EQ(wrong_nodes_beside(56, 0), wrong_nodes_beside(0, 56));
}

/// Nodes that two sequences check, one of them deep in its text, where rows there are dear.
std::pair<int, int> deep_and_near_nodes(bool deep_first) {
  CostProfile profile;
  for (const int context : {0, 8000}) {
    for (const int rows : {1, 16, 64})
      profile.checks.push_back({rows, context, 10 + rows * (0.4 + 0.0005 * context)});
  }
  Machine machine(profile);
  struct Player {
    PolicyState* policy;
    PlanContext context;
    DraftTree tree = chain(8, 0.7);
    TreePlan plan = {};
  };
  const auto policy = [&] { return machine.policy("throughput"); };
  const auto deep = policy(), near = policy();
  PlanContext at = alone();
  at.sequences = 2;
  at.other_rows = 1;
  at.mean_position = (8000 + 100) / 2;
  std::vector<Player> players = {{deep.get(), at}, {near.get(), at}};
  players[0].context.position = 8000;
  players[1].context.position = 100;
  if (!deep_first) std::swap(players[0], players[1]);

  RowBudget rows;
  rows.begin_round();
  for (Player& each : players) each.plan = each.policy->plan(each.context);
  for (Player& each : players) each.policy->offer(each.tree, each.context, rows);
  for (Player& each : players) each.policy->select(each.tree, each.plan, each.context, rows);
  const Player& first = players[0];
  const Player& second = players[1];
  const std::pair counts(first.tree.draft_nodes(), second.tree.draft_nodes());
  return deep_first ? counts : std::pair(counts.second, counts.first);
}

TEST(ThroughputInACrowd, WhatIsBoughtDependsOnNoSequencesPlaceInTheRound) {
  const auto [deep, near] = deep_and_near_nodes(true);
  EXPECT_EQ(std::pair(deep, near), deep_and_near_nodes(false));
  EXPECT_GT(deep, 0);
  EXPECT_GT(near, deep) << "its rows take a tenth";
}

/// Nodes that two sequences check, the second of which asks for ten times their cost.
std::pair<int, int> usual_and_careful_nodes(bool usual_first) {
  Machine machine(0.3);
  const auto usual = machine.policy("throughput"), careful = machine.policy("throughput:margin=10");
  std::vector<PolicyState*> order = {usual.get(), careful.get()};
  if (!usual_first) std::swap(order[0], order[1]);
  PlanContext at = alone();
  at.sequences = 2;
  at.other_rows = 1;
  std::vector<DraftTree> trees(2, chain(8, 0.7));
  std::vector<TreePlan> plans;
  RowBudget rows;
  rows.begin_round();
  for (PolicyState* policy : order) plans.push_back(policy->plan(at));
  for (const std::size_t i : {0, 1}) order[i]->offer(trees[i], at, rows);
  for (const std::size_t i : {0, 1}) order[i]->select(trees[i], plans[i], at, rows);
  const std::pair counts(trees[0].draft_nodes(), trees[1].draft_nodes());
  return usual_first ? counts : std::pair(counts.second, counts.first);
}

TEST(ThroughputInACrowd, OneThatAsksForMoreGainMakesRowsDearForItselfAlone) {
  const auto [usual, careful] = usual_and_careful_nodes(true);
  EXPECT_EQ(std::pair(usual, careful), usual_and_careful_nodes(false));
  EXPECT_GT(usual, careful);
}

/// What a pass over one row is believed to take after rounds in which eight sequences draft chains
/// of so many levels by the same calls of a head, whose time is `slow` times that of their rows.
/// waiting: tokens that one of them has not shown it.
double pass_ms_after(const std::vector<int>& levels, double slow, int waiting) {
  CostProfile profile = Machine::profile(0.05, 0.5);
  profile.levels = {{1, 0.5}, {64, 0.5 + 63 * 0.02}};
  profile.waiting_row_ms = 0.001;
  Machine machine(profile);
  const auto crowd = static_cast<int>(levels.size());
  PlanContext context = alone();
  context.sequences = crowd;
  context.other_rows = crowd - 1;
  for (int round = 0; round < 4; ++round) {
    std::vector<std::unique_ptr<PolicyState>> policies;  // new ones: no trial has a pause yet
    for (int i = 0; i < crowd; ++i) {
      policies.push_back(machine.policy("throughput"));
      machine.drafter.sequences_begun = 0;  // so each is one that tries for all
      policies.back()->plan(context);
    }
    std::vector<DraftTree> trees(levels.size(), DraftTree(0));
    std::vector<int> rows;  // of each pass
    for (std::size_t i = 0; i < levels.size(); ++i) {
      EXPECT_TRUE(policies[i]->start(trees[i], i == 0 ? waiting : 0));
      for (int level = 1; level <= levels[i]; ++level) {
        rows.resize(std::max(rows.size(), static_cast<std::size_t>(level)));
        ++rows[static_cast<std::size_t>(level) - 1];
        trees[i].add(level - 1, 1, static_cast<float>(level * std::log(0.9)));
        const std::vector<float> beam = {trees[i].nodes.back().log_p};
        if (level == levels[i]) break;
        EXPECT_EQ(policies[i]->expand(beam), 1);
      }
    }
    double draft_ms = 0;
    for (const int count : rows) draft_ms += slow * (0.5 + 0.02 * (count - 1));
    for (std::size_t i = 0; i < levels.size(); ++i) {
      const std::vector<NodeId> accepted = {0};
      const std::vector<TokenId> emitted = {2};
      RoundOutcome outcome;
      outcome.tree = &trees[i];
      outcome.accepted = accepted;
      outcome.emitted = emitted;
      outcome.draft_ms = outcome.own_draft_ms = draft_ms;
      outcome.sharers = outcome.sequences = outcome.batch_tokens = crowd;
      policies[i]->learn(outcome);
    }
  }
  return machine.drafter.passes.pass_ms(1, machine.costs);
}

TEST(ThroughputInACrowd, OneThatTakesInManyTokensDoesNotMakePassesLookSlow) {
  EXPECT_NEAR(pass_ms_after({1, 1, 1, 1, 1, 1, 1, 1}, 1, 0), 0.5, 0.01);
  EXPECT_NEAR(pass_ms_after({1, 1, 1, 1, 1, 1, 1, 1}, 5, 128), 0.5, 0.01);
  EXPECT_NEAR(pass_ms_after({1, 1, 1, 1, 1, 1, 1, 1}, 5, 0), 2.5, 0.1) << "all of it is slow";
}

TEST(ThroughputInACrowd, ACallIsTimedOnceByAllOfItsRows) {
  EXPECT_NEAR(pass_ms_after({3, 1, 1, 1, 1, 1, 1, 1}, 1, 0), 0.5, 0.01);
}

}  // namespace
}  // namespace talon::throughput_crowd_test
