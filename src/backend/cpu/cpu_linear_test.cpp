#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_features.h"
#include "backend/cpu/test_matrices.h"

namespace talon::cpu::cpu_linear_test {
namespace {

constexpr CpuKernels kAllKernels[] = {CpuKernels::portable, CpuKernels::avx2,
                                      CpuKernels::avx512_vnni, CpuKernels::avx512_bf16,
                                      CpuKernels::amx};

constexpr Activations kAllActivations[] = {Activations::bits8, Activations::mixed,
                                           Activations::bits16};

std::unique_ptr<Backend> backend_with(CpuKernels kernels, int threads,
                                      Activations activations = Activations::bits8) {
  return make_cpu_backend({threads, kernels, activations, false});
}

/// Rows of which every fifth group or so is far larger than the others, another one in each row.
std::vector<float> rows_with_outliers(int rows, int cols, unsigned seed) {
  std::vector<float> x = random_rows(rows, cols, seed);
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < cols; ++i) {
      if ((i / 32 + row) % 5 == 1) x[static_cast<std::size_t>(row * cols + i)] *= 20.0F;
    }
  }
  return x;
}

/// weights * rows, rows [first, first + count) of `x` only.
std::vector<float> multiply(Backend& backend, std::span<const TestMatrix* const> matrices,
                            const std::vector<float>& x, int first, int count,
                            WeightLayout layout = WeightLayout::as_stored, bool rough = false) {
  const int cols = matrices[0]->stored.cols;
  auto input = backend.allocate(count, cols);
  backend.upload(std::span(x).subspan(static_cast<std::size_t>(first * cols),
                                      static_cast<std::size_t>(count * cols)),
                 input.view());
  std::vector<std::unique_ptr<Weight>> weights;
  std::vector<Buffer> outs;
  std::vector<Projection> projections;
  for (const TestMatrix* matrix : matrices) {
    weights.push_back(backend.load_weight(matrix->stored, layout));
    outs.push_back(backend.allocate(count, matrix->stored.rows));
    projections.push_back({weights.back().get(), outs.back().view()});
  }
  LinearArgs args{};
  args.input = input.view();
  args.outputs = projections;
  args.rough = rough;
  backend.linear(args);
  std::vector<float> result;
  for (int row = 0; row < count; ++row) {
    for (const auto& out : outs) {
      const View view = out.view();
      std::vector<float> values(static_cast<std::size_t>(view.cols));
      backend.download(view.row_range(row, 1), values);
      result.insert(result.end(), values.begin(), values.end());
    }
  }
  return result;
}

std::vector<float> multiply(Backend& backend, const TestMatrix& matrix, const std::vector<float>& x,
                            int first, int count, WeightLayout layout = WeightLayout::as_stored) {
  const TestMatrix* one[] = {&matrix};
  return multiply(backend, one, x, first, count, layout);
}

/// What the kernels of bf16 weights see of a row.
std::vector<double> rounded_to_bf16(std::span<const float> row) {
  std::vector<double> result;
  for (const float x : row) result.push_back(static_cast<double>(bf16_to_float(float_to_bf16(x))));
  return result;
}

/// What the int8 and int4 kernels see of a row of one segment: groups of 32 on a symmetric grid.
std::vector<double> on_grid(std::span<const float> row, Activations activations) {
  std::vector<float> largest;  // of each group
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i % 32 == 0) largest.push_back(0);
    largest.back() = std::max(largest.back(), std::fabs(row[i]));
  }
  largest.resize((row.size() + 63) / 64 * 2);
  const double mean =
      std::accumulate(largest.begin(), largest.end(), 0.0) / static_cast<double>(largest.size());
  std::vector<double> result;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const float most = largest[i / 32];
    const bool fine = activations == Activations::bits16 ||
                      (activations == Activations::mixed && most > 3.0 * mean);
    const float steps = fine ? 32639.0F : 127.0F;
    float whole = std::nearbyint(row[i] * (steps / most));
    if (fine) {
      const float high = 256.0F * std::nearbyint(whole / 256.0F);
      whole = high + std::clamp(whole - high, -127.0F, 127.0F);
    }
    result.push_back(static_cast<double>(most / steps) * whole);
  }
  return result;
}

