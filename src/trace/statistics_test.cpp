#include "trace/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace talon::statistics_test {
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

double mean_of(const std::vector<double>& values, std::span<const std::size_t> drawn) {
  double sum = 0;
  for (const std::size_t i : drawn) sum += values[i];
  return sum / static_cast<double>(drawn.size());
}

/// 200 samples of 40 normal values: how many 95 % intervals hold the true mean. Fewer than 175 or
/// more than 199 happens by chance less than once in 10,000 times.
TEST(Bootstrap, IntervalsHoldTheTruthAsOftenAsTheySay) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(3, 2);
  int held = 0;
  for (int sample = 0; sample < 200; ++sample) {
    std::vector<double> values(40);
    for (double& value : values) value = normal(random);
    const Interval interval = bootstrap(
        values.size(), [&](auto drawn) { return mean_of(values, drawn); }, {.resamples = 400});
    held += interval.low <= 3 && 3 <= interval.high;
  }
  EXPECT_GE(held, 175);
  EXPECT_LE(held, 199);
}

TEST(Bootstrap, OfPairsForgetsWhatTheyShare) {
  std::vector<double> plain, method;  // questions differ tenfold, the ratio hardly
  for (int i = 0; i < 30; ++i) {
    plain.push_back(10.0 + 3 * i);
    method.push_back(plain.back() * (i % 2 == 0 ? 1.19 : 1.21));
  }
  const Interval interval = bootstrap(
      plain.size(), [&](auto drawn) { return mean_of(method, drawn) / mean_of(plain, drawn); });
  EXPECT_GT(interval.low, 1.18);
  EXPECT_LT(interval.high, 1.22);
  EXPECT_LT(interval.low, interval.high);
}

TEST(Bootstrap, IsTheSameEveryTimeAndNothingForNothing) {
  const std::vector<double> values = {1, 5, 2, 8, 3};
  const auto statistic = [&](auto drawn) { return mean_of(values, drawn); };
  EXPECT_EQ(bootstrap(5, statistic).low, bootstrap(5, statistic).low);
  EXPECT_TRUE(std::isnan(bootstrap(0, statistic).low));
}

TEST(Spread, OfNothingIsZero) { EXPECT_EQ(spread_of({}).median, 0); }

}  // namespace
}  // namespace talon::statistics_test
