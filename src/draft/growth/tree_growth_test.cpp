#include "draft/growth/tree_growth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "core/error.h"
#include "draft/growth/dynamic_tree.h"
#include "draft/growth/named_trees.h"
#include "io/json.h"

namespace talon::tree_growth_test {
namespace {

/// A draft without a network: the log-probabilities of the next token depend on the last token
/// only.
using Table = std::vector<std::vector<float>>;

RowChildren children_of(const Table& table, std::span<const TokenId> tokens, int count) {
  RowChildren children;
  children.count = count;
  for (const TokenId token : tokens) {
    const auto& row = table[static_cast<std::size_t>(token)];
    std::vector<TokenId> order(row.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
      return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
    });
    for (int i = 0; i < count; ++i) {
      const TokenId child = order[static_cast<std::size_t>(i)];
      children.token.push_back(child);
      children.log_p.push_back(row[static_cast<std::size_t>(child)]);
    }
  }
  return children;
}

struct Drafted {
  DraftTree tree{0};
  int passes = 0;
  int rows = 0;
};

Drafted draft(TreeGrowth& growth, const Table& table, TokenId root, int count) {
  Drafted drafted;
  drafted.tree.reset(root);
  std::vector<TokenId> tokens = {root};
  while (!tokens.empty()) {
    const RowChildren children = children_of(table, tokens, count);
    tokens.clear();
    for (const GrowthRow& row : growth.grow(children, 0)) tokens.push_back(row.token);
    ++drafted.passes;
    drafted.rows += static_cast<int>(tokens.size());
  }
  growth.finish(drafted.tree, 1);
  check_invariants(drafted.tree);
  return drafted;
}

Drafted draft_dynamic(const DynamicTreeShape& shape, const Table& table, TokenId root,
                      PolicyState* policy = nullptr) {
  return draft(*grow_dynamic_tree(shape, {policy}, DraftTree(root)), table, root, shape.children);
}

/// The phases of docs/methods.md 3.2, by hand: tokens root, a .. j.
constexpr TokenId kRoot = 0, kA = 1, kB = 2, kC = 3, kD = 4, kE = 5, kF = 6, kG = 7, kH = 8, kI = 9,
                  kJ = 10;
Table worked_example() {
  Table table(11, std::vector<float>(11, std::log(1e-6F)));
  const auto set = [&](TokenId from, TokenId to, float p) {
    table[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)] = std::log(p);
  };
  set(kRoot, kA, .6F), set(kRoot, kB, .3F), set(kA, kC, .7F), set(kA, kD, .2F), set(kB, kE, .9F);
  set(kB, kF, .05F), set(kC, kG, .5F), set(kC, kH, .4F), set(kE, kI, .8F), set(kE, kJ, .1F);
  return table;
}

TEST(DynamicTree, GrowsTheWorkedExample) {
  const auto drafted = draft_dynamic({2, 2, 3, 5}, worked_example(), kRoot);
  EXPECT_EQ(drafted.tree.tokens(), (std::vector<TokenId>{kRoot, kA, kB, kC, kE, kI}));
  EXPECT_EQ(drafted.tree.parents(), (std::vector<NodeId>{-1, 0, 0, 1, 2, 4}));
  EXPECT_EQ(drafted.passes, 3);
}

TEST(DynamicTree, WithOneChildPerNodeIsAChain) {
  const auto drafted = draft_dynamic({1, 1, 3, 10}, worked_example(), kRoot);
  EXPECT_EQ(drafted.tree.tokens(), (std::vector<TokenId>{kRoot, kA, kC, kG}));
}

TEST(DynamicTree, AnAllTiesDraftGivesAConnectedBreadthFirstTree) {
  const Table certain(4, std::vector<float>(4, 0.0F));
  const auto drafted = draft_dynamic({3, 3, 4, 10}, certain, 0);
  EXPECT_EQ(drafted.tree.parents(), (std::vector<NodeId>{-1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3}));
}

TEST(DynamicTree, RunsNoRowThatTheRerankingCannotChoose) {
  Table table(2, std::vector<float>{std::log(0.9F), std::log(0.1F)});
  const auto drafted = draft_dynamic({2, 2, 8, 2}, table, 0);
  EXPECT_EQ(drafted.tree.tokens(), (std::vector<TokenId>{0, 0, 0}));
  // 0.9 and 0.81 are the two best after two levels, and 0.73 can no longer enter.
  EXPECT_EQ(drafted.passes, 3);
  EXPECT_EQ(drafted.rows, 3);
}

