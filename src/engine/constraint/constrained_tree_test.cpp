#include "engine/constraint/constrained_tree.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <set>

#include "core/error.h"
#include "core/philox.h"

namespace talon::constrained_tree_test {
namespace {

/// Of eight tokens those for which `rule` holds may follow. Each question takes `price`.
class TestConstraint : public TokenConstraint {
 public:
  using Rule = std::function<bool(const AnswerTokens& answer, TokenId token)>;
  explicit TestConstraint(Rule rule, std::uint64_t price = 0)
      : rule_(std::move(rule)), price_(price) {}

  std::span<const std::uint32_t> allowed(const AnswerTokens& answer) override {
    word_ = 0;
    work_ += price_;
    for (TokenId token = 0; token < 8; ++token) {
      if (rule_(answer, token)) word_ |= 1u << token;
    }
    return {&word_, 1};
  }
  bool allows(const AnswerTokens& answer, TokenId token) override {
    work_ += price_;
    return rule_(answer, token);
  }
  std::vector<TokenId> forced(const AnswerTokens& answer) override {
    std::vector<TokenId> tokens, path(answer.path.begin(), answer.path.end());
    while (std::has_single_bit(allowed({answer.committed, path})[0]) && tokens.size() < 10) {
      tokens.push_back(std::countr_zero(word_));
      path.push_back(tokens.back());
    }
    return tokens;
  }
  bool is_complete(const AnswerTokens&) override { return false; }
  std::uint64_t work() const override { return work_; }

