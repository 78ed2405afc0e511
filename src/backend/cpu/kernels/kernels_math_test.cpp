#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_features.h"
#include "backend/cpu/test_matrices.h"
#include "core/half.h"
#include "core/types.h"

namespace talon::cpu::kernels_math_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class MathKernels : public testing::TestWithParam<CpuKernels> {
 protected:
  void SetUp() override {
    if (!supported(GetParam())) GTEST_SKIP() << "not on this processor";
    kernels_ = &choose_kernels(GetParam());
  }
  const Kernels* kernels_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(All, MathKernels,
                         testing::Values(CpuKernels::portable, CpuKernels::avx2,
                                         CpuKernels::avx512_vnni, CpuKernels::avx512_bf16,
                                         CpuKernels::amx),
                         [](const auto& of) { return std::string(name_of(of.param)); });

TEST_P(MathKernels, GateIsSiluOverTheWholeRange) {
  std::vector<float> gate;
  for (float x = -95.0F; x < 95.0F; x += 0.037F) gate.push_back(x);
  const int n = static_cast<int>(gate.size());
  const std::vector<float> up(gate.size(), 1.0F);
  std::vector<float> out(gate.size());
  kernels_->silu_gate(gate.data(), up.data(), n, out.data());
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double x = gate[i];
    const double want = x / (1.0 + std::exp(-x));
    ASSERT_NEAR(out[i], want, 1e-6 * std::fabs(want) + 1e-36) << x;
  }
}

/// Of a function's numbers none is the usual one; at 0 it is as below.
TEST_P(MathKernels, XieluIsThatOfItsNumbersAndAlikeInAllInstructionSets) {
  const Xielu function{1.3F, 0.7F, 0.45F, -1e-6F};
  std::vector<float> x = {0, -0.0F, 1e-7F, -1e-7F, 3e-6F, -3e-6F, 1e-3F, -1e-3F, -1e5F};
  for (float value = -95.0F; value < 95.0F; value += 0.037F) x.push_back(value);
  const int n = static_cast<int>(x.size());
  std::vector<float> out(x.size()), portable(x.size());
  const auto run = [&](const Kernels& kernels, std::vector<float>& to) {
    kernels.transform(InputTransform::xielu, function, x.data(), nullptr, n, to.data());
  };
  run(*kernels_, out);
  run(choose_kernels(CpuKernels::portable), portable);
  EXPECT_EQ(std::memcmp(out.data(), portable.data(), x.size() * sizeof(float)), 0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = x[i], linear = 0.45 * value;
    const double curve =
        value > 0 ? 1.3 * value * value : 0.7 * (std::expm1(std::fmin(value, -1e-6)) - value);
    ASSERT_NEAR(out[i], linear + curve, 1e-6 * (std::fabs(linear) + std::fabs(curve))) << value;
  }
}

TEST_P(MathKernels, SoftmaxSumsToOneAndKeepsRatios) {
  for (const int n : {1, 5, 16, 33, 1000}) {
    const auto x = random_rows(1, n, 1);
    std::vector<float> out(x.size());
    kernels_->softmax(x.data(), 0.7F, n, out.data());
    double sum = 0;
    for (const float value : x) sum += std::exp(value / 0.7F);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(out[i], std::exp(x[i] / 0.7) / sum, 1e-6) << n;
    }
  }
}

TEST_P(MathKernels, ArgmaxIsTheFirstLargestAndPassesOverNan) {
  for (const int n : {1, 16, 40, 333}) {
    std::vector<float> x(static_cast<std::size_t>(n), -kInfinity);
    float top = 0;
    EXPECT_EQ(kernels_->argmax(x.data(), n, &top), 0);
    EXPECT_EQ(top, -kInfinity);
    for (auto& value : x) value = kNan;
    EXPECT_EQ(kernels_->argmax(x.data(), n, &top), 0);
    EXPECT_TRUE(std::isnan(top));
    x.back() = -3.0F;
    EXPECT_EQ(kernels_->argmax(x.data(), n, &top), n - 1);
    EXPECT_EQ(std::isnan(top), n > 1);
    for (auto& value : x) value = 2.0F;
    EXPECT_EQ(kernels_->argmax(x.data(), n, &top), 0);
    EXPECT_EQ(top, 2.0F);
    x[0] = kNan;
    EXPECT_EQ(kernels_->argmax(x.data(), n, &top), n > 1 ? 1 : 0);
    EXPECT_TRUE(std::isnan(top));
  }
}

