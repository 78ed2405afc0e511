#include "draft/medusa/product_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>

#include "io/json_text.h"

namespace talon::product_tree_test {
namespace {

Json medusa_golden() {
  std::ifstream file(TALON_TEST_DATA "/golden/methods/medusa.json");
  return parse_json(std::string(std::istreambuf_iterator<char>(file), {}), "medusa.json");
}

StaticTree tree_of(const Json& choices) {
  return parse_static_tree(choices.get<std::vector<std::vector<int>>>(), "medusa.json");
}

/// The `count` likeliest tokens of each row of logits.
ProductGuesses guesses_of(const Json& head_logits, std::size_t count) {
  ProductGuesses guesses;
  for (const Json& row : head_logits) {
    const auto logits = row.get<std::vector<double>>();
    double total = 0;
    for (const double logit : logits) total += std::exp(logit);
    std::vector<TokenId> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
      return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
    });
    auto& list = guesses.heads.emplace_back();
    for (const TokenId token : std::span(order).first(std::min(count, order.size()))) {
      const double log_p = logits[static_cast<std::size_t>(token)] - std::log(total);
      list.push_back({token, static_cast<float>(log_p)});
    }
  }
  return guesses;
}

TEST(ProductTree, TheOfficialChoicesGiveTheOfficialCandidates) {
  const Json golden = medusa_golden();
  for (const Json& example : golden["candidates"]) {
    const Json& official = golden["trees"][example["tree"].get<std::string>()];
    const auto expected = example["tree_candidates"].get<std::vector<TokenId>>();
    DraftTree tree(expected[0]);
    place_product_tree(guesses_of(example["medusa_logits"], golden["topk"]),
                       tree_of(official["choices"]), 1000, tree);
    EXPECT_EQ(tree.tokens(), expected);
    EXPECT_EQ(tree.parents(), official["parent"].get<std::vector<NodeId>>());
  }
}

TEST(ProductTree, TheOfficialTreesHaveTheOfficialShapes) {
  const Json golden = medusa_golden();
  for (const auto& [name, official] : golden["trees"].items()) {
    const StaticTree tree = tree_of(official["choices"]);
    std::vector<int> sizes(static_cast<std::size_t>(tree.levels()));
    for (const auto& node : tree.nodes) ++sizes[static_cast<std::size_t>(node.level)];
    EXPECT_EQ(sizes, official["level_sizes"].get<std::vector<int>>()) << name;
  }
}

ProductGuesses two_heads() {
  const auto p = [](double value) { return static_cast<float>(std::log(value)); };
  return {{{{10, p(0.6)}, {11, p(0.3)}}, {{20, p(0.7)}, {10, p(0.2)}}}};
}

TEST(ProductTree, TheLikeliestProductsComeFirst) {
  DraftTree tree(1);
  grow_product_tree(two_heads(), 2, 4, tree);  // 0.6, 0.42, 0.3, 0.21; not 0.12 and 0.06
  check_invariants(tree);
  EXPECT_EQ(tree.tokens(), (std::vector<TokenId>{1, 10, 20, 11, 20}));
  EXPECT_EQ(tree.parents(), (std::vector<NodeId>{-1, 0, 1, 0, 3}));
  EXPECT_NEAR(std::exp(tree[4].log_p), 0.21, 1e-6);
}

TEST(ProductTree, IsTheBestOfAllProductsOfItsSize) {
  const ProductGuesses guesses = guesses_of(medusa_golden()["candidates"][2]["medusa_logits"], 6);
  std::vector<float> all;
  std::vector<float> level = {0};
  for (const auto& head : guesses.heads) {
    std::vector<float> deeper;
    for (const float above : level) {
      for (const auto& guess : head) deeper.push_back(above + guess.log_p);
    }
    all.insert(all.end(), deeper.begin(), deeper.end());
    level = deeper;
  }
  std::sort(all.begin(), all.end(), std::greater<>());
  DraftTree tree(1);
  grow_product_tree(guesses, 4, 40, tree);
  check_invariants(tree);
  ASSERT_EQ(tree.draft_nodes(), 40);
  std::vector<float> kept = tree.log_ps();
  kept.erase(kept.begin());
  std::sort(kept.begin(), kept.end(), std::greater<>());
  all.resize(40);
  EXPECT_EQ(kept, all);
}

TEST(ProductTree, StopsAtItsLevelsAndWhenNothingIsLeft) {
  DraftTree flat(1), whole(1);
  grow_product_tree(two_heads(), 1, 100, flat);
  EXPECT_EQ(flat.tokens(), (std::vector<TokenId>{1, 10, 11}));
  grow_product_tree(two_heads(), 9, 100, whole);
  EXPECT_EQ(whole.draft_nodes(), 6);
}

TEST(ProductTree, GuessesThatAreNotFiniteAreLeftOut) {
  const float nan = std::nanf("");
  const RowChildren heads[] = {{2, {5, 6}, {-1, -2}}, {2, {7, 8}, {nan, nan}}};
  DraftTree tree(1);
  grow_product_tree(ProductGuesses::of(heads, 0), 4, 10, tree);
  EXPECT_EQ(tree.tokens(), (std::vector<TokenId>{1, 5, 6}));
}

TEST(ProductTree, ContinuesBranchesOfOtherDraftersAtTheirDepth) {
  const ProductGuesses guesses{{{{5, -0.5F}, {6, -1.5F}}, {{7, -0.25F}, {8, -2.0F}}}};
  DraftTree tree(1);
  const NodeId other = tree.add(0, 40, -0.125F, /*source=*/1);
  const NodeId known = tree.add(0, 5, -0.75F, /*source=*/1);
  grow_product_tree(guesses, /*levels=*/2, /*nodes=*/3, tree, /*source=*/2);
  ASSERT_EQ(tree.draft_nodes(), 5);
  const NodeId below = tree.child(other, 7);
  ASSERT_GT(below, 0);
  EXPECT_FLOAT_EQ(tree[below].log_p, -0.375F);
  EXPECT_EQ(tree[below].sources, 2U);
  EXPECT_EQ(tree[known].sources, 3U) << "proposed again";
  EXPECT_EQ(tree.child(known, 7), below + 1) << "the next likeliest, once";
  EXPECT_GT(tree.child(0, 6), 0);
}

}  // namespace
}  // namespace talon::product_tree_test