void expect_products(const TestMatrix& matrix, const std::vector<float>& x, int rows,
                     Activations activations, const std::vector<float>& got) {
  const std::vector<float> w = values_of(matrix);
  const auto cols = static_cast<std::size_t>(matrix.stored.cols);
  const auto outputs = static_cast<std::size_t>(matrix.stored.rows);
  const bool floats = block_shape(matrix.stored.type).elements == 1;
  const bool rounded =
      matrix.stored.type == StorageType::bf16 && activations != Activations::bits16;
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    const auto row = std::span(x).subspan(r * cols, cols);
    const std::vector<double> a = rounded  ? rounded_to_bf16(row)
                                  : floats ? std::vector<double>(row.begin(), row.end())
                                           : on_grid(row, activations);
    for (std::size_t o = 0; o < outputs; ++o) {
      double expected = 0;
      double magnitude = 0;
      for (std::size_t k = 0; k < cols; ++k) {
        expected += a[k] * w[o * cols + k];
        magnitude += std::fabs(a[k] * w[o * cols + k]);
      }
      ASSERT_NEAR(got[r * outputs + o], expected, 2e-6 * magnitude)
          << matrix.stored.name << " row " << r << " output " << o;
    }
  }
}

class LinearKernels : public testing::TestWithParam<CpuKernels> {
 protected:
  void SetUp() override {
    if (!supported(GetParam())) GTEST_SKIP() << "not on this processor";
  }
};
INSTANTIATE_TEST_SUITE_P(All, LinearKernels, testing::ValuesIn(kAllKernels),
                         [](const auto& of) { return std::string(name_of(of.param)); });

TEST_P(LinearKernels, EveryTypeGivesTheProductsOfItsValuesAndTheActivationsOnTheirGrid) {
  for (const Activations activations : kAllActivations) {
    const auto backend = backend_with(GetParam(), 2, activations);
    for (const StorageType type : kBlockTypes) {
      const TestMatrix matrix = random_matrix(type, 37, 512, 1);
      const auto x = rows_with_outliers(3, 512, 2);
      expect_products(matrix, x, 3, activations, multiply(*backend, matrix, x, 0, 3));
    }
    for (const StorageType type : kFloatTypes) {
      const TestMatrix matrix = random_matrix(type, 37, 75, 3);
      const auto x = random_rows(3, 75, 4);
      expect_products(matrix, x, 3, activations, multiply(*backend, matrix, x, 0, 3));
    }
  }
}

TEST_P(LinearKernels, ColumnsThatFillNoWholeUnitArePadded) {
  const auto backend = backend_with(GetParam(), 1);
  for (const int cols : {32, 96, 288}) {
    for (const StorageType type : {StorageType::q4_0, StorageType::q4_1, StorageType::q8_0}) {
      const TestMatrix matrix = random_matrix(type, 5, cols, 5);
      const auto x = random_rows(2, cols, 6);
      expect_products(matrix, x, 2, Activations::bits8, multiply(*backend, matrix, x, 0, 2));
    }
  }
}

TEST_P(LinearKernels, ARowsBytesDoNotDependOnTheRowsBesideItNorOnThreads) {
  constexpr int kRows = 23;
  std::vector<StorageType> types(std::begin(kBlockTypes), std::end(kBlockTypes));
  types.insert(types.end(), std::begin(kFloatTypes), std::end(kFloatTypes));
  for (const Activations activations : kAllActivations) {
    const auto one = backend_with(GetParam(), 1, activations);
    const auto two = backend_with(GetParam(), 2, activations);
    for (const StorageType type : types) {
      const TestMatrix matrix = random_matrix(type, 68, 256, 7);
      const auto x = rows_with_outliers(kRows, 256, 8);
      const auto in_chunks = [&](Backend& backend, int size) {
        std::vector<float> all;
        for (int row = 0; row < kRows; row += size) {
          const auto y = multiply(backend, matrix, x, row, std::min(size, kRows - row));
          all.insert(all.end(), y.begin(), y.end());
        }
        return all;
      };
      const auto together = multiply(*two, matrix, x, 0, kRows);
      for (const int size : {1, 2, 7, 13}) {
        for (Backend* backend : {one.get(), two.get()}) {
          const auto chunked = in_chunks(*backend, size);
          EXPECT_EQ(std::memcmp(together.data(), chunked.data(), 4 * chunked.size()), 0)
              << matrix.stored.name << ", " << size << " rows at once, activations "
              << name_of(activations);
        }
      }
    }
  }
}

