#include "verify/drawn_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "verify/test_input.h"

namespace talon::drawn_tokens_test {
namespace {

TestInput two_rows(const SamplerOptions& options, std::uint64_t seed = 1) {
  DraftTree tree(3);
  tree.add(0, 1, -1);
  const std::vector<double> p = {0.1, 0.2, 0.4, 0.3};
  return {std::move(tree), {logits_of(p), logits_of(p)}, options, seed};
}

/// All tokens in the order in which they come if those before them may not.
std::vector<TokenId> order_after(const VerifyInput& input, NodeId node) {
  std::vector<TokenId> order = {drawn_token(input, node)};
  for (TokenId next = 0; (next = drawn_without(input, node, order)) >= 0;) order.push_back(next);
  return order;
}

TEST(DrawnWithout, GreedilyTheNextIsTheNextLikeliest) {
  TestInput rows = two_rows({});
  EXPECT_EQ(order_after(rows.input(), 1), (std::vector<TokenId>{2, 3, 1, 0}));
}

TEST(DrawnWithout, AllTokensComeOnceAndOthersThanTheWinnerChangeNothing) {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    TestInput rows = two_rows({.temperature = 1}, seed);
    const VerifyInput input = rows.input();
    std::vector<TokenId> order = order_after(input, 1);
    EXPECT_EQ(drawn_without(input, 1, std::vector<TokenId>{order[1]}), order[0]);
    EXPECT_EQ(drawn_without(input, 1, std::vector<TokenId>{order[0], order[2]}), order[1]);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, (std::vector<TokenId>{0, 1, 2, 3}));
  }
}

TEST(DrawnWithout, WhatIsBannedNeverComes) {
  TestInput rows = two_rows({.temperature = 1, .banned = {2}});
  const std::vector<TokenId> order = order_after(rows.input(), 0);
  EXPECT_EQ(order.size(), 3U);
  EXPECT_EQ(std::count(order.begin(), order.end(), 2), 0);
}

}  // namespace
}  // namespace talon::drawn_tokens_test
