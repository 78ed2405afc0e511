#include <immintrin.h>

#include <cstdint>
#include <cstring>

// src/backend/cpu/kernels/kernels_amx.cpp with its tiles in memory, so that processors without AMX
// test it, too. Compiled with the flags of AVX-512, so it includes nothing but what that file does.
namespace talon::cpu {
namespace {

struct EmulatedTile {
  std::uint8_t bytes[16][64];
};
struct TileRegisters {
  std::uint8_t rows[8];
  std::uint16_t row_bytes[8];
  EmulatedTile tiles[8];
};
alignas(8) thread_local TileRegisters tile_registers;  // see kv_cache_test.cpp

void emulate_loadconfig(const void* config) {
  const auto* bytes = static_cast<const std::uint8_t*>(config);
  std::memcpy(tile_registers.row_bytes, bytes + 16, 16);
  std::memcpy(tile_registers.rows, bytes + 48, 8);
}
void emulate_loadd(int tile, const void* from, std::ptrdiff_t stride) {
  TileRegisters& r = tile_registers;
  r.tiles[tile] = {};
  for (int row = 0; row < r.rows[tile]; ++row) {
    std::memcpy(r.tiles[tile].bytes[row], static_cast<const std::uint8_t*>(from) + row * stride,
                r.row_bytes[tile]);
  }
}
void emulate_stored(int tile, void* to, std::ptrdiff_t stride) {
  const TileRegisters& r = tile_registers;
  for (int row = 0; row < r.rows[tile]; ++row) {
    std::memcpy(static_cast<std::uint8_t*>(to) + row * stride, r.tiles[tile].bytes[row],
                r.row_bytes[tile]);
  }
}
void emulate_zero(int tile) { tile_registers.tiles[tile] = {}; }
/// sums[row][column] += a[row][4 k + i] * b[k][4 column + i], all bytes signed.
void emulate_dpbssd(int sums, int a, int b) {
  TileRegisters& r = tile_registers;
  for (int row = 0; row < r.rows[sums]; ++row) {
    for (int column = 0; column < r.row_bytes[sums] / 4; ++column) {
      std::int32_t sum = 0;
      std::memcpy(&sum, r.tiles[sums].bytes[row] + 4 * column, 4);
      for (int k = 0; k < r.row_bytes[a]; ++k) {
        sum += static_cast<std::int8_t>(r.tiles[a].bytes[row][k]) *
               static_cast<std::int8_t>(r.tiles[b].bytes[k / 4][4 * column + k % 4]);
      }
      std::memcpy(r.tiles[sums].bytes[row] + 4 * column, &sum, 4);
    }
  }
}

}  // namespace
}  // namespace talon::cpu

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbssd
#define _tile_loadconfig emulate_loadconfig
#define _tile_release() static_cast<void>(0)
#define _tile_loadd emulate_loadd
#define _tile_stored emulate_stored
#define _tile_zero emulate_zero
#define _tile_dpbssd emulate_dpbssd
#define amx_kernels emulated_amx_kernels

#include "backend/cpu/kernels/kernels_amx.cpp"
