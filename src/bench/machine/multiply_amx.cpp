#include "backend/cpu/kernels/amx_tiles.h"
#include "bench/machine/multiply.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace talon {

#if defined(__x86_64__)
namespace {

constexpr int kTileRows = 16;

/// Products of 16 rows by 16 columns over 64 inputs, in four accumulators.
__attribute__((target("amx-tile,amx-int8"))) std::int32_t int8_loop(long iterations) {
  cpu::AmxTileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.rows[i] = kTileRows;
    config.column_bytes[i] = 64;
  }
  _tile_loadconfig(&config);
  alignas(64) std::int8_t ones[kTileRows * 64];
  for (std::int8_t& one : ones) one = 1;
  _tile_loadd(0, ones, 64);
  _tile_loadd(1, ones, 64);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (long n = 0; n < iterations; ++n) {
    _tile_dpbssd(2, 0, 1);
    _tile_dpbssd(3, 0, 1);
    _tile_dpbssd(4, 0, 1);
    _tile_dpbssd(5, 0, 1);
  }
  alignas(64) std::int32_t sums[kTileRows * 16];
  _tile_stored(2, sums, 64);
  _tile_release();
  return sums[0];
}

}  // namespace

MultiplyKernel amx_multiply_kernel() { return {int8_loop, 4.0 * kTileRows * 16 * 64, "amx int8"}; }
#else
MultiplyKernel amx_multiply_kernel() { return {}; }
#endif

}  // namespace talon