TEST_P(LinearKernels, BytesAreThoseOfThePortableKernels) {
  for (const Activations activations : kAllActivations) {
    const auto portable = backend_with(CpuKernels::portable, 1, activations);
    const auto backend = backend_with(GetParam(), 2, activations);
    std::vector<StorageType> types(std::begin(kBlockTypes), std::end(kBlockTypes));
    types.insert(types.end(), std::begin(kFloatTypes), std::end(kFloatTypes));
    for (const StorageType type : types) {
      const TestMatrix matrix = random_matrix(type, 40, 512, 9);
      const auto x = rows_with_outliers(40, 512, 10);
      const auto expected = multiply(*portable, matrix, x, 0, 40);
      const auto got = multiply(*backend, matrix, x, 0, 40);
      EXPECT_EQ(std::memcmp(expected.data(), got.data(), 4 * got.size()), 0) << matrix.stored.name;
    }
  }
}

/// Rows of inputs that all become 127 or -127.
std::vector<float> rows_of_largest(int rows, int cols) {
  std::vector<float> x(static_cast<std::size_t>(rows * cols), 1.0F);
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < cols; ++i) {
      const bool negative = row % 3 == 1 || (row % 3 == 2 && i / 4 % 2 == 1);
      if (negative) x[static_cast<std::size_t>(row * cols + i)] = -1.0F;
    }
  }
  return x;
}

/// Kernels that add products in few bits must have room for the largest sums there are.
TEST_P(LinearKernels, BytesAreThoseOfThePortableKernelsForTheLargestCodesAndInputs) {
  const auto portable = backend_with(CpuKernels::portable, 1);
  const auto backend = backend_with(GetParam(), 2);
  const auto x = rows_of_largest(19, 512);
  for (const StorageType type : kBlockTypes) {
    for (const int byte : {0x00, 0x77, 0x7F, 0x80, 0x88, 0xF7, 0xFF}) {
      TestMatrix matrix = random_matrix(type, 40, 512, 11);
      const TestMatrix scales = matrix;
      std::ranges::fill(matrix.bytes, static_cast<std::byte>(byte));
      copy_scales(scales, matrix);
      const auto expected = multiply(*portable, matrix, x, 0, 19);
      const auto got = multiply(*backend, matrix, x, 0, 19);
      ASSERT_EQ(std::memcmp(expected.data(), got.data(), 4 * got.size()), 0)
          << matrix.stored.name << " of bytes " << byte;
    }
  }
}

TEST_P(LinearKernels, ProductsOfRoundedInputsBelowTheNormalNumbersAreZeroForAll) {
  TestMatrix matrix = random_matrix(StorageType::bf16, 40, 64, 32);
  for (std::size_t i = 0; i < matrix.bytes.size(); i += 2) {
    matrix.bytes[i + 1] &= std::byte{0x83};  // weights of 2^-126 to 2^-120, some below
  }
  const auto portable = backend_with(CpuKernels::portable, 1);
  const auto backend = backend_with(GetParam(), 2);
  for (const float factor : {1e-3F, 0.1F, 1.0F, 1e-39F}) {
    auto x = random_rows(13, 64, 33);
    for (float& value : x) value *= factor;
    const auto expected = multiply(*portable, matrix, x, 0, 13);
    const auto got = multiply(*backend, matrix, x, 0, 13);
    EXPECT_EQ(std::memcmp(expected.data(), got.data(), 4 * got.size()), 0) << factor;
    for (const float y : got) EXPECT_NE(std::fpclassify(y), FP_SUBNORMAL);
  }
  volatile float smallest = 1e-38F;  // the processor's own setting is as it was
  EXPECT_NE(smallest * 0.1F, 0.0F);
}

