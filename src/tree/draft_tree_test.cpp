#include "tree/draft_tree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/error.h"

namespace talon::draft_tree_test {
namespace {

/// 0 -> 1 (a), 2 (b); 1 -> 3 (c); 3 -> 4 (d)
DraftTree small_tree() {
  DraftTree tree(7);
  tree.add(0, 10, -0.1f);
  tree.add(0, 11, -2.0f);
  tree.add(1, 12, -0.5f);
  tree.add(3, 13, -3.0f);
  return tree;
}

TEST(DraftTree, DerivesDepthsPathsAndChildrenFromParents) {
  const DraftTree tree = small_tree();
  EXPECT_EQ(tree.draft_nodes(), 4);
  EXPECT_EQ(tree.depth(0), 0);
  EXPECT_EQ(tree.depth(4), 3);
  EXPECT_EQ(tree.levels(), 3);
  EXPECT_EQ(DraftTree(7).levels(), 0);
  EXPECT_EQ(tree.path(4), (std::vector<NodeId>{0, 1, 3, 4}));
  EXPECT_EQ(tree.child(0, 11), 2);
  EXPECT_EQ(tree.child(0, 12), -1);
  EXPECT_NO_THROW(check_invariants(tree));
}

TEST(DraftTree, AddingAKnownChildKeepsOneNodeWithTheLargerLogP) {
  DraftTree tree = small_tree();
  EXPECT_EQ(tree.add(0, 11, -1.0f), 2);
  EXPECT_EQ(tree[2].log_p, -1.0f);
  EXPECT_EQ(tree.add(0, 11, -5.0f), 2);
  EXPECT_EQ(tree[2].log_p, -1.0f);
  EXPECT_EQ(tree.size(), 5);
}

TEST(DraftTree, AChildIsNeverLikelierThanItsParent) {
  DraftTree tree = small_tree();
  const NodeId child = tree.add(2, 50, -0.01f);
  EXPECT_EQ(tree[child].log_p, tree[2].log_p);
}

TEST(DraftTree, PruneKeepsTheBestNodesInTheirOrder) {
  DraftTree tree = small_tree();
  tree.prune(2);
  EXPECT_EQ(tree.tokens(), (std::vector<TokenId>{7, 10, 12}));
  EXPECT_EQ(tree.parents(), (std::vector<NodeId>{-1, 0, 1}));
  tree.prune(0);
  EXPECT_EQ(tree.tokens(), (std::vector<TokenId>{7}));
}

TEST(DraftTree, PruneBreaksTiesByDepthThenByOrder) {
  DraftTree tree(1);
  tree.add(0, 2, -1.0f);
  tree.add(1, 3, -1.0f);
  tree.add(0, 4, -1.0f);
  tree.add(0, 5, -1.0f);
  tree.prune(2);
  EXPECT_EQ(tree.tokens(), (std::vector<TokenId>{1, 2, 4}));
}

TEST(DraftTree, PruningRandomTreesKeepsTheInvariantsAndTheWholeRanking) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    DraftTree tree(0);
    for (int i = 0; i < 40; ++i) {
      const auto parent = static_cast<NodeId>(random() % static_cast<unsigned>(tree.size()));
      const float step = -static_cast<float>(random() % 4);
      tree.add(parent, static_cast<TokenId>(random() % 6), tree[parent].log_p + step);
    }
    check_invariants(tree);
    std::vector<float> before = tree.log_ps();
    std::sort(before.rbegin(), before.rend());
    tree.prune(12);
    check_invariants(tree);
    std::vector<float> after = tree.log_ps();
    std::sort(after.rbegin(), after.rend());
    before.resize(std::min<std::size_t>(before.size(), 13));
    EXPECT_EQ(after, before);
  }
}

TEST(DraftTree, KeepRefusesANodeWhoseParentIsDropped) {
  DraftTree tree = small_tree();
  EXPECT_THROW(tree.keep(std::vector<NodeId>{3}), Bug);
}

TEST(DraftTree, InvariantsCatchABrokenTree) {
  DraftTree tree = small_tree();
  tree[1].parent = 3;
  EXPECT_THROW(check_invariants(tree), Bug);
  tree = small_tree();
  tree[2].token = 10;
  EXPECT_THROW(check_invariants(tree), Bug);
  tree = small_tree();
  tree[4].log_p = 0.0f;
  EXPECT_THROW(check_invariants(tree), Bug);
}

TEST(DraftTree, ProbesAreNoTrialsAndHaveProbesBelowThemOnly) {
  DraftTree tree = small_tree();
  const NodeId probe = tree.add_probe(1, 20, -0.2f);
  EXPECT_EQ(tree.child(1, 20), -1);
  EXPECT_THROW(tree.add(probe, 21, -0.3f), Bug);
  tree.add_probe(probe, 21, -0.3f);
  EXPECT_NO_THROW(check_invariants(tree));
  std::vector<NodeId> tried;
  const std::vector<TokenId> text = {10, 20, 21};
  EXPECT_EQ(tree.for_each_trial(text, [&](NodeId node, bool) { tried.push_back(node); }), 1);
  EXPECT_EQ(tried, (std::vector<NodeId>{1, 2, 3}));
  EXPECT_EQ(tree.add(1, 20, -0.4f), probe);  // another drafter's candidate: what was a probe is one
  EXPECT_EQ(tree.child(1, 20), probe);
}

TEST(DraftTree, ALogPThatIsNoNumberStaysInTheOrder) {
  DraftTree tree(0);
  tree.add(0, 1, std::nanf(""));
  tree.add(1, 2, -INFINITY);
  tree.add(0, 3, -0.5f);
  EXPECT_NO_THROW(check_invariants(tree));
  EXPECT_EQ(tree.ranked(), (std::vector<NodeId>{3, 1, 2}));
  EXPECT_EQ(tree.step_chance(2), 1);
}

}  // namespace
}  // namespace talon::draft_tree_test
