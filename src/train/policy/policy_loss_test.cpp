#include "train/policy/policy_loss.h"

#include <gtest/gtest.h>
#include <torch/csrc/api/include/torch/autograd.h>

#include <functional>

#include "train/head/math/gradient_check.h"
#include "train/policy/policy_network.h"

namespace talon::policy_loss_test {
namespace {

using torch::Tensor;

Tensor random(std::vector<std::int64_t> shape) { return at::randn(shape, torch::kDouble); }

class PolicyLosses : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(3); }
  const Tensor length = torch::tensor({0.0, 3.0, 1.0, 4.0}, torch::kDouble);
};

TEST_F(PolicyLosses, GradientOfAsymmetric) {
  const Tensor predicted = torch::tensor({0.5, 2.2, 1.7, 3.1}, torch::kDouble).requires_grad_();
  EXPECT_NEAR(asymmetric_loss(predicted, length, 3).item<double>(),
              (0.5 + 3 * 0.8 + 0.7 + 3 * 0.9) / 4, 1e-12);
  test::expect_gradients([&] { return asymmetric_loss(predicted, length, 3); }, {predicted});
}

TEST_F(PolicyLosses, GradientOfOrdinal) {
  const Tensor logits = random({4, 5}).requires_grad_();
  test::expect_gradients([&] { return ordinal_loss(logits, length); }, {logits});
  const Tensor certain = torch::full({1, 5}, 50.0, torch::kDouble);
  const Tensor all = torch::tensor({5.0}, torch::kDouble);
  EXPECT_NEAR(ordinal_loss(certain, all).item<double>(), 0, 1e-9);
}

class StopLosses : public PolicyLosses {
 protected:
  void SetUp() override {
    PolicyLosses::SetUp();
    logit = random({4, 3}).requires_grad_();
    tokens = random({4, 4}).abs() + 1;
    ms = random({4, 4}).abs() + 1;
    decides = at::ones({4, 3}, torch::kDouble);
    decides[2][1] = 0;
  }
  Tensor logit, tokens, ms, decides;
};

TEST_F(StopLosses, TheLawOfStopsSumsToOneAndEndsWhereNothingIsDecided) {
  const Tensor law = stop_law(logit, decides);
  EXPECT_TRUE(at::allclose(law.sum(1), at::ones({4}, torch::kDouble)));
  EXPECT_EQ(law[2][2].item<double>(), 0);
  EXPECT_EQ(law[2][3].item<double>(), 0);
  EXPECT_NEAR(law[0][0].item<double>(), at::sigmoid(logit[0][0]).item<double>(), 1e-12);
}

TEST_F(StopLosses, GradientOfThroughput) {
  test::expect_gradients([&] { return throughput_loss(stop_law(logit, decides), tokens, ms); },
                         {logit});
}

TEST_F(StopLosses, GradientOfReward) {
  test::expect_gradients([&] { return reward_loss(stop_law(logit, decides), tokens / ms); },
                         {logit});
}

TEST_F(StopLosses, GradientThroughRadarsNetwork) {
  ParameterStore parameters(radar_parameter_shapes(2), torch::kDouble, torch::kDouble, torch::kCPU);
  set_random_values(parameters);
  const Tensor states = -random({4, 3, 10}).abs();
  for (const char* name : {"lstm.weight_hh_l0", "lstm.bias_ih_l0", "mlp.0.weight", "mlp.3.bias"}) {
    test::expect_gradients(
        [&] {
          return throughput_loss(stop_law(radar_stop_logit(parameters, states, 0), decides), tokens,
                                 ms);
        },
        {parameters[name].value});
  }
}

}  // namespace
}  // namespace talon::policy_loss_test