TEST_P(LinearKernels, RoughInputsAreThoseOf8Bits) {
  const TestMatrix matrix = random_matrix(StorageType::q4_1, 40, 512, 30);
  const TestMatrix* one[] = {&matrix};
  const auto x = rows_with_outliers(13, 512, 31);
  const auto expected =
      multiply(*backend_with(GetParam(), 1, Activations::bits8), matrix, x, 0, 13);
  for (const Activations activations : kAllActivations) {
    const auto backend = backend_with(GetParam(), 2, activations);
    EXPECT_EQ(multiply(*backend, one, x, 0, 13, WeightLayout::as_stored, true), expected)
        << name_of(activations);
  }
}

TEST_P(LinearKernels, ExtremeCodesAndActivationsDoNotOverflow) {
  TestMatrix matrix = random_matrix(StorageType::q8_0, 16, 64, 11);
  for (std::size_t i = 0; i < matrix.bytes.size(); ++i) {
    if (i % 34 >= 2) matrix.bytes[i] = static_cast<std::byte>(i / 34 % 2 == 0 ? -128 : 127);
  }
  for (const Activations activations : kAllActivations) {
    const auto backend = backend_with(GetParam(), 1, activations);
    for (const float value : {3.0F, -3.0F}) {
      const std::vector<float> x(64, value);
      expect_products(matrix, x, 1, activations, multiply(*backend, matrix, x, 0, 1));
    }
  }
}

TEST_P(LinearKernels, ARowThatHoldsWhatIsNoNumberGivesNoNumbersAndItsNeighboursTheirs) {
  constexpr int kRows = 3, kCols = 512, kOutputs = 20;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  struct Fault {
    float value;
    int first, count;
  };
  constexpr Fault kFaults[] = {{kNan, 0, 1},       {-kNan, 17, 1},       {kNan, 0, kCols},
                               {kInfinity, 40, 1}, {-kInfinity, 511, 1}, {kInfinity, 0, kCols}};
  std::vector<StorageType> types(std::begin(kBlockTypes), std::end(kBlockTypes));
  types.insert(types.end(), std::begin(kFloatTypes), std::end(kFloatTypes));
  const auto x = rows_with_outliers(kRows, kCols, 35);
  for (const Activations activations : kAllActivations) {
    const auto backend = backend_with(GetParam(), 1, activations);
    for (const StorageType type : types) {
      const TestMatrix matrix = random_matrix(type, kOutputs, kCols, 34);
      const auto whole = multiply(*backend, matrix, x, 0, kRows);
      for (const Fault& fault : kFaults) {
        auto broken = x;
        std::fill_n(broken.begin() + kCols + fault.first, fault.count, fault.value);
        const auto got = multiply(*backend, matrix, broken, 0, kRows);
        for (std::size_t i = 0; i < got.size(); ++i) {
          const bool is_broken = i / kOutputs == 1;
          ASSERT_TRUE(is_broken ? !std::isfinite(got[i]) : got[i] == whole[i])
              << matrix.stored.name << ", activations " << name_of(activations) << ", "
              << fault.value << " from " << fault.first << " on, output " << i;
        }
      }
    }
  }
}

TEST_P(LinearKernels, ProjectionsOfDifferentTypesShareOneInput) {
  const auto backend = backend_with(GetParam(), 2);
  const TestMatrix a = random_matrix(StorageType::q4_1, 48, 256, 12);
  const TestMatrix b = random_matrix(StorageType::q6_k, 16, 256, 13);
  const TestMatrix c = random_matrix(StorageType::bf16, 20, 256, 14);
  const TestMatrix* all[] = {&a, &b, &c};
  for (const int rows : {1, 11}) {
    const auto x = random_rows(rows, 256, 15);
    const auto together = multiply(*backend, all, x, 0, rows);
    std::vector<float> apart;
    for (int row = 0; row < rows; ++row) {
      for (const TestMatrix* matrix : all) {
        const auto y = multiply(*backend, *matrix, x, row, 1);
        apart.insert(apart.end(), y.begin(), y.end());
      }
    }
    EXPECT_EQ(together, apart);
  }
}

