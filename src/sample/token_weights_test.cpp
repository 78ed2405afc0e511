#include "sample/token_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace talon::token_weights_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<double> weigh(const TokenWeigher& weigher, const std::vector<float>& logits,
                          double temperature) {
  std::vector<double> weights(logits.size());
  weigher.weigh(logits.data(), 0.0F, temperature, static_cast<int>(logits.size()), weights.data());
  return weights;
}

TEST(TokenWeights, ArePowersOfEToTheLastBitsAndTheSameWithAllInstructions) {
  std::vector<float> logits = {0.0F, -1e-30F, -kInfinity};
  for (float value = -720.0F; value < 0; value += 0.0173F) logits.push_back(value);
  const TokenWeigher& portable = token_weighers().back();
  ASSERT_TRUE(portable.supported);
  for (const double temperature : {1.0, 0.3, 1e-30}) {
    const std::vector<double> expected = weigh(portable, logits, temperature);
    EXPECT_EQ(expected[0], 1.0);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double exponent = static_cast<double>(logits[i]) / temperature;
      const double want = exponent < -708 ? 0 : std::exp(exponent);
      ASSERT_NEAR(expected[i], want, 1e-15 * want) << logits[i] << " at " << temperature;
    }
    for (const TokenWeigher& weigher : token_weighers()) {
      if (!weigher.supported) continue;
      const std::vector<double> found = weigh(weigher, logits, temperature);
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), sizeof(double) * found.size()), 0)
          << weigher.instructions << " at " << temperature;
    }
  }
}

TEST(TokenWeights, AreThoseOfTheFirstSupportedInstructions) {
  const std::vector<float> logits = {1.5F, 2.0F, -kInfinity};
  std::vector<double> weights(3);
  token_weights(logits, 2.0F, 0.5, weights);
  EXPECT_NEAR(weights[0], std::exp(-1.0), 1e-15);
  EXPECT_EQ(weights[1], 1.0);
  EXPECT_EQ(weights[2], 0.0);
}

}  // namespace
}  // namespace talon::token_weights_test
