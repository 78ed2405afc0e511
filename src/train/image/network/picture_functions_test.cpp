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

/// The same by the functions of heads of texts, which take queries, keys and values apart.
Tensor by_rows(const Tensor& qkv, const Tensor& cosine, const Tensor& sine, std::int64_t pictures,
               int head_dim) {
  const auto parts = qkv.chunk(3, 1);
  const Tensor c = cosine.repeat({pictures, 1}).to(qkv.scalar_type());
  const Tensor s = sine.repeat({pictures, 1}).to(qkv.scalar_type());
  const std::int64_t rows = cosine.size(0);
  std::vector<SequenceRange> ranges;
  for (std::int64_t i = 0; i < pictures; ++i) ranges.push_back({i * rows, rows, i * rows, rows});
  const Tensor none = qkv.new_empty({0, qkv.size(0), qkv.size(1) / 3});
  return attend({rotate(parts[0], c, s), rotate(parts[1], c, s), parts[2], none, none}, ranges,
                head_dim);
}

struct Attention {
  static constexpr std::int64_t kPictures = 3, kRows = 130, kHeads = 2, kWidth = 6;  // three blocks

  explicit Attention(torch::ScalarType type)
      : angles(drawn({kRows, kWidth / 2}, torch::kDouble)),
        qkv(drawn({kPictures * kRows, 3 * kHeads * kWidth}, type)),
        weights(drawn({kPictures * kRows, kHeads * kWidth}, torch::kDouble).flip(0)) {}

  Tensor angles, qkv, weights;
};

TEST(PictureFunctions, AttentionIsThatOfTextsInEveryType) {
  for (const auto& [type, tolerance] :
       {std::pair(torch::kDouble, 1e-12), {torch::kFloat, 1e-5}, {torch::kBFloat16, 0.03}}) {
    const Attention one(type);
    const auto wide = type == torch::kDouble ? torch::kDouble : torch::kFloat;
    const Tensor cosine = one.angles.cos().to(wide), sine = one.angles.sin().to(wide);
    std::vector<Tensor> results, gradients;
    for (const bool fused : {true, false}) {
      const Tensor qkv = (fused ? one.qkv : one.qkv.to(wide)).detach().requires_grad_();
      const Tensor seen = fused ? attend_pictures(qkv, cosine, sine, Attention::kWidth)
                                : by_rows(qkv, cosine, sine, Attention::kPictures,
                                          static_cast<int>(Attention::kWidth));
      (seen.to(wide) * one.weights.to(wide)).sum().backward();
      results.push_back(seen.detach());
      gradients.push_back(qkv.grad());
    }
    EXPECT_EQ(results[0].scalar_type(), type);
    EXPECT_LT((results[0].to(wide) - results[1]).abs().max().item<double>(), tolerance) << type;
    EXPECT_LT((gradients[0].to(wide) - gradients[1]).abs().max().item<double>(), 3 * tolerance)
        << type;
    EXPECT_GT(gradients[1].abs().max().item<double>(), 0.5) << "large beside the tolerance";
  }
}

TEST(PictureFunctions, AttentionHasTheGradientOfDifferences) {
  const Tensor angles = drawn({5, 2}, torch::kDouble);
  const Tensor qkv = drawn({10, 3 * 8}, torch::kDouble).requires_grad_();
  test::expect_gradients(
      [&] { return attend_pictures(qkv, angles.cos(), angles.sin(), 4).square().sum(); }, {qkv});
}

TEST(PictureFunctions, DropLeavesOutTheShareAndKeepsTheMean) {
  const Tensor x = torch::ones({300, 333}, torch::kFloat);
  const Tensor once = drop(x, 0.25, 7);
  EXPECT_TRUE(once.equal(drop(x, 0.25, 7)));
  EXPECT_FALSE(once.equal(drop(x, 0.25, 8)));
  EXPECT_TRUE(drop(x, 0, 7).equal(x));
  // 100,000 draws: four standard errors.
  EXPECT_NEAR(once.eq(0).to(torch::kFloat).mean().item<double>(), 0.25, 0.0055);
  EXPECT_NEAR(once.mean().item<double>(), 1, 0.0074);
  EXPECT_NEAR(once.max().item<double>(), 4.0 / 3, 1e-6);
  const Tensor y = drawn({5, 7}, torch::kDouble).requires_grad_();
  test::expect_gradients([&] { return drop(y, 0.5, 3).square().sum(); }, {y});
}

}  // namespace
}  // namespace talon::picture_functions_test
