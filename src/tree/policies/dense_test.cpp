#include "tree/policies/dense.h"

#include <gtest/gtest.h>

#include <cmath>

namespace talon::dense_test {
namespace {

TEST(Dense, MultipliesMatricesOfAnySize) {
  for (const std::size_t outputs : {1, 2, 15, 16, 17, 33, 64}) {
    for (const std::size_t inputs : {1, 3, 10, 128, 129}) {
      std::vector<float> weight(outputs * inputs), bias(outputs), in(inputs), out(outputs);
      for (std::size_t i = 0; i < weight.size(); ++i) {
        weight[i] = std::sin(static_cast<float>(i + 1));
      }
      for (std::size_t i = 0; i < outputs; ++i) bias[i] = 0.1F * static_cast<float>(i);
      for (std::size_t i = 0; i < inputs; ++i) in[i] = std::cos(static_cast<float>(3 * i));
      const Dense dense(weight, bias);
      dense.apply(in, out);
      for (std::size_t row = 0; row < outputs; ++row) {
        double sum = static_cast<double>(bias[row]);
        for (std::size_t i = 0; i < inputs; ++i) {
          sum += static_cast<double>(weight[row * inputs + i]) * static_cast<double>(in[i]);
        }
        EXPECT_NEAR(out[row], sum, 1e-5) << outputs << " x " << inputs << ", row " << row;
      }
    }
  }
}

TEST(Dense, TakesWeightsThatDecayedToNothingAsZero) {
  const std::vector<float> weight = {1e-39F, 1e-21F, -1e-25F, 2}, bias = {0.5F};
  std::vector<float> out(1);
  Dense(weight, bias).apply(std::vector<float>{1e30F, 1e30F, 1e30F, 1}, out);
  EXPECT_EQ(out[0], 2.5F);
}

}  // namespace
}  // namespace talon::dense_test
