#include "tree/policies/throughput/crowd_trial.h"

#include <gtest/gtest.h>

#include <random>

#include "tree/policies/test_machine.h"

namespace talon::crowd_trial_test {
namespace {

constexpr int kCrowd = 8;

TEST(CrowdTrial, AllAreToldTheSameAndAPauseIsOfRounds) {
  CrowdTrial trial;
  std::vector<int> tried;
  for (int round = 1; round <= 200; ++round) {
    const bool wants = trial.wants(round);
    for (int i = 0; i < kCrowd; ++i) {
      EXPECT_EQ(trial.wants(round), wants) << round;
      if (wants) trial.learn(round, -0.1);
    }
    if (wants) tried.push_back(round);
  }
  EXPECT_EQ(tried, (std::vector<int>{1, 4, 9, 18, 35, 68, 133, 198}));
  EXPECT_TRUE(trial.is_given_up());
  EXPECT_FALSE(trial.pays());
}

TEST(CrowdTrial, IsTriedSoonerAfterAGainThoughTheMeanOfAllIsALoss) {
  CrowdTrial trial;
  long round = 1;
  const auto next_try = [&](double gain) {
    trial.learn(round, gain);
    const long done = round++;
    while (!trial.wants(round)) ++round;
    return round - done - 1;
  };
  for (const int pause : {2, 4, 8, 16}) EXPECT_EQ(next_try(-0.3), pause);
  EXPECT_EQ(next_try(0.1), 8);
  EXPECT_EQ(next_try(-0.3), 16);
}

TEST(CrowdTrial, GoesOnUntilItWasDone) {
  CrowdTrial trial;
  EXPECT_TRUE(trial.wants(1));
  EXPECT_TRUE(trial.wants(2)) << "nobody could afford it";
  trial.learn(2, -1);
  EXPECT_FALSE(trial.wants(3));
}

TEST(CrowdTrial, WhatChanceBringsToOneTextIsNoReasonToPause) {
  std::mt19937 random(3);
  std::normal_distribution<double> gain(0.05, 0.3);
  CrowdTrial trial;
  int tried = 0;
  for (int round = 1; round <= 2000; ++round) {
    if (!trial.wants(round)) continue;
    ++tried;
    for (int i = 0; i < kCrowd; ++i) trial.learn(round, gain(random));
  }
  EXPECT_GT(tried, 1800);
}

/// Eight sequences with a head that guesses one token, and believes it with 0.7. Its row costs a
/// quarter of a token, and a pass that all share a fifth.
class Crowd {
 public:
  Crowd() {
    for (int i = 0; i < kCrowd; ++i) policies_.push_back(machine.policy("throughput"));
  }

  /// Plays a round in which the guesses for the first `right` sequences are right. Returns how many
  /// sequences drafted.
  int play(int right) {
    PlanContext context = test::alone();
    context.sequences = kCrowd;
    context.other_rows = kCrowd - 1;
    context.round = ++machine.rounds;
    std::vector<TreePlan> plans;
    for (const auto& policy : policies_) plans.push_back(policy->plan(context));
    std::vector<DraftTree> trees(policies_.size(), DraftTree(0));
    std::vector<bool> ran;
    for (std::size_t i = 0; i < policies_.size(); ++i) {
      ran.push_back(policies_[i]->start(trees[i], 0));
      if (ran[i]) trees[i].add(0, 1, test::ln(0.7));
    }
    RoundOutcome outcome;
    for (std::size_t i = 0; i < policies_.size(); ++i) {
      test::cut(*policies_[i], trees[i], plans[i], context);
      outcome.draft_rows += trees[i].draft_nodes();
    }
    const auto sharers = static_cast<int>(std::ranges::count(ran, true));
    outcome.draft_ms = sharers > 0 ? machine.drafter.passes.pass_ms(sharers, machine.costs) : 0;
    outcome.sequences = kCrowd;
    outcome.batch_tokens = kCrowd + std::min(right, outcome.draft_rows);
    for (std::size_t i = 0; i < policies_.size(); ++i) {
      const bool is_right = static_cast<int>(i) < right;
      outcome.sharers = ran[i] ? sharers : 0;
      outcome.own_draft_ms = ran[i] ? outcome.draft_ms : 0;
      learn(*policies_[i], trees[i], is_right, outcome);
    }
    return sharers;
  }

  test::Machine machine{0.4, 2.4};

 private:
  static void learn(PolicyState& policy, const DraftTree& tree, bool is_right,
                    RoundOutcome outcome) {
    const std::vector<NodeId> accepted = {0, 1};
    const std::vector<TokenId> right = {1, 2}, wrong = {2};
    const bool is_accepted = is_right && tree.draft_nodes() > 0;
    outcome.tree = &tree;
    outcome.accepted = std::span(accepted).first(is_accepted ? 2 : 1);
    outcome.emitted = is_accepted ? std::span(right) : std::span(wrong);
    policy.learn(outcome);
  }

  std::vector<std::unique_ptr<PolicyState>> policies_;
};

TEST(ThroughputInACrowd, AllHaveAPartInPassesThatPayOnTheMean) {
  Crowd crowd;
  EXPECT_EQ(crowd.play(5), kCrowd);
  EXPECT_EQ(crowd.play(5), kCrowd) << "though three found a loss";
}

TEST(ThroughputInACrowd, NoneHasAPartInPassesThatDoNotPayOnTheMean) {
  Crowd crowd;
  EXPECT_EQ(crowd.play(1), kCrowd);
  EXPECT_EQ(crowd.play(1), 0) << "though one found a gain";
  EXPECT_EQ(crowd.play(1), 0);
  EXPECT_EQ(crowd.play(kCrowd), kCrowd) << "after a pause all try again";
}

TEST(ThroughputInACrowd, OncePassesAreGivenUpOneTriesForAllUntilTheyBringSomething) {
  Crowd crowd;
  test::learn_in_a_crowd(crowd.machine, -0.1);
  EXPECT_EQ(crowd.play(0), 1);
  int drafts = 0;
  for (int round = 0; round < 100; ++round) drafts += crowd.play(0);
  EXPECT_LT(drafts, 4);
  test::learn_in_a_crowd(crowd.machine, 1);
  EXPECT_EQ(crowd.play(0), kCrowd - 1) << "all but the one that lost its budget";
}

}  // namespace
}  // namespace talon::crowd_trial_test
