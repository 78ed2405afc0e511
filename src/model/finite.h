#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/thread_pool.h"
#include "io/storage_type.h"

namespace talon {

/// The index of a value that is NaN or infinite once dequantised to float32, or of the first value
/// of its block; nothing when all are finite. Of quantised types only the float scales can be
/// otherwise, so only they are read. REQUIRES: a floating-point or quantised type, and whole
/// blocks.
std::optional<std::size_t> find_not_finite(StorageType type, std::span<const std::byte> bytes,
                                           ThreadPool& pool);

}  // namespace talon
