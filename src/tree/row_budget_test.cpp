#include "tree/row_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace talon::row_budget_test {
namespace {

/// A tree of a synthetic case: chances of paths in sixteenths, so that sums of them are exact.
struct SmallTree {
  std::vector<int> parent;
  std::vector<double> chance;
};

SmallTree random_tree(std::mt19937& random, int nodes) {
  SmallTree tree{{-1}, {1.0}};
  for (int node = 1; node <= nodes; ++node) {
    const auto parent = random() % tree.parent.size();
    tree.parent.push_back(static_cast<int>(parent));
    tree.chance.push_back(tree.chance[parent] * static_cast<double>(1 + random() % 16) / 16);
  }
  return tree;
}

/// Steps and slopes, as tiles of a kernel make them; in whole sixteenths.
std::vector<double> random_costs(std::mt19937& random, std::size_t most) {
  std::vector<double> cost = {0};
  while (cost.size() <= most) {
    cost.push_back(cost.back() + (random() % 3 == 0 ? 8 : 1) / 16.0);
  }
  return cost;
}

/// The best of all sets of nodes that contain the parents of their nodes.
double best_of_all_subtrees(const SmallTree& tree, const std::vector<double>& cost, double rate) {
  const auto nodes = tree.parent.size() - 1;
  double best = 0;
  for (unsigned set = 0; set < 1u << nodes; ++set) {
    double tokens = 0;
    std::size_t count = 0;
    bool is_tree = true;
    for (std::size_t node = 1; node <= nodes; ++node) {
      if (!(set >> (node - 1) & 1)) continue;
      const int parent = tree.parent[node];
      is_tree = is_tree && (parent == 0 || (set >> (parent - 1) & 1));
      tokens += tree.chance[node];
      ++count;
    }
    if (is_tree) best = std::max(best, tokens - rate * cost[count]);
  }
  return best;
}

double gain_of(const std::vector<double>& chances, int count, const std::vector<double>& cost,
               double rate) {
  const double tokens = std::accumulate(chances.begin(), chances.begin() + count, 0.0);
  return tokens - rate * cost[static_cast<std::size_t>(count)];
}

std::vector<double> descending(const SmallTree& tree) {
  std::vector<double> chances(tree.chance.begin() + 1, tree.chance.end());
  std::sort(chances.rbegin(), chances.rend());
  return chances;
}

TEST(BestCount, FindsTheBestOfAllSubtrees) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const SmallTree tree = random_tree(random, 1 + static_cast<int>(random() % 9));
    const auto cost = random_costs(random, tree.parent.size());
    const double rate = 0.25 * static_cast<double>(1 + random() % 8);
    const auto chances = descending(tree);
    const int count = best_count(
        chances, [&](int nodes) { return cost[static_cast<std::size_t>(nodes)]; }, rate);
    EXPECT_DOUBLE_EQ(gain_of(chances, count, cost, rate), best_of_all_subtrees(tree, cost, rate));
  }
}

TEST(BestCount, RepeatedAtItsOwnRateFindsTheFastestOfAllSubtrees) {
  // Dinkelbach: the tokens per time of a round are most at the rate that is its own answer.
  std::mt19937 random(2);
  for (int trial = 0; trial < 200; ++trial) {
    const SmallTree tree = random_tree(random, 1 + static_cast<int>(random() % 9));
    const auto cost = random_costs(random, tree.parent.size());
    const auto chances = descending(tree);
    constexpr double kPlain = 2;  // time of a round without a draft
    double rate = 1 / kPlain;
    for (int round = 0; round < 20; ++round) {
      const int count = best_count(
          chances, [&](int nodes) { return cost[static_cast<std::size_t>(nodes)]; }, rate);
      rate = (1 + std::accumulate(chances.begin(), chances.begin() + count, 0.0)) /
             (kPlain + cost[static_cast<std::size_t>(count)]);
    }
    double best = 0;  // a best set of any size is made of the likeliest nodes
    for (int count = 0; count <= static_cast<int>(chances.size()); ++count) {
      best = std::max(best, (1 + std::accumulate(chances.begin(), chances.begin() + count, 0.0)) /
                                (kPlain + cost[static_cast<std::size_t>(count)]));
    }
    EXPECT_DOUBLE_EQ(rate, best);
  }
}

TEST(RowBudget, SequencesThatShareABudgetBuyWhatOneBuyerOfAllWouldBuy) {
  std::mt19937 random(3);
  RowBudget budget;
  for (int round = 0; round < 100; ++round) {
    std::vector<std::vector<double>> offers;
    std::vector<double> all;
    budget.begin_round();
    for (int sequence = 0; sequence < 3; ++sequence) {
      offers.push_back(descending(random_tree(random, 1 + static_cast<int>(random() % 6))));
      all.insert(all.end(), offers.back().begin(), offers.back().end());
      budget.offer(offers.back());
    }
    const auto cost = random_costs(random, all.size());
    const auto extra_ms = [&](int nodes) { return cost[static_cast<std::size_t>(nodes)]; };
    std::sort(all.rbegin(), all.rend());
    const int count = best_count(all, extra_ms, 0.5);
    int bought = 0;
    double tokens = 0;
    for (const auto& offer : offers) {
      budget.settle(extra_ms, 0.5);
      for (const double chance : offer) {
        if (!budget.buy(chance)) break;
        ++bought;
        tokens += chance;
      }
    }
    EXPECT_EQ(bought, count);
    EXPECT_DOUBLE_EQ(tokens, std::accumulate(all.begin(), all.begin() + count, 0.0));
  }
}

TEST(RowBudget, ATreeThatIsSureOfItselfOutbidsOneThatIsNot) {
  RowBudget budget;
  budget.offer(std::vector<double>{0.9, 0.8});
  budget.offer(std::vector<double>{0.3, 0.2});
  budget.settle([](int nodes) { return nodes; }, 0.5);
  EXPECT_TRUE(budget.buy(0.9));
  EXPECT_TRUE(budget.buy(0.8));
  EXPECT_FALSE(budget.buy(0.3));
}

TEST(RowBudget, EachNodeIsJudgedByItsOwnMarginWhicheverSequenceComesFirst) {
  for (const bool careful_first : {false, true}) {
    RowBudget budget;
    const std::vector<double> careful = {0.9, 0.8}, usual = {0.7, 0.6};
    budget.offer(careful_first ? careful : usual, careful_first ? 10 : 1);
    budget.offer(careful_first ? usual : careful, careful_first ? 1 : 10);
    budget.settle([](int nodes) { return nodes; }, 0.5);
    EXPECT_FALSE(budget.buy(0.9, 10));
    EXPECT_TRUE(budget.buy(0.7, 1));
    EXPECT_TRUE(budget.buy(0.6, 1));
  }
}

}  // namespace
}  // namespace talon::row_budget_test
