#include "train/head/math/functions.h"

#include <gtest/gtest.h>
#include <torch/csrc/api/include/torch/autograd.h>

#include <cmath>
#include <functional>

#include "train/head/math/block_attention.h"
#include "train/head/math/gradient_check.h"
#include "train/head/math/optimizer.h"

namespace talon::functions_test {
namespace {

using test::expect_gradients;
using torch::Tensor;

Tensor random(std::vector<std::int64_t> shape) { return torch::randn(shape, torch::kDouble); }

Parameter parameter(std::vector<std::int64_t> shape) {
  const Tensor value = random(shape).requires_grad_();
  return {value, value.detach()};
}

/// A scalar that every element of x enters with another weight.
Tensor mixed(const Tensor& x) {
  const Tensor weights = torch::linspace(-1, 2, x.numel(), torch::kDouble).cos();
  return (x.reshape(-1) * weights).sum();
}

class HeadFunctions : public ::testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(7); }
};

TEST_F(HeadFunctions, GradientOfLinear) {
  const Parameter weight = parameter({4, 3});
  const Tensor x = random({5, 3}).requires_grad_();
  expect_gradients([&] { return mixed(linear(x, weight)); }, {x, weight.value});
}

TEST_F(HeadFunctions, GradientOfRmsNorm) {
  const Parameter weight = parameter({6});
  const Tensor x = random({4, 6}).requires_grad_();
  expect_gradients([&] { return mixed(rms_norm(x, weight, 1e-5, torch::kDouble)); },
                   {x, weight.value});
}

TEST_F(HeadFunctions, GradientOfSiluGate) {
  const Tensor x = random({3, 8}).requires_grad_();
  expect_gradients([&] { return mixed(silu_gate(x)); }, {x});
}

TEST_F(HeadFunctions, GradientOfRotate) {
  const Tensor x = random({3, 2 * 4}).requires_grad_();
  const Tensor angle = random({3, 2});
  expect_gradients([&] { return mixed(rotate(x, angle.cos(), angle.sin())); }, {x});
}

/// Of two sequences, with a row of padding; grouped heads.
TEST_F(HeadFunctions, GradientOfBlockAttention) {
  constexpr int kDim = 2, kRows = 2;
  const AnchoredRows both{kRows, false, {2, 3, 6, 0}, {{0, 4, 0, 2}, {4, 3, 2, 1}}};
  const Tensor q = random({8, 2 * 2 * kDim}).requires_grad_();
  const Tensor k = random({7, 2 * kDim}).requires_grad_(),
               v = random({7, 2 * kDim}).requires_grad_();
  const Tensor own_k = random({8, 2 * kDim}).requires_grad_();
  const Tensor own_v = random({8, 2 * kDim}).requires_grad_();
  for (const bool causal : {false, true}) {
    AnchoredRows blocks = both;
    blocks.causal = causal;
    expect_gradients([&] { return mixed(attend_blocks(q, k, v, own_k, own_v, blocks, kDim)); },
                     {q, k, v, own_k, own_v});
  }
}

/// Row r of an anchor sees the pairs up to the anchor's and its block, nothing else.
TEST_F(HeadFunctions, BlockAttentionSeesThePairsUpToItsAnchorAndItsBlock) {
  constexpr int kDim = 2;
  const AnchoredRows blocks{2, true, {2, 3}, {{0, 5, 0, 2}}};
  const Tensor q = random({4, kDim}), k = random({5, kDim}), v = random({5, kDim});
  const Tensor own_k = random({4, kDim}), own_v = random({4, kDim});
  const Tensor out = attend_blocks(q, k, v, own_k, own_v, blocks, kDim);
  const auto expected = [&](int row, int pairs, int first_own, int owns) {
    const Tensor keys = at::cat({k.narrow(0, 0, pairs), own_k.narrow(0, first_own, owns)});
    const Tensor values = at::cat({v.narrow(0, 0, pairs), own_v.narrow(0, first_own, owns)});
    const Tensor scores = at::mv(keys, q[row]) / std::sqrt(2.0);
    return at::mv(values.t(), at::softmax(scores, 0));
  };
  EXPECT_TRUE(at::allclose(out[0], expected(0, 3, 0, 1)));
  EXPECT_TRUE(at::allclose(out[1], expected(1, 3, 0, 2)));
  EXPECT_TRUE(at::allclose(out[2], expected(2, 4, 2, 1)));
  EXPECT_TRUE(at::allclose(out[3], expected(3, 4, 2, 2)));
}

/// Two sequences, grouped heads, two later steps.
struct AttentionCase {
  static constexpr int kDim = 2;
  std::vector<SequenceRange> sequences = {{0, 4, 0, 2}, {4, 3, 2, 3}};
  AttentionInput input{
      random({5, 4 * kDim}).requires_grad_(), random({7, 2 * kDim}).requires_grad_(),
      random({7, 2 * kDim}).requires_grad_(), random({2, 5, 2 * kDim}).requires_grad_(),
      random({2, 5, 2 * kDim}).requires_grad_()};
};

TEST_F(HeadFunctions, GradientOfAttention) {
  const AttentionCase c;
  expect_gradients([&] { return mixed(attend(c.input, c.sequences, AttentionCase::kDim)); },
                   {c.input.q, c.input.k, c.input.v, c.input.later_k, c.input.later_v});
}

