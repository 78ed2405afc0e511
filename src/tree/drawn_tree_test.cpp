#include <gtest/gtest.h>

#include <map>
#include <random>

#include "core/error.h"
#include "tree/draft_tree.h"

namespace talon::drawn_tree_test {
namespace {

const Law<double> kLaw = {{{2, 0.1}, {4, 0.5}, {7, 0.4}}};

/// Children 4 and 7 of the root, drawn; a fixed child 9 of the first of them.
DraftTree drawn_tree() {
  DraftTree tree(1);
  tree.draw_children(0, kLaw, 2, [](int index) { return index == 0 ? 0.3 : 0.9; });
  tree.add(1, 9, -3.0f);
  return tree;
}

TEST(DrawnChildren, AreDrawnInOrderWithoutReplacement) {
  const DraftTree tree = drawn_tree();
  EXPECT_EQ(tree.tokens(), (std::vector<TokenId>{1, 4, 7, 9}));
  ASSERT_NE(tree.drawn_from(0), nullptr);
  EXPECT_EQ(tree.drawn_from(1), nullptr);
  EXPECT_DOUBLE_EQ(tree.drawn_from(0)->total(), 1.0);
  check_invariants(tree);
}

TEST(DrawnChildren, AreFewerWhenFewerTokensHaveWeight) {
  DraftTree tree(1);
  tree.draw_children(0, {{{3, 2.0}, {5, 0.0}}}, 4, [](int) { return 0.999; });
  EXPECT_EQ(tree.tokens(), (std::vector<TokenId>{1, 3}));
  EXPECT_DOUBLE_EQ(tree.drawn_from(0)->of(3), 1.0);
}

TEST(DrawnChildren, AppearAsOftenAsTheirLawSays) {
  // 30000 draws: a share is off by 0.015, five standard deviations, less than once in a million
  // seeds.
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::map<std::pair<TokenId, TokenId>, int> counts;
  for (int i = 0; i < 30000; ++i) {
    DraftTree tree(0);
    tree.draw_children(0, kLaw, 2, [&](int) { return uniform(random); });
    ++counts[{tree[1].token, tree[2].token}];
  }
  EXPECT_NEAR(counts.at({4, 7}) / 30000.0, 0.5 * 0.8, 0.015);
  EXPECT_NEAR(counts.at({7, 4}) / 30000.0, 0.4 * 0.5 / 0.6, 0.015);
}

TEST(DrawnChildren, TakeNoOthersBesideThem) {
  DraftTree tree = drawn_tree();
  EXPECT_THROW(tree.add(0, 2, -1.0f), Bug);
  EXPECT_EQ(tree.add(0, 7, -9.0f), 2);
  EXPECT_THROW(tree.draw_children(1, kLaw, 1, [](int) { return 0.5; }), Bug);
}

TEST(DrawnChildren, AreNeverChosenFromByTheirScore) {
  DraftTree tree = drawn_tree();
  EXPECT_THROW(tree.keep(std::vector<NodeId>{1, 3}), Bug);
  tree.keep(std::vector<NodeId>{1, 2});
  EXPECT_NE(tree.drawn_from(0), nullptr);
  tree = drawn_tree();
  tree.prune(1);  // cut from the end, though the second may be likelier
  EXPECT_EQ(tree.tokens(), (std::vector<TokenId>{1, 4}));
}

TEST(DrawnChildren, KeepTheirLawWhenNodesGetNewIds) {
  DraftTree tree(0);
  tree.add(0, 1, -5.0f);
  tree.add(0, 2, -0.5f);
  tree.draw_children(2, kLaw, 2, [](int) { return 0.5; });
  const std::vector<NodeId> all_but_one = {2, 3, 4};
  tree.keep(all_but_one);
  EXPECT_NE(tree.drawn_from(1), nullptr);
  EXPECT_EQ(tree.drawn_from(2), nullptr);
  check_invariants(tree);
}

TEST(DraftTree, SourcesOfANodeAddUp) {
  DraftTree tree(0);
  tree.add(0, 1, -1.0f);
  tree.add(0, 1, -2.0f, 4);
  tree.add(0, 2, -2.0f, 4);
  EXPECT_EQ(tree[0].sources, 0u);
  EXPECT_EQ(tree[1].sources, 5u);
  EXPECT_EQ(tree[2].sources, 4u);
  tree.prune(1);
  EXPECT_EQ(tree[1].sources, 5u);
}

}  // namespace
}  // namespace talon::drawn_tree_test
