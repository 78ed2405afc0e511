#include "io/tensor_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <unordered_set>

#include "core/error.h"
#include "io/quote.h"

namespace talon {

std::optional<std::uint64_t> stored_bytes(StorageType type, std::span<const std::int64_t> shape) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::uint64_t elements = 1;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    const auto product = checked_product(elements, static_cast<std::uint64_t>(dimension));
    if (!product || *product > kMost) return std::nullopt;
    elements = *product;
  }
  const BlockShape block = block_shape(type);
  const std::uint64_t inner = shape.empty() ? 1 : static_cast<std::uint64_t>(shape.back());
  if (inner % block.elements != 0) return std::nullopt;
  const auto bytes = checked_product(elements / block.elements, block.bytes);
  if (!bytes || *bytes > kMost) return std::nullopt;
  return bytes;
}

bool holds_reals(StorageType type) {
  switch (type) {
    case StorageType::i8:
    case StorageType::u8:
    case StorageType::i16:
    case StorageType::i32:
    case StorageType::i64:
    case StorageType::boolean:
    case StorageType::f8_e4m3:  // only beside a scale: quantized_tensors.h
      return false;
    default:
      return true;
  }
}

std::string show_shape(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

void refuse_duplicate_names(std::span<const StoredTensor> tensors, std::string_view doing) {
  std::unordered_set<std::string_view> seen;
  for (const StoredTensor& tensor : tensors) {
    if (!seen.insert(tensor.name).second) {
      fail("{}: tensor {}: expected one of that name, found two", doing, quote(tensor.name));
    }
  }
}

}  // namespace talon
