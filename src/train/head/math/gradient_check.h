#pragma once

#include <gtest/gtest.h>
#include <torch/csrc/api/include/torch/autograd.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace talon::test {

/// For tests: compares the gradient of `scalar` for each of `inputs` (doubles, which it reads) with
/// central differences.
inline void expect_gradients(const std::function<torch::Tensor()>& scalar,
                             std::vector<torch::Tensor> inputs) {
  using torch::Tensor;
  constexpr double kStep = 1e-6;
  constexpr double kTolerance = 1e-6;  // of the largest gradient, at least 1
  for (Tensor& input : inputs) input.mutable_grad() = Tensor();
  scalar().backward();
  for (Tensor& input : inputs) {
    ASSERT_TRUE(input.grad().defined());
    const Tensor found = input.grad().reshape(-1);
    const torch::NoGradGuard no_gradient;
    Tensor flat = input.detach().view(-1);  // shares memory
    Tensor expected = torch::zeros_like(found);
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      const double at = flat[i].item<double>();
      flat[i] = at + kStep;
      const double above = scalar().item<double>();
      flat[i] = at - kStep;
      const double below = scalar().item<double>();
      flat[i] = at;
      expected[i] = (above - below) / (2 * kStep);
    }
    const double scale = std::max(1.0, expected.abs().max().item<double>());
    EXPECT_LT((found - expected).abs().max().item<double>() / scale, kTolerance);
  }
}

}  // namespace talon::test