 private:
  Rule rule_;
  std::uint64_t price_, work_ = 0;
  std::uint32_t word_ = 0;
};

/// After 0 come 1 or 2, after 1 only 3, then only 4, after 2 anything, after 4 anything but 5.
bool follows(const AnswerTokens& answer, TokenId token) {
  switch (answer[answer.size() - 1]) {
    case 0:
      return token == 1 || token == 2;
    case 1:
      return token == 3;
    case 3:
      return token == 4;
    case 4:
      return token != 5;
    default:
      return true;
  }
}

const std::vector<TokenId> kAnswer = {0};

/// Of which a round may ask `questions`.
RoundConstraint round_constraint(int questions = 1'000'000) {
  const auto count = static_cast<std::uint64_t>(questions);
  const std::uint64_t price = (RoundConstraint::kMostWork + count - 1) / count;
  return RoundConstraint(std::make_unique<TestConstraint>(follows, price));
}

std::vector<std::vector<TokenId>> paths(const DraftTree& tree) {
  std::vector<std::vector<TokenId>> all;
  for (NodeId node = 1; node < tree.size(); ++node) {
    std::vector<TokenId> path;
    for (const NodeId id : tree.path(node)) {
      if (id != 0) path.push_back(tree[id].token);
    }
    all.push_back(path);
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(ConstrainedTree, LosesWhatCannotBecomeTextAndWhatIsBelow) {
  RoundConstraint constraint = round_constraint();
  DraftTree tree(0);
  const NodeId one = tree.add(0, 1, -0.1F);
  const NodeId five = tree.add(0, 5, -0.2F);
  tree.add(five, 6, -0.3F);
  const NodeId two = tree.add(0, 2, -0.3F);
  tree.add(one, 2, -0.4F);
  const NodeId three = tree.add(one, 3, -0.5F);
  tree.add(two, 5, -0.6F);
  tree.add(three, 4, -0.7F);
  drop_forbidden(tree, constraint, kAnswer);
  check_invariants(tree);
  const std::vector<std::vector<TokenId>> expected = {{1}, {1, 3}, {1, 3, 4}, {2}, {2, 5}};
  EXPECT_EQ(paths(tree), expected);
}

TEST(DraftTree, LosesTokensThatNoAnswerHoldsAndWhatIsBelow) {
  DraftTree tree(7);
  const NodeId code = tree.add(0, 3, -1), word = tree.add(0, 10, -1);
  tree.add(word, 4, -2);
  tree.add(code, 9, -2);
  tree.add(tree.add(0, -1, -2), 3, -3);
  drop_unknown_tokens(tree, 10);
  ASSERT_EQ(tree.size(), 3);
  EXPECT_EQ(tree.tokens(), (std::vector<TokenId>{7, 3, 9}));
  EXPECT_EQ(tree.parents(), (std::vector<NodeId>{-1, 0, 1}));
}

TEST(ConstrainedTree, GetsWhatMustFollowAsLikelyAsWhatItFollows) {
  RoundConstraint constraint = round_constraint();
  DraftTree tree(0);
  tree.add(0, 1, -0.25F);
  tree.add(0, 2, -0.5F);
  DraftTree roomy = tree;
  add_forced(roomy, constraint, kAnswer, {.nodes = 9, .levels = 9}, 4);
  check_invariants(roomy);
  const std::vector<std::vector<TokenId>> expected = {{1}, {1, 3}, {1, 3, 4}, {2}};
  EXPECT_EQ(paths(roomy), expected);
  EXPECT_EQ(roomy[3].log_p, -0.25F);
  EXPECT_EQ(roomy[3].sources, 4U);

  DraftTree small = tree;
  add_forced(small, constraint, kAnswer, {.nodes = 3, .levels = 9}, 4);
  EXPECT_EQ(small.draft_nodes(), 3);
  DraftTree low = tree;
  add_forced(low, constraint, kAnswer, {.nodes = 9, .levels = 2}, 4);
  EXPECT_EQ(low.draft_nodes(), 3);
  DraftTree known = tree;
  add_forced(known, constraint, kAnswer, {.nodes = 9, .levels = 9, .vocabulary = 4}, 4);
  EXPECT_EQ(paths(known), (std::vector<std::vector<TokenId>>{{1}, {1, 3}, {2}}));
  DraftTree root_only = tree;
  add_forced_at_root(root_only, constraint, kAnswer, {.nodes = 9, .levels = 9}, 4);
  EXPECT_EQ(paths(root_only), paths(tree));
  const std::vector<TokenId> after_one = {0, 1};
  DraftTree certain(1);
  add_forced_at_root(certain, constraint, after_one, {.nodes = 9, .levels = 9}, 4);
  EXPECT_EQ(certain.tokens(), (std::vector<TokenId>{1, 3, 4}));
}

/// A node is asked about after those above it and those of earlier branches.
TEST(ConstrainedTree, IsCutWhereARoundMayAskNoMore) {
  DraftTree tree(0);
  const NodeId one = tree.add(0, 1, -0.1F);
  const NodeId two = tree.add(0, 2, -0.2F);
  const NodeId three = tree.add(one, 3, -0.3F);
  tree.add(two, 5, -0.4F);
  tree.add(three, 4, -0.5F);
  const std::vector<std::vector<TokenId>> all = {{1}, {1, 3}, {1, 3, 4}, {2}, {2, 5}};
  for (int questions = 1; questions <= 5; ++questions) {
    RoundConstraint constraint = round_constraint(questions);
    for (int round = 0; round < 2; ++round) {
      constraint.begin_round();
      DraftTree cut = tree;
      drop_forbidden(cut, constraint, kAnswer);
      check_invariants(cut);
      EXPECT_EQ(paths(cut), std::vector(all.begin(), all.begin() + questions));
      EXPECT_TRUE(constraint.is_spent());
      add_forced(cut, constraint, kAnswer, {.nodes = 99, .levels = 99}, 4);
      EXPECT_EQ(cut.draft_nodes(), questions);
      EXPECT_THROW(constraint.allows({kAnswer, all[4]}, 3), Error);
      EXPECT_TRUE(constraint.allows({kAnswer, {}}, 1)) << "as plain decoding asks";
    }
  }
}

/// Both 1 and 2 below the root, drawn, and below each of them a 3.
DraftTree drawn_tree(std::uint64_t seed) {
  const PositionRandom random(seed, 0);
  DraftTree tree(0);
  tree.draw_children(0, Law<double>{{{1, 0.5}, {2, 0.5}}}, 2, [&](int i) {
    return random.uniform(0, RandomUse::draft, static_cast<std::uint32_t>(i));
  });
  for (NodeId node = 1; node <= 2; ++node)
    tree.draw_children(node, Law<double>::certain(3), 1, [](int) { return 0.5; });
  return tree;
}

/// Which of them are left tells nothing of what they are.
TEST(ConstrainedTree, DrawnChildrenAreCutTogetherWhateverTheyAre) {
  for (int questions = 1; questions <= 4; ++questions) {
    std::set<int> sizes;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      RoundConstraint constraint = round_constraint(questions);
      DraftTree tree = drawn_tree(seed);
      drop_forbidden(tree, constraint, kAnswer);
      check_invariants(tree);
      sizes.insert(tree.draft_nodes());
    }
    EXPECT_EQ(sizes, std::set<int>{std::min(questions + 1, 4)});
  }
}

/// Else what they are would decide whether they are checked.
TEST(ConstrainedTree, WhatMayFollowPlacesWithDrawnChildrenIsToldInTheCheck) {
  RoundConstraint constraint = round_constraint(2);
  DraftTree tree = drawn_tree(1);
  drop_forbidden(tree, constraint, kAnswer);
  EXPECT_TRUE(constraint.is_spent());
  const std::vector<TokenId> first = {tree[1].token}, second = {tree[2].token};
  EXPECT_TRUE(tree.children(2).empty());
  constraint.allowed({kAnswer, {}});
  EXPECT_THROW(constraint.allowed({kAnswer, second}), Error);
  EXPECT_NE(constraint.allowed({kAnswer, first})[0] & 1u << 3, 0u);
}

TEST(ConstrainedTree, APlaceThatWasToldIsToldAgain) {
  RoundConstraint constraint = round_constraint(1);
  const std::vector<TokenId> one = {1}, two = {2};
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(constraint.allows({kAnswer, one}, 3));
  EXPECT_THROW(constraint.allows({kAnswer, two}, 3), Error);
}

/// What cannot be told below a drawn node costs what is below it, and not the node.
TEST(ConstrainedTree, DrawnNodesStayWhereNothingCanBeToldBelowThem) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    RoundConstraint constraint(std::make_unique<TestConstraint>(
        [](const AnswerTokens& answer, TokenId token) {
          if (answer[answer.size() - 1] == 2) fail("not known");
          return follows(answer, token);
        },
        0));
    DraftTree tree = drawn_tree(seed);
    drop_forbidden(tree, constraint, kAnswer);
    check_invariants(tree);
    EXPECT_EQ(tree.draft_nodes(), 3);
    EXPECT_NE(tree.child(0, 2), -1);
    add_forced(tree, constraint, kAnswer, {.nodes = 99, .levels = 99}, 4);
    check_invariants(tree);
    EXPECT_EQ(tree.draft_nodes(), 4) << "a 4 after 1, 3";
  }
}

/// What is left of drawn children is drawn from what is left of their law: the first allowed one is
/// distributed by it, whatever was drawn beside it. Tokens that the constraint does not know are
/// not allowed.
TEST(ConstrainedTree, DrawnChildrenKeepTheLawOfThoseThatAreAllowed) {
  RoundConstraint constraint = round_constraint();
  const Law<double> law{{{-1, 0}, {1, 0.3}, {2, 0.1}, {5, 0.4}, {6, 0.2}, {40, 0}}};
  constexpr int kTrials = 4000;
  int with_children = 0, ones = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const PositionRandom random(static_cast<std::uint64_t>(trial), 0);
    DraftTree tree(0);
    tree.draw_children(0, law, 2, [&](int i) {
      return random.uniform(0, RandomUse::draft, static_cast<std::uint32_t>(i));
    });
    drop_forbidden(tree, constraint, kAnswer);
    check_invariants(tree);
    if (tree.draft_nodes() == 0) {
      EXPECT_EQ(tree.drawn_from(0), nullptr);
      continue;
    }
    ASSERT_NE(tree.drawn_from(0), nullptr);
    EXPECT_NEAR(tree.drawn_from(0)->of(1), 0.75, 1e-12);
    EXPECT_EQ(tree.drawn_from(0)->of(5), 0);
    ++with_children;
    ones += tree[1].token == 1 ? 1 : 0;
  }
  // Five standard deviations of a binomial law: one false alarm in a million.
  const double share = static_cast<double>(ones) / with_children;
  EXPECT_NEAR(share, 0.75, 5 * std::sqrt(0.75 * 0.25 / with_children));
}

}  // namespace
}  // namespace talon::constrained_tree_test