TEST_F(HeadFunctions, AttentionSeesThePastOfItsSequenceAndItsOwnLaterKeys) {
  const AttentionCase c;
  const Tensor out = attend(c.input, c.sequences, AttentionCase::kDim);
  for (const SequenceRange& s : c.sequences) {
    for (std::int64_t r = 0; r < s.query_count; ++r) {
      const std::int64_t row = s.query_begin + r, visible = s.key_count - s.query_count + r + 1;
      for (int head = 0; head < 4; ++head) {
        const auto part = [&](const Tensor& x, int of) {
          return x.narrow(-1, of * AttentionCase::kDim, AttentionCase::kDim);
        };
        const Tensor q = part(c.input.q[row], head);
        const Tensor k = at::cat({part(c.input.k, head / 2).narrow(0, s.key_begin, visible),
                                  part(c.input.later_k.select(1, row), head / 2)});
        const Tensor v = at::cat({part(c.input.v, head / 2).narrow(0, s.key_begin, visible),
                                  part(c.input.later_v.select(1, row), head / 2)});
        const Tensor weight = at::softmax(at::mv(k, q) / std::sqrt(2.0), 0);
        EXPECT_TRUE(at::allclose(part(out[row], head), at::mv(v.t(), weight)));
      }
    }
  }
}

class HeadLosses : public HeadFunctions {
 protected:
  void SetUp() override {
    HeadFunctions::SetUp();
    h = random({4, 3}).requires_grad_();
    rows = random({6, 3});
    p = at::softmax(random({4, 6}) * 2, 1);
    row_weight = torch::tensor({0.5, 1.0, 0.0, 2.0}, torch::kDouble);
  }
  Tensor h, rows, p, row_weight;
};

TEST_F(HeadLosses, SoftCrossEntropyIsItsDefinition) {
  const WantedTokens wanted{p.sum(1), at::mm(p, rows)};
  const Tensor expected =
      -((p * at::log_softmax(at::mm(h, rows.t()), 1)).sum(1) * row_weight).sum();
  EXPECT_NEAR(soft_cross_entropy(h, rows, wanted, row_weight).item<double>(),
              expected.item<double>(), 1e-12);
}

TEST_F(HeadLosses, GradientOfSoftCrossEntropy) {
  const WantedTokens wanted{p.sum(1), at::mm(p, rows)};
  expect_gradients([&] { return soft_cross_entropy(h, rows, wanted, row_weight); }, {h});
}

TEST_F(HeadLosses, GradientOfTopTokenDistillation) {
  const auto [values, indices] = p.topk(2, 1);
  const Tensor top = torch::zeros_like(p).scatter(1, indices, values);
  const WantedTokens wanted{top.sum(1), at::mm(top, rows)};
  expect_gradients([&] { return soft_cross_entropy(h, rows, wanted, row_weight); }, {h});
}

TEST_F(HeadLosses, GradientOfLikelihoodOfAcceptance) {
  expect_gradients([&] { return acceptance_loss(h, rows, p, row_weight); }, {h});
}

TEST_F(HeadLosses, GradientOfTotalVariation) {
  expect_gradients([&] { return variation_loss(h, rows, p, row_weight); }, {h});
}

TEST_F(HeadLosses, TotalVariationIsHalfTheSumOfDifferences) {
  const Tensor q = at::softmax(at::mm(h, rows.t()), 1);
  const Tensor expected = (0.5 * (p - q).abs().sum(1) * row_weight).sum();
  EXPECT_NEAR(variation_loss(h, rows, p, row_weight).item<double>(), expected.item<double>(),
              1e-12);
}

class CoupledLoss : public HeadLosses {
 protected:
  void SetUp() override {
    HeadLosses::SetUp();
    noise = -torch::rand({4, 6}, torch::kDouble).log().neg().log() * 0.7;
    winner = torch::tensor({5, 0, 2, 3}, torch::kLong);
  }
  Tensor loss() const { return coupled_loss(h, rows, noise, winner, weights, row_weight); }
  Tensor noise, winner;
  CouplingWeights weights{.gain = 1.5, .sharpness = 0.8};
};

TEST_F(CoupledLoss, IsItsDefinition) {
  const Tensor chances = at::softmax(0.8 * (1.5 * at::mm(h, rows.t()) + noise), 1);
  const Tensor drawn = chances.gather(1, winner.unsqueeze(1)).squeeze(1);
  EXPECT_NEAR(loss().item<double>(), -(drawn.log() * row_weight).sum().item<double>(), 1e-12);
}

TEST_F(CoupledLoss, Gradient) {
  expect_gradients([&] { return loss(); }, {h});
}

TEST_F(HeadLosses, GradientOfSmoothL1) {
  const Tensor wanted = random({4, 3}) * 2;
  expect_gradients([&] { return smooth_l1(h, wanted, row_weight); }, {h});
}

/// One step along a gradient of norm 5.
Tensor stepped(double clip) {
  ParameterStore parameters({{"x", {2}}}, torch::kDouble, torch::kDouble, torch::kCPU);
  Optimizer optimizer(parameters, {.warmup = 0, .clip = clip});
  parameters.gradients().copy_(torch::tensor({3.0, 4.0}, torch::kDouble));
  EXPECT_EQ(optimizer.step(0), 5);
  return at::cat({parameters.values(), optimizer.first_moment});
}

TEST(Optimizer, ClipOfZeroIsNoLimit) {
  EXPECT_TRUE(stepped(0).equal(stepped(1e6)));
  EXPECT_FALSE(stepped(1).equal(stepped(1e6)));
}

}  // namespace
}  // namespace talon::functions_test