TEST_P(MathKernels, RmsNormDividesByTheRootMeanSquare) {
  for (const int n : {8, 48, 576, 577}) {
    const auto x = random_rows(1, n, 2);
    const auto weight = random_rows(1, n, 3);
    std::vector<float> out(x.size());
    kernels_->rms_norm(x.data(), weight.data(), 1e-5F, n, out.data());
    double squares = 0;
    for (const float value : x) squares += static_cast<double>(value) * value;
    const double rms = std::sqrt(squares / n + 1e-5);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(out[i], x[i] / rms * weight[i], 1e-5) << n;
    }
  }
}

/// The nearest of two ties is the even one; numbers below the normal ones become 0, NaN stays NaN.
TEST_P(MathKernels, Bf16IsRoundedAlikeByAllInstructionSets) {
  std::vector<float> values = {0.0F,        -0.0F,       1.0F,    -2.5F,           kInfinity,
                               -kInfinity,  1e-39F,      -1e-39F, 1.17549435e-38F, 3.4e38F,
                               1.00390625F, 1.01171875F, -kNan,   1.0000001F,      0.99999994F};
  for (int i = 0; i < 52; ++i)
    values.push_back(std::ldexp(1.0F + 0.01357F * static_cast<float>(i), i - 26));
  const auto n = static_cast<int>(values.size());  // two vectors, and some more
  std::vector<std::uint16_t> stored(values.size(), 7);
  kernels_->store_bf16(values.data(), n, stored.data());
  std::vector<std::byte> rounded(values.size() * static_cast<std::size_t>(kernels_->rounded_bytes));
  kernels_->round(values.data(), n, rounded.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float value = values[i];
    const bool tiny = std::abs(value) < std::numeric_limits<float>::min();
    const std::uint16_t wanted = float_to_bf16(tiny ? std::copysign(0.0F, value) : value);
    EXPECT_EQ(stored[i], wanted) << value;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &rounded[i * static_cast<std::size_t>(kernels_->rounded_bytes)],
                static_cast<std::size_t>(kernels_->rounded_bytes));
    if (kernels_->rounded_bytes == 4) {
      EXPECT_EQ(bits & 0xFFFF, 0U) << value;
      bits >>= 16;
    }
    EXPECT_EQ(bits, wanted) << value;
  }
}

TEST(CpuBackendRows, TopKIsSortedWithTiesByIndexAndNanLast) {
  const auto backend = make_cpu_backend({2, CpuKernels::best, Activations::bits8, false});
  const auto x = backend->allocate(2, 40);
  std::vector<float> values(80, 1.0F);
  values[7] = 5.0F;
  values[33] = 9.0F;
  values[3] = kNan;
  values[40] = kNan;
  values[79] = 5.0F;
  backend->upload(values, x.view());
  const auto top_of = [&](int k) {
    const auto values_of_k = backend->allocate(2, k);
    const IndexBuffer indices_of_k = backend->allocate_indices(2 * k);
    backend->top_k(x.view(), k, values_of_k.view(), indices_of_k.first(2 * k));
    std::pair<std::vector<float>, std::vector<TokenId>> top;
    top.first.resize(static_cast<std::size_t>(2 * k));
    top.second.resize(top.first.size());
    backend->download(values_of_k.view(), top.first);
    backend->download(indices_of_k.first(2 * k), top.second);
    return top;
  };
  const auto [top, indices] = top_of(4);
  EXPECT_EQ(indices, (std::vector<TokenId>{33, 7, 0, 1, 39, 1, 2, 3}));
  EXPECT_EQ(top, (std::vector<float>{9, 5, 1, 1, 5, 1, 1, 1}));
  const auto [all, order] = top_of(40);
  EXPECT_EQ(order[39], 3);
  EXPECT_EQ(order[79], 0);
}

}  // namespace
}  // namespace talon::cpu::kernels_math_test
