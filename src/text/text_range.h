#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace talon {

/// Bytes of a text.
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const TextRange&) const = default;
};

/// Whether `range` shares a byte with one of `ranges`, which are in order and apart.
inline bool touches(const TextRange& range, std::span<const TextRange> ranges) {
  const auto first = std::ranges::partition_point(
      ranges, [&](const TextRange& other) { return other.end <= range.begin; });
  return first != ranges.end() && first->begin < range.end;
}

}  // namespace talon
