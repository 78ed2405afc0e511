#include "tree/policies/dense.h"

#include <fmt/ranges.h>

#include <array>
#include <cmath>

#include "core/error.h"
#include "io/quote.h"
#include "io/storage_type.h"

namespace talon {
namespace {

/// Eight sums side by side: one after the other they would wait for each other.
float dot(std::span<const float> a, const float* b) {
  std::array<float, 8> sums{};
  std::size_t i = 0;
  for (; i + 8 <= a.size(); i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < a.size(); ++i) sums[0] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

std::vector<float> read_values(const Checkpoint& file, const StoredTensor& tensor) {
  const bool is_plain = tensor.type == StorageType::f32 || tensor.type == StorageType::f16 ||
                        tensor.type == StorageType::bf16;
  if (!is_plain) {
    fail("read {} of {}: expected f32, f16 or bf16, found {}", quote(tensor.name),
         quote(file.path.string()), name_of(tensor.type));
  }
  std::size_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= static_cast<std::size_t>(size);
  std::vector<float> values(count);
  dequantize(tensor.type, tensor.bytes, values);
  for (const float value : values) {
    if (!std::isfinite(value)) {
      fail("read {} of {}: expected finite numbers, found {}", quote(tensor.name),
           quote(file.path.string()), value);
    }
  }
  return values;
}

}  // namespace

void Dense::apply(std::span<const float> in, std::span<float> out) const {
  expects(static_cast<int>(in.size()) == inputs && static_cast<int>(out.size()) == outputs,
          "vectors of the matrix's size");
  for (std::size_t row = 0; row < out.size(); ++row) {
    out[row] = bias[row] + dot(in, weight.data() + row * in.size());
  }
}

Dense read_dense(const Checkpoint& file, const std::string& weight, const std::string& bias,
                 int outputs, int inputs) {
  constexpr std::int64_t kMost = 1 << 20;
  const StoredTensor& matrix = file.require(weight);
  const auto is = [](std::int64_t found, int wanted) {
    return found >= 1 && found <= kMost && (wanted < 0 || found == wanted);
  };
  if (matrix.shape.size() != 2 || !is(matrix.shape[0], outputs) || !is(matrix.shape[1], inputs)) {
    fail("read {} of {}: expected a matrix of {} rows and {} columns (-1: any), found {}",
         quote(weight), quote(file.path.string()), outputs, inputs,
         fmt::format("[{}]", fmt::join(matrix.shape, ",")));
  }
  const StoredTensor& vector = file.require(bias);
  if (vector.shape != std::vector<std::int64_t>{matrix.shape[0]}) {
    fail("read {} of {}: expected {} numbers, found {}", quote(bias), quote(file.path.string()),
         matrix.shape[0], fmt::format("[{}]", fmt::join(vector.shape, ",")));
  }
  Dense dense;
  dense.outputs = static_cast<int>(matrix.shape[0]);
  dense.inputs = static_cast<int>(matrix.shape[1]);
  dense.weight = read_values(file, matrix);
  dense.bias = read_values(file, vector);
  return dense;
}

}  // namespace talon
