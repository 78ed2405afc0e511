#include "train/head/math/rounding.h"

#include <gtest/gtest.h>
#include <torch/csrc/api/include/torch/autograd.h>

#include <numeric>

#include "backend/cpu/cpu.h"
#include "backend/index_list.h"
#include "train/head/math/parameters.h"

namespace talon::rounding_test {
namespace {

using torch::Tensor;

/// What the engine multiplies by when it is asked to keep a matrix in four bits.
Tensor kept_in_four_bits(const Tensor& matrix) {
  const int rows = static_cast<int>(matrix.size(0)), cols = static_cast<int>(matrix.size(1));
  const auto backend = make_cpu_backend({.threads = 1, .pin = false});
  const std::span values(matrix.data_ptr<float>(), static_cast<std::size_t>(matrix.numel()));
  const auto weight = backend->load_weight(
      {"matrix", StorageType::f32, rows, cols, std::as_bytes(values), {}}, WeightLayout::int4);
  Tensor kept = torch::zeros({rows, cols});
  std::vector<TokenId> ids(static_cast<std::size_t>(rows));
  std::iota(ids.begin(), ids.end(), 0);
  IndexList index(*backend);
  Buffer gathered = backend->allocate(rows, cols);
  backend->embed(*weight, index.put(ids), gathered.view());
  backend->download(gathered.view(), {kept.data_ptr<float>(), values.size()});
  return kept;
}

TEST(RoundedToInt4, IsWhatTheEngineKeepsOfAMatrix) {
  torch::manual_seed(3);
  for (const std::int64_t columns : {20, 64, 75}) {
    const Tensor matrix = torch::randn({12, columns}) * torch::exp(3 * torch::randn({12, 1}));
    matrix[0].fill_(0.3);  // no steps at all
    EXPECT_TRUE(torch::equal(rounded_to_int4(matrix), kept_in_four_bits(matrix))) << columns;
  }
}

TEST(RoundedToInt4, ChangesNothingThatIsRounded) {
  torch::manual_seed(4);
  const Tensor once = rounded_to_int4(torch::randn({8, 96}));
  EXPECT_TRUE(torch::allclose(rounded_to_int4(once), once, 1e-3, 1e-3));
}

/// A head reads rounded matrices and whole vectors; what it learns goes to the values.
TEST(ParameterStore, RoundsMatricesAndLetsGradientsThrough) {
  torch::manual_seed(5);
  ParameterStore store({{"matrix", {4, 32}}, {"norm", {32}}}, torch::kDouble, torch::kDouble,
                       torch::kCPU, /*rounds=*/true);
  const Tensor matrix = torch::randn({4, 32}, torch::kDouble), norm = matrix[0] + 1;
  store.set("matrix", matrix);
  store.set("norm", norm);
  store.refresh_low();
  EXPECT_TRUE(torch::equal(store["matrix"].value, matrix));
  EXPECT_TRUE(torch::equal(store["matrix"].low, rounded_to_int4(matrix)));
  EXPECT_FALSE(torch::equal(store["matrix"].low, matrix));
  EXPECT_TRUE(torch::equal(store["norm"].low, norm));
  const Tensor x = torch::randn({3, 32}, torch::kDouble);
  const Tensor y = linear(x, store["matrix"]);
  EXPECT_TRUE(torch::allclose(y, at::mm(x, rounded_to_int4(matrix).t())));
  y.sum().backward();
  EXPECT_TRUE(torch::allclose(store["matrix"].value.grad(), x.sum(0).expand({4, 32})));
}

}  // namespace
}  // namespace talon::rounding_test
