#include "covering.h"

#include <gtest/gtest.h>

#include <set>

namespace talon::test::covering_test {
namespace {

using Values = std::set<std::vector<std::size_t>>;

TEST(CoveringRows, EveryTwoAxesTakeAllTheirCombinations) {
  const std::vector<std::size_t> sizes = {5, 1, 3, 2, 7};
  const auto rows = covering_rows(sizes, 2);
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    for (std::size_t b = a + 1; b < sizes.size(); ++b) {
      Values pairs;
      for (const auto& row : rows) pairs.insert({row[a], row[b]});
      EXPECT_EQ(pairs.size(), sizes[a] * sizes[b]) << "axes " << a << " and " << b;
    }
  }
  EXPECT_LT(rows.size(), 50U);  // 210 in the product, 35 at least
}

TEST(CoveringRows, EveryThreeAxesTakeAllTheirCombinations) {
  const std::vector<std::size_t> sizes = {4, 3, 2, 2, 3};
  const auto rows = covering_rows(sizes, 3);
  for (std::size_t a = 0; a < 3; ++a) {
    Values triples;
    for (const auto& row : rows) triples.insert({row[a], row[a + 1], row[a + 2]});
    EXPECT_EQ(triples.size(), sizes[a] * sizes[a + 1] * sizes[a + 2]);
  }
  EXPECT_LT(rows.size(), 70U);  // 144 in the product, 36 at least
}

TEST(CoveringRows, AsManyAxesAsThereAreGiveTheProductInOrder) {
  const auto rows = covering_rows({2, 3, 2}, 3);
  ASSERT_EQ(rows.size(), 12U);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  EXPECT_EQ(Values(rows.begin(), rows.end()).size(), 12U);
}

}  // namespace
}  // namespace talon::test::covering_test
