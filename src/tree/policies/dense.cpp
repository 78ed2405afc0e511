#include "tree/policies/dense.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "io/quote.h"
#include "io/storage_type.h"

namespace talon {
namespace {

/// What every 64-bit processor multiplies at once; the compiler finds this by itself only at -O3,
/// and not always.
using Four [[gnu::vector_size(16)]] = float;
/// Outputs whose sums run side by side: four vectors, since a sum waits for the one before.
constexpr std::size_t kPanel = 16;
constexpr std::array<float, kPanel> kZeros{};

/// Weights this small change no output, but weight decay leaves many, and a product below the least
/// normal number takes a hundred times as long as another.
constexpr float kLeastWeight = 1e-20F;

Four load(const float* values) {
  Four four;
  std::memcpy(&four, values, sizeof four);
  return four;
}

struct Sums {
  Four a, b, c, d;

  explicit Sums(const float* w) : a(load(w)), b(load(w + 4)), c(load(w + 8)), d(load(w + 12)) {}
  void add(const float* w, float x) {
    a += load(w) * x;
    b += load(w + 4) * x;
    c += load(w + 8) * x;
    d += load(w + 12) * x;
  }
};

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

Dense::Dense(std::span<const float> weight, std::span<const float> bias)
    : outputs_(static_cast<int>(bias.size())) {
  expects(!bias.empty() && weight.size() % bias.size() == 0, "a row of the matrix per output");
  const std::size_t inputs = weight.size() / bias.size();
  inputs_ = static_cast<int>(inputs);
  bias_.assign((bias.size() + kPanel - 1) / kPanel * kPanel, 0.0F);
  std::copy(bias.begin(), bias.end(), bias_.begin());
  panels_.assign(bias_.size() * inputs, 0.0F);
  for (std::size_t row = 0; row < bias.size(); ++row) {
    float* lane = panels_.data() + row / kPanel * kPanel * inputs + row % kPanel;
    for (std::size_t i = 0; i < inputs; ++i) {
      const float value = weight[row * inputs + i];
      lane[i * kPanel] = std::abs(value) < kLeastWeight ? 0.0F : value;
    }
  }
}

void Dense::apply(std::span<const float> in, std::span<float> out) const {
  expects(static_cast<int>(in.size()) == inputs_ && static_cast<int>(out.size()) == outputs_,
          "vectors of the matrix's size");
  const float* weight = panels_.data();
  for (std::size_t first = 0; first < out.size(); first += kPanel) {
    // Two sums of half the inputs each: less rounding, and less waiting.
    Sums even(bias_.data() + first), odd(kZeros.data());
    std::size_t i = 0;
    for (; i + 2 <= in.size(); i += 2, weight += 2 * kPanel) {
      even.add(weight, in[i]);
      odd.add(weight + kPanel, in[i + 1]);
    }
    if (i < in.size()) {
      even.add(weight, in[i]);
      weight += kPanel;
    }
    const std::array<Four, 4> sums = {even.a + odd.a, even.b + odd.b, even.c + odd.c,
                                      even.d + odd.d};
    std::memcpy(out.data() + first, &sums, std::min(kPanel, out.size() - first) * sizeof(float));
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
  return Dense(read_values(file, matrix), read_values(file, vector));
}

}  // namespace talon
