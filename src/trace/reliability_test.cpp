#include "trace/reliability.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "trace/round_tally.h"

namespace talon::reliability_test {
namespace {

/// A round whose root has one child of that chance, right or wrong.
void play(Reliability& reliability, double chance, bool right) {
  DraftTree tree(0);
  tree.add(0, 1, static_cast<float>(std::log(chance)));
  const std::vector<NodeId> accepted = right ? std::vector<NodeId>{0, 1} : std::vector<NodeId>{0};
  const std::vector<TokenId> emitted = right ? std::vector<TokenId>{1, 5} : std::vector<TokenId>{5};
  RoundReport round;
  round.tree = &tree;
  round.accepted = accepted;
  round.emitted = emitted;
  reliability.add(round);
}

TEST(Reliability, CountsATrialPerChildOfATokenThatBecameText) {
  Reliability reliability;
  play(reliability, 0.8, true);
  play(reliability, 0.8, false);
  const auto& diagram = reliability.before(1);
  EXPECT_EQ(diagram.trials(), 2);
  EXPECT_NEAR(diagram.calibration_error(), std::abs(1 - 1.6) / 2, 1e-6);
  EXPECT_NEAR(diagram.brier(), (0.04 + 0.64) / 2, 1e-6);
  EXPECT_EQ(reliability.before(2).trials(), 0);
  EXPECT_EQ(reliability.before(0).trials(), 2);
}

TEST(Reliability, WhatAGrammarForcesIsNoTrialOfTheDrafter) {
  DraftTree tree(0);
  tree.add(0, 1, 0, kForcedSource);
  tree.add(1, 2, -1);
  const std::vector<NodeId> accepted = {0, 1, 2};
  const std::vector<TokenId> emitted = {1, 2, 3};
  RoundReport round;
  round.tree = &tree;
  round.accepted = accepted;
  round.emitted = emitted;
  Reliability reliability;
  reliability.add(round);
  EXPECT_EQ(reliability.before(1).trials(), 0);
  EXPECT_EQ(reliability.before(2).trials(), 1);

  RoundTally tally;
  tally.add(round);
  EXPECT_EQ(tally.accepted, 2);
  EXPECT_EQ(tally.tried, (std::vector<int>{0, 1}));
  EXPECT_EQ(tally.right, (std::vector<int>{0, 1}));
  int trials = 0;
  for (const RoundTally::Bucket& bucket : tally.calibration) trials += bucket.trials;
  EXPECT_EQ(trials, 1);
}

TEST(Reliability, OnlineCorrectionBringsADrafterThatIsTooSureNearTheDiagonal) {
  Reliability reliability;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int i = 0; i < 3000; ++i) {
    const double chance = uniform(random);
    play(reliability, std::max(chance, 0.01), uniform(random) < 0.5 * chance);
  }
  EXPECT_GT(reliability.before(0).calibration_error(), 0.2);
  EXPECT_LT(reliability.after(0).calibration_error(), 0.05);
  EXPECT_LT(reliability.after(0).brier(), reliability.before(0).brier());
}

TEST(Reliability, LinesHoldEveryTrialOfBothStages) {
  Reliability reliability;
  for (int i = 0; i < 10; ++i) play(reliability, 0.3, i % 3 == 0);
  int before = 0, after = 0;
  for (const Json& line : reliability.lines()) {
    if (line["depth"] != 1) continue;
    (line["stage"] == "before" ? before : after) += line["trials"].get<int>();
  }
  EXPECT_EQ(before, 10);
  EXPECT_EQ(after, 10);
}

}  // namespace
}  // namespace talon::reliability_test
