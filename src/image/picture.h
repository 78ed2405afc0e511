#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace talon {

/// 8 bits of red, green and blue, row by row.
struct Picture {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb;  // [height, width, 3]
};

/// Pictures of one size beside each other, `columns` in a row, with `gap` white pixels between.
/// Places that no picture fills are white. REQUIRES: at least one picture and column.
Picture sheet_of(std::span<const Picture> pictures, int columns, int gap);

}  // namespace talon
