#include "draft/growth/drawn_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/error.h"
#include "draft/drawn_law.h"
#include "draft/growth/named_trees.h"
#include "draft/registry.h"

namespace talon::drawn_tree_growth_test {
namespace {

constexpr TokenId kRoot = 9;

/// A head's law after a token, another one after each.
Law<double> law_after(TokenId token) {
  Law<double> law;
  for (TokenId next = 0; next < 8; ++next) law.entries.push_back({next, 1.0 + (token + next) % 5});
  law.divide_by(law.total());
  return law;
}

struct Grown {
  DraftTree tree{kRoot};
  int passes = 0;
};

/// Rows of another sequence come first, as in a batch.
Grown grown(const StaticTree& shape, int nodes, std::uint32_t seed, PolicyState* policy = nullptr) {
  constexpr int kOthers = 2;
  std::mt19937 random(seed);
  const auto growth = grow_drawn_tree(shape, nodes, {policy}, [&](int) {
    return std::uniform_real_distribution<double>(0, 1)(random);
  });
  Grown result;
  std::vector<TokenId> tokens = {kRoot};
  while (!tokens.empty()) {
    RowChildren children;
    children.laws.resize(kOthers);
    for (const TokenId token : tokens) children.laws.push_back(law_after(token));
    tokens.clear();
    for (const GrowthRow& row : growth->grow(children, kOthers)) tokens.push_back(row.token);
    ++result.passes;
  }
  growth->finish(result.tree, 4);
  check_invariants(result.tree);
  return result;
}

TEST(DrawnTree, HasTheShapeAndTheLawsThatItsChildrenWereDrawnFrom) {
  for (const char* name : {"naive_extend_57", "mc_sim_7b_63", "chain"}) {
    const StaticTree shape = named_tree(name);
    const auto [tree, passes] = grown(shape, 1024, 1);
    ASSERT_EQ(tree.draft_nodes(), std::ssize(shape.nodes)) << name;
    EXPECT_EQ(passes, shape.levels());
    EXPECT_EQ(tree[0].token, kRoot);
    for (NodeId node = 1; node < tree.size(); ++node) {
      const NodeId parent = tree[node].parent;
      EXPECT_EQ(parent, shape.nodes[static_cast<std::size_t>(node) - 1].parent + 1) << name;
      EXPECT_EQ(tree[node].sources, 4U);
      const Law<double>* from = tree.drawn_from(parent);
      ASSERT_NE(from, nullptr) << name << " node " << node;
      const double chance = law_after(tree[parent].token).of(tree[node].token);
      EXPECT_NEAR(from->of(tree[node].token), chance, 1e-12);
      EXPECT_NEAR(tree.step_chance(node), chance, 1e-4);
    }
  }
}

TEST(DrawnTree, FirstChildrenComeAsOftenAsTheLawSays) {
  constexpr int kRuns = 4000;
  std::vector<int> counts(8);
  for (int run = 0; run < kRuns; ++run) {
    const DraftTree tree = grown(chain_tree(1), 8, static_cast<std::uint32_t>(run)).tree;
    ++counts[static_cast<std::size_t>(tree[1].token)];
  }
  const Law<double> law = law_after(kRoot);
  for (const auto& [token, p] : law.entries) {
    const double spread = std::sqrt(kRuns * p * (1 - p));
    EXPECT_NEAR(counts[static_cast<std::size_t>(token)], kRuns * p, 5 * spread) << token;
  }
}

TEST(DrawnTree, IsCutToItsFirstNodesWhateverIsDrawn) {
  const StaticTree shape = named_tree("naive_extend_57");
  for (const int nodes : {1, 5, 6, 30}) {
    const DraftTree tree = grown(shape, nodes, 2).tree;
    ASSERT_EQ(tree.draft_nodes(), nodes);
    for (NodeId node = 1; node < tree.size(); ++node)
      EXPECT_EQ(tree[node].parent, shape.nodes[static_cast<std::size_t>(node) - 1].parent + 1);
  }
}

TEST(DrawnTree, StopsWhereThePolicySaysSo) {
  class OneLevel : public PolicyState {
   public:
    TreePlan plan(const PlanContext&) override { return {}; }
    int expand(std::span<const float> path_log_p) override {
      EXPECT_TRUE(std::is_sorted(path_log_p.rbegin(), path_log_p.rend()));
      return 0;
    }
  };
  OneLevel policy;
  const auto [tree, passes] = grown(named_tree("naive_extend_57"), 57, 3, &policy);
  EXPECT_EQ(tree.draft_nodes(), 5);
  EXPECT_EQ(passes, 1);
}

/// Else a text would never be drafted to its end.
TEST(DrawnLaw, HasTheEndTokensOnceTheAnswerIsLongEnough) {
  constexpr TokenId kEnd = 2;
  constexpr int kLeast = 3;
  const std::vector<float> logits = {0, 1, 2, 3};
  const SamplerOptions options{.temperature = 1, .banned_early = {kEnd}, .least_answer = kLeast};
  const Law<double> early = drawn_law(logits, {}, 4, {options, kLeast - 1});
  const Law<double> later = drawn_law(logits, {}, 4, {options, kLeast});
  EXPECT_EQ(early.of(kEnd), 0);
  EXPECT_NEAR(early.total(), 1, 1e-12);
  EXPECT_NEAR(later.of(kEnd), std::exp(2) / (1 + std::exp(1) + std::exp(2) + std::exp(3)), 1e-6);
}

TEST(DrawnTree, OnlyFixedTreesCanBeDrawn) {
  for (const char* wrong : {"eagle2:draw=on", "eagle3:draw=on", "eagle:draw=yes"})
    EXPECT_THROW(make_drafter(wrong, {}), UsageError) << wrong;
}

}  // namespace
}  // namespace talon::drawn_tree_growth_test
