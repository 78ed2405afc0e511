#include "train/image/network/picture_functions.h"

#include <gtest/gtest.h>

#include "train/head/math/gradient_check.h"
#include "train/head/math/parameters.h"

namespace talon::picture_functions_test {
namespace {

using torch::Tensor;

/// Random tensors that are the same in every run.
Tensor drawn(std::vector<std::int64_t> shape, torch::ScalarType type) {
  torch::manual_seed(7);
  return torch::randn(shape, torch::kDouble).to(type);
}

ParameterStore norm_parameters(std::int64_t channels, torch::ScalarType wide,
                               torch::ScalarType low) {
  ParameterStore store({{"weight", {channels}}, {"bias", {channels}}}, wide, low, torch::kCPU);
  store.set("weight", drawn({channels}, torch::kDouble));
  store.set("bias", drawn({channels}, torch::kDouble).flip(0));
  store.refresh_low();
  return store;
}

Tensor by_torch(const Tensor& x, const ParameterStore& p, bool silu) {
  const Tensor y = at::group_norm(x, 4, p["weight"].value, p["bias"].value, 1e-6);
  return silu ? at::silu(y) : y;
}

TEST(PictureFunctions, GroupNormIsTorchsInEveryType) {
  for (const auto& [type, tolerance] :
       {std::pair(torch::kDouble, 1e-12), {torch::kFloat, 1e-5}, {torch::kBFloat16, 0.02}}) {
    const auto wide = type == torch::kDouble ? torch::kDouble : torch::kFloat;
    const ParameterStore p = norm_parameters(8, wide, type);
    const Tensor x = (drawn({3, 8, 5, 7}, type) * 2 + 1).to(type);
    for (const bool silu : {false, true}) {
      const Tensor found =
          group_norm(x, {.weight = p["weight"], .bias = p["bias"], .groups = 4, .silu = silu});
      const Tensor expected = by_torch(x.to(wide), p, silu);
      EXPECT_EQ(found.scalar_type(), type);
      EXPECT_LT((found.to(wide) - expected).abs().max().item<double>(), tolerance) << type << silu;
    }
  }
}

TEST(PictureFunctions, GradientsAreThoseOfDifferences) {
  const ParameterStore p = norm_parameters(8, torch::kDouble, torch::kDouble);
  const Tensor x = drawn({2, 8, 3, 4}, torch::kDouble).requires_grad_();
  const Tensor weights = drawn({2, 8, 3, 4}, torch::kDouble).flip(0);
  for (const bool silu : {false, true}) {
    test::expect_gradients(
        [&] {
          return (group_norm(
                      x, {.weight = p["weight"], .bias = p["bias"], .groups = 4, .silu = silu}) *
                  weights)
              .sum();
        },
        {x, p["weight"].value, p["bias"].value});
  }
  test::expect_gradients(
      [&] {
        return (double_size(x) * drawn({2, 8, 6, 8}, torch::kDouble)).sum();
      },
      {x});
  ParameterStore conv({{"weight", {3, 8, 3, 3}}, {"bias", {3}}}, torch::kDouble, torch::kDouble,
                      torch::kCPU);
  conv.set("weight", drawn({3, 8, 3, 3}, torch::kDouble));
  test::expect_gradients(
      [&] { return convolve(x, conv["weight"], conv["bias"], 1, 1).square().sum(); },
      {x, conv["weight"].value, conv["bias"].value});
}

/// A bf16 gradient against that of float32 on the same numbers.
TEST(PictureFunctions, Bf16GradientsAreNearThoseOfFloats) {
  const Tensor values = (drawn({2, 8, 6, 6}, torch::kBFloat16) + 1).to(torch::kBFloat16);
  const Tensor weights = drawn({2, 8, 6, 6}, torch::kFloat).flip(1);
  std::vector<Tensor> gradients;
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    const ParameterStore p = norm_parameters(8, torch::kFloat, type);
    const Tensor x = values.to(type).detach().requires_grad_();
    const Tensor y = group_norm(x, {.weight = p["weight"], .bias = p["bias"], .groups = 4});
    (y.to(torch::kFloat) * weights).sum().backward();
    gradients.push_back(x.grad().to(torch::kFloat));
    gradients.push_back(p["weight"].value.grad().clone());
  }
  EXPECT_LT((gradients[0] - gradients[2]).abs().max().item<double>(), 0.03);
  EXPECT_LT((gradients[1] - gradients[3]).abs().max().item<double>(), 0.3);
  EXPECT_GT(gradients[1].abs().max().item<double>(), 5) << "the sums that are compared are large";
}

}  // namespace
}  // namespace talon::picture_functions_test
