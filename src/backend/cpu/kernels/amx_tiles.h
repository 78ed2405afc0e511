#pragma once

#include <cstdint>

namespace talon::cpu {

/// What _tile_loadconfig reads: of each tile register its rows and their bytes.
struct alignas(64) AmxTileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t column_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

}  // namespace talon::cpu