TEST(DynamicTree, SendsASmallerTreeWhenThePoolIsSmall) {
  EXPECT_EQ(draft_dynamic({2, 2, 1, 59}, worked_example(), kRoot).tree.draft_nodes(), 2);
}

TEST(DynamicTree, IgnoresChildrenWithoutAFiniteProbability) {
  Table table(3, std::vector<float>{-INFINITY, std::nanf(""), -1.0F});
  const auto drafted = draft_dynamic({3, 3, 2, 10}, table, 0);
  EXPECT_EQ(drafted.tree.tokens(), (std::vector<TokenId>{0, 2, 2}));
}

class StopAfter : public PolicyState {
 public:
  explicit StopAfter(int levels) : levels_(levels) {}
  TreePlan plan(const PlanContext&) override { return {}; }
  int expand(std::span<const float> path_log_p) override {
    EXPECT_TRUE(std::is_sorted(path_log_p.rbegin(), path_log_p.rend()));
    return --levels_ > 0 ? static_cast<int>(path_log_p.size()) : 0;
  }

 private:
  int levels_;
};

TEST(TreeGrowth, AsksAPolicyOnlyWhereItWantsToBeAsked) {
  const DynamicTreeShape shape{2, 2, 8, 50};
  const auto grow = [&](const LevelPolicy& policy) {
    return draft(*grow_dynamic_tree(shape, policy, DraftTree(kRoot)), worked_example(), kRoot, 2);
  };
  StopAfter never(1), at_two(1);
  EXPECT_EQ(grow({&never, TreeLevels::none()}).tree.nodes, grow({}).tree.nodes);
  TreeLevels second = TreeLevels::none();
  second.add(2);
  EXPECT_EQ(grow({&at_two, second}).passes, 2);
}

TEST(TreeGrowth, StopsWhereThePolicySaysSo) {
  StopAfter policy(2);
  const auto dynamic = draft_dynamic({2, 2, 8, 50}, worked_example(), kRoot, &policy);
  EXPECT_EQ(dynamic.tree.draft_nodes(), 2 + 4);

  StopAfter again(2);
  const StaticTree shape = chain_tree(8);
  const auto fixed = draft(*grow_static_tree(shape, 50, {&again}), worked_example(), kRoot, 1);
  EXPECT_EQ(fixed.tree.tokens(), (std::vector<TokenId>{kRoot, kA, kC}));
}

/// Another drafter's branch c, g, h below the root, where the head itself would not look for c.
DraftTree foreign_branch() {
  DraftTree tree(kRoot);
  tree.add(tree.add(tree.add(0, kC, -0.1F), kG, -0.2F), kH, -0.3F);
  return tree;
}

TEST(DynamicTree, ExtendsTheBranchesOfOtherDrafters) {
  const DraftTree before = foreign_branch();
  DraftTree tree = before;
  Table table = worked_example();
  table[kH][kI] = std::log(.9F);
  const auto growth = grow_dynamic_tree({2, 2, 4, 6}, {}, tree);
  std::vector<TokenId> tokens = {kRoot};
  while (!tokens.empty()) {
    const RowChildren children = children_of(table, tokens, 2);
    tokens.clear();
    for (const GrowthRow& row : growth->grow(children, 0)) tokens.push_back(row.token);
  }
  growth->finish(tree, 2);
  check_invariants(tree);
  EXPECT_EQ(tree.draft_nodes(), before.draft_nodes() + 6);
  for (NodeId node = 1; node < before.size(); ++node) {
    EXPECT_EQ(tree[node].token, before[node].token);
    EXPECT_EQ(tree[node].parent, before[node].parent);
    EXPECT_EQ(tree[node].log_p, before[node].log_p);
  }
  EXPECT_EQ(tree[2].sources, 3U) << "g follows c for both drafters";
  EXPECT_EQ(tree[1].sources, 1U);
  const NodeId extension = tree.child(3, kI);
  ASSERT_GT(extension, 0) << "the branch goes on where the other drafter stopped";
  EXPECT_NEAR(tree[extension].log_p, -0.3 + std::log(.9), 1e-6);
  EXPECT_NE(tree.child(0, kA), -1) << "and the root has children of its own";
}

Json read_golden(const char* name) {
  std::ifstream file(std::filesystem::path(TALON_TEST_DATA) / "golden/stories260k" / name);
  return Json::parse(file);
}

