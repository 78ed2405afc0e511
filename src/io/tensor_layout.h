#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "io/checkpoint.h"

namespace talon {

/// a * b, or nothing if it does not fit.
inline std::optional<std::uint64_t> checked_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// The bytes that a tensor of this type and shape takes, or nothing if a dimension is negative, the
/// innermost one is not whole blocks, or elements or bytes do not fit in 63 bits. No dimensions:
/// one element.
std::optional<std::uint64_t> stored_bytes(StorageType type, std::span<const std::int64_t> shape);

/// Whether it stores real numbers, plain or in blocks: not integers or booleans.
bool holds_reals(StorageType type);

/// `[4096, 64]`
std::string show_shape(std::span<const std::int64_t> shape);

/// Throws Error, beginning with `doing`, for two tensors of one name.
void refuse_duplicate_names(std::span<const StoredTensor> tensors, std::string_view doing);

}  // namespace talon
