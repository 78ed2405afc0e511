#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "backend/backend.h"

namespace talon {

/// Numbers of the host that an operation needs in a backend's memory, which is kept for the next
/// ones.
class IndexList {
 public:
  /// room: of so many numbers at first; the memory stays where it is until more are put.
  explicit IndexList(Backend& backend, int room = 0)
      : backend_(backend), buffer_(backend.allocate_indices(room)) {}

  /// Uploads `values`. Valid until the next put().
  Indices put(std::span<const std::int32_t> values) {
    const auto count = static_cast<int>(values.size());
    if (count > buffer_.size()) buffer_ = backend_.allocate_indices(std::max(count, 64));
    const Indices indices = buffer_.first(count);
    backend_.upload(values, indices);
    return indices;
  }

 private:
  Backend& backend_;
  IndexBuffer buffer_;
};

}  // namespace talon
