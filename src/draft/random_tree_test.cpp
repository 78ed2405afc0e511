#include "draft/random_tree.h"

#include <gtest/gtest.h>

namespace talon::random_tree_test {
namespace {

const std::vector<TokenId> kText = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

DraftTree proposal(double hit, std::uint32_t seed) {
  auto drafter =
      make_random_tree_drafter({.nodes = 64, .hit = hit, .vocabulary = 500, .seed = seed}, {kText});
  auto state = drafter->start();
  drafter->observe(*state, {std::span(kText).first(4), 0, {}, false});
  DraftTree tree(4);
  DraftJob job{state.get(), nullptr, {64, 16, 64}, &tree};
  drafter->propose({&job, 1});
  check_invariants(tree);
  return tree;
}

TEST(RandomTree, HoldsTheRightTokensAsOftenAsAsked) {
  for (const double hit : {0.0, 0.5, 1.0}) {
    int hits = 0;
    for (std::uint32_t seed = 0; seed < 200; ++seed) hits += proposal(hit, seed).child(0, 5) > 0;
    // A tree of one or two nodes may have no room for a right token, and a wrong one may be right
    // by chance.
    EXPECT_NEAR(hits, 200 * hit, 30) << hit;
  }
}

TEST(RandomTree, SizesRangeUpToAllNodes) {
  int smallest = 64, largest = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    smallest = std::min(smallest, proposal(0.5, seed).draft_nodes());
    largest = std::max(largest, proposal(0.5, seed).draft_nodes());
  }
  EXPECT_LE(smallest, 3);
  EXPECT_GE(largest, 60);
  EXPECT_LE(largest, 64);
}

}  // namespace
}  // namespace talon::random_tree_test
