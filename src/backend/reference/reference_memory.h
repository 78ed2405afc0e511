#pragma once

#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace talon::reference {

/// Zeroed. Throws Error when out of memory.
Buffer allocate(int rows, int cols);
IndexBuffer allocate_indices(int count);

/// The dequantised values, [rows, cols].
struct DenseWeight : Weight {
  std::vector<float> values;

  const float* row(int index) const {
    return values.data() + static_cast<std::size_t>(index) * static_cast<std::size_t>(cols);
  }
};

/// weight * x + bias. bias may be null.
std::vector<double> multiply(const DenseWeight& weight, std::span<const double> x,
                             const float* bias);

/// [layer][keys, values][slot][columns of the layer], each value f32 or f16. Memory is touched only
/// where rows are written.
struct Cache : KvStore {
  explicit Cache(const KvShape& shape);

  enum class Part { keys = 0, values = 1 };
  int cols(int layer, Part part) const {
    const KvWidth width = shape.width(layer);
    return part == Part::keys ? width.key_cols() : width.value_cols();
  }
  void write(int layer, Part part, Slot slot, std::span<const float> row);
  void read(int layer, Part part, Slot slot, std::span<double> row) const;
  /// All layers, keys and values: slot from[i] to slot to[i], as if all were read before any is
  /// written.
  void copy_rows(std::span<const Slot> from, std::span<const Slot> to);

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::size_t row_bytes(int layer, Part part) const;
  std::size_t offset(int layer, Part part, Slot slot) const;

  std::vector<std::size_t> begin_;  // of each layer's keys, then of its values
  std::unique_ptr<std::byte[], Free> memory_;
};

}  // namespace talon::reference
