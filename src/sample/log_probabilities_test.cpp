#include "sample/log_probabilities.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"

namespace talon::log_probabilities_test {
namespace {

TEST(LogProbabilities, AreTheLogarithmOfTheSoftmaxOfTheRow) {
  const std::vector<float> row = {1, 3, -2, 3};
  const double sum = std::exp(-2.0) + 1 + std::exp(-5.0) + 1;
  const TokenLogprobs found = log_probabilities(row, 2, 3);
  EXPECT_EQ(found.token, 2);
  EXPECT_NEAR(found.log_p, -5 - std::log(sum), 1e-12);
  ASSERT_EQ(found.top.size(), 3u);
  EXPECT_EQ(found.top[0].first, 1);
  EXPECT_EQ(found.top[1].first, 3);
  EXPECT_EQ(found.top[2].first, 0);
  EXPECT_NEAR(found.top[0].second, -std::log(sum), 1e-12);
}

TEST(LogProbabilities, GiveNoMoreThanThereAreTokensAndNothingOfABrokenRow) {
  const std::vector<float> row = {0, 0};
  EXPECT_EQ(log_probabilities(row, 0, 5).top.size(), 2u);
  EXPECT_TRUE(log_probabilities(row, 0, 0).top.empty());
  const std::vector<float> broken = {0, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THROW(log_probabilities(broken, 0, 1), Error);
}

}  // namespace
}  // namespace talon::log_probabilities_test
