#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_features.h"
#include "backend/cpu/cpu_linear.h"
#include "backend/cpu/test_matrices.h"

namespace talon::cpu {

const Kernels& emulated_amx_kernels();

}  // namespace talon::cpu

namespace talon::cpu::emulated_amx_test {
namespace {

constexpr int kMostRows = 70;
constexpr int kOutputs = 80;

/// One row of inputs in `share` has values that want the second plane.
std::vector<float> rows_with_outliers(int rows, int cols, int share) {
  std::vector<float> x = random_rows(rows, cols, 3);
  for (int i = 0; i < rows * cols; ++i) {
    if (i / cols % share == 1 && i / 32 % 5 == 2) x[static_cast<std::size_t>(i)] *= 30.0F;
  }
  return x;
}

struct EmulatedAmx : testing::TestWithParam<StorageType> {
  void SetUp() override {
    if (!supported(CpuKernels::avx512_bf16)) GTEST_SKIP() << "no AVX-512 BF16";
  }
  std::vector<float> multiply(const Kernels& kernels, Activations activations, const Weight& weight,
                              const std::vector<float>& x, int rows) {
    auto input = backend->allocate(rows, weight.cols);
    backend->upload(std::span(x).first(static_cast<std::size_t>(rows * weight.cols)), input.view());
    auto out = backend->allocate(rows, weight.rows);
    const Projection projection[] = {{&weight, out.view()}};
    ThreadPool pool(2);
    Linear(kernels, pool, activations).run({.input = input.view(), .outputs = projection});
    std::vector<float> values(static_cast<std::size_t>(rows * weight.rows));
    backend->download(out.view(), values);
    return values;
  }
  std::unique_ptr<Backend> backend = make_cpu_backend({.threads = 1});
};

TEST_P(EmulatedAmx, GivesTheBytesOfTheOtherKernels) {
  const TestMatrix matrix = random_matrix(GetParam(), kOutputs - 3, 1280, 1);
  const auto weight = backend->load_weight(matrix.stored, WeightLayout::as_stored);
  const std::vector<float> x = rows_with_outliers(kMostRows, 1280, 4);
  for (const auto activations : {Activations::bits8, Activations::mixed, Activations::bits16}) {
    const auto expected =
        multiply(choose_kernels(CpuKernels::portable), activations, *weight, x, kMostRows);
    for (const int rows : {1, 6, 7, 8, 9, 12, 13, 16, 17, 33, 64, kMostRows}) {
      const auto got = multiply(emulated_amx_kernels(), activations, *weight, x, rows);
      ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0)
          << rows << " rows";
    }
  }
}

TEST_P(EmulatedAmx, ARowThatHoldsNanGivesNanAndItsNeighboursTheirs) {
  constexpr int kCols = 512, kRows = 9;
  const TestMatrix matrix = random_matrix(GetParam(), kOutputs, kCols, 1);
  const auto weight = backend->load_weight(matrix.stored, WeightLayout::as_stored);
  const std::vector<float> x = rows_with_outliers(kRows, kCols, 4);
  std::vector<float> broken = x;
  broken[3 * kCols + 17] = std::numeric_limits<float>::quiet_NaN();
  for (const auto activations : {Activations::bits8, Activations::mixed, Activations::bits16}) {
    const auto whole = multiply(emulated_amx_kernels(), activations, *weight, x, kRows);
    const auto got = multiply(emulated_amx_kernels(), activations, *weight, broken, kRows);
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(i / kOutputs == 3 ? std::isnan(got[i]) : got[i] == whole[i]) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EmulatedAmx, testing::ValuesIn(kBlockTypes),
                         [](const auto& of) { return std::string(name_of(of.param)); });

}  // namespace
}  // namespace talon::cpu::emulated_amx_test