TEST(DynamicTree, EqualsTheOfficialTreesOnTables) {
  const Json golden = read_golden("tree_micro.json");
  ASSERT_FALSE(golden["cases"].empty());
  for (const Json& test : golden["cases"]) {
    const int top_k = test["top_k"];
    const DynamicTreeShape shape{top_k, top_k, test["depth"].get<int>() + 1,
                                 test["total_token"].get<int>() - 1};
    const auto drafted =
        draft_dynamic(shape, test["logp"].get<Table>(), test["root"].get<TokenId>());
    EXPECT_EQ(drafted.tree.tokens(), test["draft_tokens"].get<std::vector<TokenId>>());
    EXPECT_EQ(drafted.tree.parents(), test["parent"].get<std::vector<NodeId>>());
    for (NodeId node = 0; node < drafted.tree.size(); ++node) {
      EXPECT_EQ(drafted.tree.depth(node), test["position"][static_cast<std::size_t>(node)]);
    }
  }
}

// tests/data/golden/methods/lantern_trees.json
TEST(StaticTree, NamedOnesAreTheOfficialTrees) {
  std::ifstream input(std::string(TALON_TEST_DATA) + "/golden/methods/lantern_trees.json");
  const Json golden = Json::parse(input)["trees"];
  ASSERT_EQ(golden.size(), 6U);
  for (const auto& [name, official] : golden.items()) {
    const StaticTree tree = named_tree(name);
    const auto choices = official["sorted_choices"].get<std::vector<std::vector<int>>>();
    const StaticTree expected = parse_static_tree(choices, name);
    ASSERT_EQ(tree.nodes.size(), expected.nodes.size()) << name;
    for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
      EXPECT_EQ(tree.nodes[i].parent + 1, official["parent"][i + 1]) << name << " node " << i + 1;
      EXPECT_EQ(tree.nodes[i].rank, expected.nodes[i].rank) << name << " node " << i + 1;
      EXPECT_EQ(tree.nodes[i].level, expected.nodes[i].level) << name << " node " << i + 1;
    }
    EXPECT_NE(static_tree_names().find(name), std::string::npos);
  }
}

TEST(StaticTree, PutsEachRankWhereTheShapeHasIt) {
  const StaticTree tree = parse_static_tree({{1, 0}, {0}, {1}, {1, 1}, {1, 0, 0}}, "test");
  const auto drafted = draft(*grow_static_tree(tree, 10, {}), worked_example(), kRoot, 2);
  EXPECT_EQ(drafted.tree.tokens(), (std::vector<TokenId>{kRoot, kA, kB, kE, kF, kI}));
  EXPECT_EQ(drafted.tree.parents(), (std::vector<NodeId>{-1, 0, 0, 2, 2, 3}));
  EXPECT_NEAR(drafted.tree[5].log_p, std::log(.3 * .9 * .8), 1e-6);
  EXPECT_EQ(drafted.passes, 3);
}

TEST(StaticTree, CutKeepsWhatIsInsideTheLimits) {
  const StaticTree tree = named_tree("mc_sim_7b_63");
  EXPECT_EQ(tree.cut(5, 1).nodes.size(), 5U);
  EXPECT_EQ(tree.cut(2, 10).nodes.size(), 12U);
  EXPECT_EQ(tree.cut(2, 10).levels(), 2);
}

TEST(StaticTree, RefusesListsThatAreNoTree) {
  const std::vector<std::vector<std::vector<int>>> wrong = {
      {}, {{}}, {{0}, {0}}, {{0}, {1, 0}}, {{-1}}, {{0}, {0, 64}}};
  for (const auto& paths : wrong) EXPECT_THROW(parse_static_tree(paths, "test"), Error);
}

TEST(StaticTree, ReadsAFileAndRefusesAnythingElse) {
  const auto file = std::filesystem::path(testing::TempDir()) / "static_tree_test.json";
  const auto write = [&](const char* text) { std::ofstream(file) << text; };
  write("[[0], [0, 0], [1]]");
  EXPECT_EQ(read_static_tree(file).nodes.size(), 3U);
  for (const char* wrong : {"", "{}", "[0]", "[[0.5]]", "[[9999999999]]", "[[\"a\"]]"}) {
    write(wrong);
    EXPECT_THROW(read_static_tree(file), Error) << wrong;
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace talon::tree_growth_test
