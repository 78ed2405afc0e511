#include <gtest/gtest.h>

#include <random>

#include "tree/policies/test_machine.h"
#include "tree/policies/throughput/node_worth.h"

namespace talon::throughput_test {
namespace {

using test::alone;
using test::chain;
using test::ChainHead;
using test::cut;
using test::ln;
using test::Machine;
using test::play;

TEST(ThroughputPolicy, BuysNodesWhileTheyAreWorthTheirTime) {
  // A token is worth 10 ms and a row costs 2: nodes pay down to a chance of 0.2. The budget at
  // the start buys two rows at most.
  Machine machine(2);
  auto policy = machine.policy("throughput");
  DraftTree tree(0);
  tree.add(0, 1, ln(0.6));
  tree.add(0, 2, ln(0.25));
  tree.add(0, 3, ln(0.1));
  cut(*policy, tree);
  EXPECT_EQ(tree.tokens(), (std::vector<TokenId>{0, 1, 2}));
}

TEST(ThroughputPolicy, AsksForMoreGainThanCostByTheMargin) {
  for (const auto& [name, bought] :
       {std::pair{"throughput:margin=1", 2}, {"throughput:margin=1.5", 1}}) {
    Machine machine(2);  // a row costs 0.2 tokens
    auto policy = machine.policy(name);
    DraftTree tree(0);
    tree.add(0, 1, ln(0.6));
    tree.add(0, 2, ln(0.25));
    cut(*policy, tree);
    EXPECT_EQ(tree.draft_nodes(), bought) << name;
  }
}

TEST(ThroughputPolicy, DoesNotDraftWhenRowsCostMoreThanTheyBring) {
  Machine machine(9);
  auto policy = machine.policy("throughput");
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(play(*policy, machine, chain(8, 0.5), 0), 0);
  }
}

TEST(ThroughputPolicy, LosesAtMostTwoPercentToADrafterThatIsAlwaysSureAndAlwaysWrong) {
  Machine machine(3);
  auto policy = machine.policy("throughput");
  double spent_ms = 0;
  for (int token = 0; token < 128; ++token) {
    const int nodes = play(*policy, machine, chain(16, 0.99), 0);
    spent_ms += machine.costs.check_ms(1 + nodes);
  }
  EXPECT_LE(spent_ms, 128 * 10 * 1.02);
  EXPECT_GT(spent_ms, 128 * 10);  // it did try
}

TEST(ThroughputPolicy, DraftsDeepWhereTheDrafterIsRight) {
  Machine machine(1);
  auto policy = machine.policy("throughput");
  int nodes = 0;
  for (int round = 0; round < 40; ++round) nodes = play(*policy, machine, chain(16, 0.6), 16);
  EXPECT_GE(nodes, 12);
}

TEST(ThroughputPolicy, RecoversWhenADrafterThatWasWrongBecomesRight) {
  Machine machine(1);
  auto policy = machine.policy("throughput");
  for (int round = 0; round < 200; ++round) play(*policy, machine, chain(8, 0.6), 0);
  EXPECT_EQ(play(*policy, machine, chain(8, 0.6), 8),
            0);  // it has learned that this is useless
  int nodes = 0;
  for (int round = 0; round < 60; ++round) nodes = play(*policy, machine, chain(8, 0.6), 8);
  EXPECT_GE(nodes, 3);
}

TEST(ThroughputPolicy, AsksAnExpensiveDrafterThatNeverHelpsOnlyRarely) {
  Machine machine(1);
  auto policy = machine.policy("throughput");
  int asked = 0;
  for (int round = 0; round < 500; ++round) {
    DraftTree tree(0);
    tree.add(0, 1, ln(0.5));
    const TreePlan plan = cut(*policy, tree);
    asked += plan.nodes > 0 ? 1 : 0;
    test::report(*policy, machine, tree, 0, plan.nodes > 0 ? 5 : 0);
  }
  EXPECT_LT(asked, 30);
  EXPECT_GE(asked, 4);
}

/// Tokens per millisecond of a chain of `levels`, all of it checked.
double chain_rate(double p, int levels, double row_ms, double pass_ms) {
  double tokens = 1;
  for (int level = 1; level <= levels; ++level) tokens += std::pow(p, level);
  return tokens / (10 + levels * (row_ms + pass_ms));
}

TEST(ThroughputPolicy, DraftsAsDeepAsIsFastest) {
  constexpr double kRowMs = 0.4;
  for (const double p : {0.4, 0.6, 0.8, 0.9}) {
    for (const double pass_ms : {0.5, 1.5, 3.0}) {
      Machine machine(kRowMs, pass_ms);
      auto policy = machine.policy("throughput:margin=1");
      std::mt19937 random(4);
      std::uniform_real_distribution<double> uniform(0, 1);
      const ChainHead head{p, pass_ms};
      double tokens = 0, ms = 0;
      for (int round = 0; round < 4000; ++round) {
        DraftTree tree(0);
        double draft_ms = 0;
        const TreePlan plan = policy->plan(alone());
        if (plan.nodes > 0) head.draft(*policy, tree, draft_ms);
        test::cut(*policy, tree, plan, alone());
        int right = 0;
        while (right < 20 && uniform(random) < p) ++right;
        if (round >= 1000) {
          tokens += 1 + std::min(right, tree.draft_nodes());
          ms += machine.costs.check_ms(tree.size()) + draft_ms;
        }
        test::report(*policy, machine, tree, right, draft_ms);
      }
      double best = 0;
      for (int levels = 0; levels <= 16; ++levels)
        best = std::max(best, chain_rate(p, levels, kRowMs, pass_ms));
      EXPECT_GT(tokens / ms, 0.96 * best) << "p " << p << ", pass " << pass_ms << " ms";
    }
  }
}

TEST(ThroughputPolicy, AsksForTheFirstPassWhatItCostsOnTop) {
  for (const double first_pass_ms : {0.0, 20.0}) {
    CostProfile profile = Machine::profile(0.4, 0.5);
    profile.first_pass_ms = first_pass_ms;
    Machine machine(profile);
    auto policy = machine.policy("throughput");
    ASSERT_GT(policy->plan(alone()).nodes, 0);
    EXPECT_EQ(policy->start(DraftTree(0), 0), first_pass_ms == 0) << first_pass_ms;
  }
}

TEST(ThroughputPolicy, AsksForTheFirstPassWhatTheTokensTakeThatItTakesIn) {
  CostProfile profile = Machine::profile(0.4, 0.5);
  profile.waiting_row_ms = 0.1;
  Machine machine(profile);
  for (const int waiting : {0, 80, 100}) {  // the last take all of a token's time
    auto policy = machine.policy("throughput");
    PlanContext context = alone();
    context.position = 500;  // says nothing of it
    ASSERT_GT(policy->plan(context).nodes, 0);
    EXPECT_EQ(policy->start(DraftTree(0), waiting), waiting < 100) << waiting;
  }
}

TEST(ThroughputPolicy, AsksForThePassesOfJoinedNetworksWhatEachTakes) {
  CostProfile profile = Machine::profile(0.4, 0.5);
  profile.networks.resize(2);
  profile.networks[0].source = 1;
  profile.networks[0].levels = {{1, 0.5}, {16, 0.5}};
  profile.networks[1].source = 4;
  profile.networks[1].levels = {{1, 20}, {16, 20}};
  Machine machine(profile);
  auto policy = machine.policy("throughput");
  for (int round = 0; round < 8; ++round) {
    const TreePlan plan = policy->plan(alone());
    ASSERT_GT(plan.nodes, 0);
    policy->turn_to(1);
    EXPECT_TRUE(policy->start(DraftTree(0), 0));
    policy->turn_to(4);
    if (round == 0) {
      EXPECT_FALSE(policy->start(DraftTree(0), 0)) << "a token takes 10 ms";
    }
    DraftTree tree = chain(1, 0.5);
    cut(*policy, tree, plan, alone());
    report(*policy, machine, tree, 1, /*draft_ms=*/2);
  }
  EXPECT_GT(machine.drafter.of(1).passes.pass_ms(1, machine.costs), 1.5);
  EXPECT_DOUBLE_EQ(machine.drafter.of(4).passes.pass_ms(1, machine.costs), 20)
      << "what the other's took says nothing of it";
}

TEST(ThroughputPolicy, AHeadThatPaidBeforeSurvivesBadFirstRoundsAfterALongPrompt) {
  constexpr double kPassMs = 1;
  Machine machine(0.4, kPassMs);
  machine.drafter.pass_gain.fill(0.3);
  auto policy = machine.policy("throughput");
  const ChainHead head{0.7, kPassMs};
  const PlanContext context = alone();
  int asked = 0, waiting = 127;
  for (int round = 0; round < 12; ++round) {
    DraftTree tree(0);
    double draft_ms = 0;
    const TreePlan plan = policy->plan(context);
    if (plan.nodes > 0 && head.draft(*policy, tree, draft_ms, waiting) > 0) {
      ++asked;
      waiting = 0;
    }
    test::cut(*policy, tree, plan, context);
    test::report(*policy, machine, tree, round < 3 ? 0 : 2, draft_ms);
  }
  EXPECT_GE(asked, 10);
}

TEST(ThroughputPolicy, StopsAskingAHeadThatDoesNotPayButTakesItBackWhenItDoes) {
  Machine machine(0.4, 3);
  auto policy = machine.policy("throughput");
  const ChainHead head{0.7, 3};
  const auto asked_in = [&](int rounds, int right) {
    int asked = 0;
    for (int round = 0; round < rounds; ++round) {
      DraftTree tree(0);
      double draft_ms = 0;
      const TreePlan plan = policy->plan(alone());
      asked += head.draft(*policy, tree, draft_ms) > 0 ? 1 : 0;
      test::cut(*policy, tree, plan, alone());
      test::report(*policy, machine, tree, right, draft_ms);
    }
    return asked;
  };
  EXPECT_LT(asked_in(300, 0), 15);
  asked_in(600, 16);
  EXPECT_EQ(asked_in(20, 16), 20);
}

TEST(ThroughputPolicy, AHeadThatTakesInWhatItMissedIsNotTakenForASlowOne) {
  // A pass takes 0.5 ms, and the first after a pause as much again for each four tokens missed.
  Machine machine(0.4, 0.5);
  const ChainHead head{0.5, 0.5};
  std::mt19937 random(2);
  std::uniform_real_distribution<double> uniform(0, 1);
  int drafts = 0;
  for (int answer = 0; answer < 30; ++answer) {
    auto policy = machine.policy("throughput");
    const PlanContext context = alone();
    int missed = 100;
    drafts = 0;
    for (int round = 0; round < 100; ++round) {
      DraftTree tree(0);
      double draft_ms = 0;
      const TreePlan plan = policy->plan(context);
      if (plan.nodes > 0 && head.draft(*policy, tree, draft_ms, missed) > 0) {
        draft_ms += 0.125 * missed;
        missed = 0;
        ++drafts;
      }
      test::cut(*policy, tree, plan, context);
      // The first answers are none of the head's kind.
      int right = 0;
      while (answer > 5 && right < 20 && uniform(random) < head.p) ++right;
      missed += 1 + std::min(right, tree.draft_nodes());
      test::report(*policy, machine, tree, right, draft_ms);
    }
  }
  EXPECT_GT(drafts, 60);
}

TEST(ThroughputPolicy, ATablesPausesDoNotLengthenThoseOfTheHead) {
  Machine machine(0.4, 1);
  auto policy = machine.policy("throughput");
  int tried = 0;
  for (int round = 0; round < 6000; ++round) {
    DraftTree tree(0);
    const TreePlan plan = policy->plan(alone());
    double draft_ms = 0;
    if (plan.nodes > 0) {
      draft_ms = 0.1;  // a hundredth of a token, in vain
      if (policy->start(tree, 0)) {
        ++tried;
        draft_ms += 1;
        tree.add(0, 1, ln(0.5));
      }
      tree.add(0, 3, ln(0.05));
    }
    test::cut(*policy, tree, plan, alone());
    test::report(*policy, machine, tree, 0, draft_ms);
  }
  EXPECT_GT(tried, 6000 / 2 / 65);
}

TEST(ThroughputPolicy, WhatAGrammarAsksForIsNoGainOfTheHeads) {
  Machine machine(0.3, 4);
  auto policy = machine.policy("throughput");
  int asked = 0;
  for (int round = 0; round < 300; ++round) {
    DraftTree tree(0);
    const TreePlan plan = policy->plan(alone());
    if (plan.nodes > 0 && policy->start(tree, 0)) {
      ++asked;
      tree.add(0, 5, ln(0.5));  // wrong
    }
    tree.add(0, 1, 0, kForcedSource);
    test::cut(*policy, tree, plan, alone());
    const NodeId forced = tree.child(0, 1);
    const std::vector<NodeId> accepted = {0, forced};
    const std::vector<TokenId> emitted = {1, 2};
    RoundOutcome outcome;
    outcome.tree = &tree;
    outcome.accepted = forced > 0 ? std::span(accepted) : std::span(accepted).first(1);
    outcome.emitted = forced > 0 ? std::span(emitted) : std::span(emitted).first(1);
    outcome.draft_ms = outcome.own_draft_ms = tree.child(0, 5) > 0 ? 4 : 0.001;
    outcome.sharers = 1;
    outcome.draft_rows = tree.draft_nodes();
    outcome.batch_tokens = static_cast<int>(outcome.emitted.size());
    policy->learn(outcome);
  }
  EXPECT_LT(asked, 30);
}

TEST(ThroughputPolicy, WhatMustFollowIsAsLikelyAsWhatItFollows) {
  Calibration calibration;  // of a drafter that is less often right than it believes
  for (int trial = 0; trial < 100; ++trial) {
    for (int depth = 1; depth <= 4; ++depth) calibration.observe(depth, 1, trial % 5 < 3);
  }
  NodeWorth worth({&calibration, 1});
  DraftTree tree(0);
  NodeId node = tree.add(0, 1, ln(0.9));
  for (int i = 0; i < 3; ++i) node = tree.add(node, 2, tree[node].log_p, kForcedSource);
  worth.rank(tree);
  EXPECT_LT(worth.chances()[0], 0.8);
  for (const double chance : worth.chances()) EXPECT_EQ(chance, worth.chances()[0]);
}

TEST(ThroughputPolicy, SameCostsGiveTheSameTrees) {
  const auto sizes = [] {
    Machine machine(0.5);
    auto policy = machine.policy("throughput");
    std::vector<int> result;
    for (int round = 0; round < 100; ++round)
      result.push_back(play(*policy, machine, chain(12, 0.7), round * 7 % 13));
    return result;
  };
  EXPECT_EQ(sizes(), sizes());
}

TEST(ThroughputPolicy, APromptInTheRoundMakesDraftsNoCheaper) {
  for (const int prompt_rows : {0, 128}) {
    Machine machine(2);
    auto policy = machine.policy("throughput");
    PlanContext context = alone();
    context.other_rows = prompt_rows;
    context.prompt_rows = prompt_rows;
    for (int round = 0; round < 3; ++round) {
      DraftTree tree(0);
      tree.add(0, 1, ln(0.6));
      tree.add(0, 2, ln(0.25));
      tree.add(0, 3, ln(0.1));
      const TreePlan plan = policy->plan(context);
      cut(*policy, tree, plan, context);
      EXPECT_EQ(tree.draft_nodes(), 2) << prompt_rows << " rows of prompts, round " << round;
    }
  }
}

TEST(ThroughputPolicy, CutsADrawnTreeByPlaceAndNotByToken) {
  Machine machine(0.5);
  for (const double uniform : {0.1, 0.9}) {  // a likely and an unlikely token
    auto policy = machine.policy("throughput");
    DraftTree tree(0);
    tree.draw_children(0, {{{2, 0.8}, {4, 0.2}}}, 2, [&](int) { return uniform; });
    cut(*policy, tree);
    EXPECT_EQ(tree.draft_nodes(), 2) << uniform;
  }
}

}  // namespace
}  // namespace talon::throughput_test
