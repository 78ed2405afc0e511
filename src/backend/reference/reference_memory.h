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

/// [layer][keys, values][slot][kv_heads * head_dim], each value f32 or f16. Memory is touched only
/// where rows are written.
struct Cache : KvStore {
  explicit Cache(const KvShape& shape);

  enum class Part { keys = 0, values = 1 };
  int width() const { return shape.kv_heads * shape.head_dim; }
  void write(int layer, Part part, Slot slot, std::span<const float> row);
  void read(int layer, Part part, Slot slot, std::span<double> row) const;
  /// All layers, keys and values: slot from[i] to slot to[i], as if all were read before any is
  /// written.
  void copy_rows(std::span<const Slot> from, std::span<const Slot> to);

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::size_t row_bytes() const;
  std::size_t offset(int layer, Part part, Slot slot) const;

  std::unique_ptr<std::byte[], Free> memory_;
};

}  // namespace talon::reference
