#include "tree/policies/throughput/neighbour_lengths.h"

#include <gtest/gtest.h>

#include <array>

#include "tree/policies/test_machine.h"
#include "tree/policies/throughput/node_worth.h"

namespace talon::neighbour_lengths_test {
namespace {

TEST(NeighbourLengths, AreThoseAtTheLeftAndAbove) {
  NeighbourLengths lengths(4);
  EXPECT_EQ(lengths.neighbourhood(1), 0U);
  lengths.learn(1, 1, 0);
  EXPECT_EQ(lengths.neighbourhood(2), 1U);
  lengths.learn(2, 3, 2);  // to place 4, the next row's first
  EXPECT_EQ(lengths.neighbourhood(5), 2U) << "0 above and 2 at the left";
  lengths.learn(5, 1, 8);
  EXPECT_EQ(lengths.neighbourhood(6), 3U) << "2 and 8";
  lengths.learn(6, 2, -1);
  EXPECT_EQ(lengths.neighbourhood(8), 2U) << "a row has nothing at its left, and 2 above";
}

TEST(NeighbourLengths, OfATextIsThatOfTheTokenBefore) {
  NeighbourLengths lengths(0);
  lengths.learn(1, 2, 5);
  EXPECT_EQ(lengths.neighbourhood(3), 3U);
  lengths.learn(3, 1, -1);
  EXPECT_EQ(lengths.neighbourhood(4), 0U) << "nothing was drafted there";
  lengths.learn(2, 1, 1);  // set back
  EXPECT_EQ(lengths.neighbourhood(3), 2U);
  EXPECT_EQ(lengths.neighbourhood(4), 0U);
}

TEST(NodeWorth, LearnsChancesForEachKindOfPlaces) {
  std::array<Calibration, 2> shared;
  NodeWorth worth(shared);
  const DraftTree tree = test::chain(1, 0.5);
  const std::array<TokenId, 1> right = {1}, wrong = {2};
  for (int i = 0; i < 50; ++i) {
    worth.begin_round(0);
    worth.rank(tree);
    worth.learn(right);
    worth.begin_round(1);
    worth.rank(tree);
    worth.learn(wrong);
  }
  const auto chance = [&](NodeWorth& of, std::size_t kind) {
    of.begin_round(kind);
    of.rank(tree);
    return of.chances()[0];
  };
  NodeWorth of_another(shared);
  for (NodeWorth* each : {&worth, &of_another}) {
    EXPECT_GT(chance(*each, 0), 0.8);
    EXPECT_LT(chance(*each, 1), 0.2);
  }
}

/// Nodes that are bought for a drafter that is right for ten rounds, then wrong for ten, and always
/// half sure: those that were wrong, after a while.
int bought_in_vain(const char* policy_text) {
  test::Machine machine(2);
  const auto policy = machine.policy(policy_text);
  int bought = 0, at = 0;
  for (int round = 0; round < 200; ++round) {
    PlanContext context = test::alone();
    context.answer_position = at;
    DraftTree tree = test::chain(1, 0.5);
    test::cut(*policy, tree, context);
    const int right = round / 10 % 2 == 0 ? 1 : 0;
    if (round >= 100 && right == 0) bought += tree.draft_nodes();
    test::report(*policy, machine, tree, right);
    at += 1 + std::min(right, tree.draft_nodes());
  }
  return bought;
}

TEST(ThroughputPolicy, WithNeighboursBuysLessWhereDraftsJustFailed) {
  const int without = bought_in_vain("throughput");
  EXPECT_GT(without, 25);
  EXPECT_LT(bought_in_vain("throughput:neighbours=on"), without / 2);
}

}  // namespace
}  // namespace talon::neighbour_lengths_test
