#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "io/checkpoint.h"

namespace talon {

/// A matrix as its file stores it, where backends would bring it into a layout of their own.
struct KeptWeight : Weight {
  StorageType type = StorageType::f32;
  bool stays_float = false;         // kept in float32 by every backend
  std::span<const std::byte> from;  // rows as stored, borrowed from the checkpoint or `own`
  std::vector<std::byte> own;       // of a matrix that was put together
  std::vector<std::int32_t> order;  // row i is stored row order[i]; empty: as stored

  std::size_t row_bytes() const;
  std::span<const std::byte> row(int index) const;
};

/// Values as a matrix of `rows` rows.
std::unique_ptr<KeptWeight> keep_values(std::span<const float> values, int rows);

/// A backend that keeps weights as they are stored, so that whatever the loader of models reads can
/// be written again. Nothing can be computed with them. `checkpoint` outlives its weights.
std::unique_ptr<Backend> make_keeping_backend(const Checkpoint& checkpoint);

}  // namespace talon