TEST_P(LinearKernels, NormGateBiasAndAccumulationAreThoseOfSeparateSteps) {
  constexpr int kCols = 1536;
  const auto backend = backend_with(GetParam(), 2, Activations::mixed);
  const TestMatrix matrix = random_matrix(StorageType::q4_k, 33, kCols, 16);
  const auto weight = backend->load_weight(matrix.stored, WeightLayout::as_stored);
  for (const int rows : {1, 2, 3, 17}) {
    const auto upload = [&](int cols, unsigned seed) {
      auto buffer = backend->allocate(rows, cols);
      backend->upload(rows_with_outliers(rows, cols, seed), buffer.view());
      return buffer;
    };
    const auto x = upload(2 * kCols, 17);
    const auto plain = backend->allocate(rows, kCols);
    const auto expected = backend->allocate(rows, 33);
    const auto got = backend->allocate(rows, 33);
    const auto bias = backend->allocate(1, 33);
    backend->upload(random_rows(1, 33, 18), bias.view());
    const auto norm = backend->allocate(1, kCols);
    backend->upload(random_rows(1, kCols, 19), norm.view());
    const auto download = [&](const View& view) {
      std::vector<float> values(static_cast<std::size_t>(rows * view.cols));
      backend->download(view, values);
      return values;
    };
    for (const auto transform : {InputTransform::rms_norm, InputTransform::silu_gate}) {
      const View left = x.view().col_range(0, kCols);
      if (transform == InputTransform::rms_norm) {
        backend->rms_norm(left, norm.view(), 1e-5F, plain.view());
      } else {
        backend->copy(left, plain.view());
        backend->activate(plain.view(), Activation::silu);
        std::vector<float> gated = download(plain.view());
        const std::vector<float> up = download(x.view().col_range(kCols, kCols));
        for (std::size_t i = 0; i < gated.size(); ++i) gated[i] *= up[i];
        backend->upload(gated, plain.view());
      }
      const Projection simple[] = {{weight.get(), expected.view()}};
      LinearArgs args{};
      args.input = plain.view();
      args.outputs = simple;
      backend->linear(args);
      std::vector<float> want = download(expected.view());
      const std::vector<float> biases = [&] {
        std::vector<float> values(33);
        backend->download(bias.view(), values);
        return values;
      }();
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += biases[i % 33];
      const std::vector<float> before = random_rows(rows, 33, 20);
      for (std::size_t i = 0; i < want.size(); ++i) want[i] = before[i] + want[i];

      backend->upload(before, got.view());
      const Projection full[] = {{weight.get(), got.view(), bias.view(), true}};
      args.input = transform == InputTransform::rms_norm ? left : x.view();
      args.transform = transform;
      args.norm = norm.view();
      args.norm_epsilon = 1e-5F;
      args.outputs = full;
      backend->linear(args);
      EXPECT_EQ(download(got.view()), want) << rows;
    }
  }
}

TEST(LinearRows, ZeroRowsAndTinyAndHugeValuesGiveWhatTheyShould) {
  const auto backend = backend_with(CpuKernels::best, 2);
  const TestMatrix matrix = random_matrix(StorageType::q4_1, 16, 64, 21);
  EXPECT_TRUE(multiply(*backend, matrix, {}, 0, 0).empty());
  for (const float value : {0.0F, 1e-38F}) {
    for (const float y : multiply(*backend, matrix, std::vector<float>(64, value), 0, 1)) {
      EXPECT_EQ(y, 0.0F);
    }
  }
  const std::vector<float> large(64, 1e30F);
  expect_products(matrix, large, 1, Activations::bits8, multiply(*backend, matrix, large, 0, 1));
}

}  // namespace
}  // namespace talon::cpu::cpu_linear_test
