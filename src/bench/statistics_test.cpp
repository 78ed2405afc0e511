#include "bench/statistics.h"

#include <gtest/gtest.h>

namespace talon {
namespace {

TEST(Spread, OfAnOddNumberOfValuesHasTheMiddleOne) {
  const Spread spread = spread_of({5, 1, 3});
  EXPECT_EQ(spread.median, 3);
  EXPECT_EQ(spread.least, 1);
  EXPECT_EQ(spread.most, 5);
}

TEST(Spread, OfAnEvenNumberLiesBetweenTheMiddleTwo) {
  EXPECT_EQ(spread_of({4, 1, 2, 9}).median, 3);
}

TEST(Spread, OfNothingIsZero) { EXPECT_EQ(spread_of({}).median, 0); }

}  // namespace
}  // namespace talon
