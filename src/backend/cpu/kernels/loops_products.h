#pragma once

#include "backend/cpu/kernels/loops_tile.h"

// Integer dot products of a group of inputs, in terms of the lanes_*.h of one instruction set,
// which the including unit has included before. The sums of all rows stay in registers while the
// codes go by.
namespace talon::cpu {
namespace {

/// Adds dot products of one vector of codes, of inputs 4j .. 4j + 3 of a group, to the sums of all
/// rows. `x`: the group's inputs [rows][32].
template <bool kBiased, int kRows>
inline void dot_rows(Ints (&sums)[kRows], Codes codes, const std::int8_t* x, int j) {
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
    sums[row] = dot<kBiased>(sums[row], codes, x + row * kInputGroup + 4 * j);
  }
}

/// Dot products of half `half` of a group of 32 inputs, or of a whole one where its inputs share a
/// scale, with all rows. `codes`: offset in `unit` of the group's codes. `x`: the group's inputs
/// [rows][32]; zero: what takes the bias of codes out again (QuantizedRow), of each row.
template <TileKind kKind, int kTiles, int kRows>
[[gnu::always_inline]] inline void sum_products(Ints (&sums)[kTiles][kRows], Stream<kTiles> unit,
                                                int codes, Table table, const std::int8_t* x,
                                                const std::int32_t* zero, int half) {
  using L = Layout<kKind>;
#pragma GCC unroll 4
  for (int t = 0; t < kTiles; ++t) {
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) sums[t][row] = start_sum<L::kBiased>(zero + row);
  }
  constexpr bool kNibbles = L::kShape.bits == 4;
  constexpr int kVectors = kNibbles || L::kHalves == 2 ? 4 : 8;
#pragma GCC unroll 8
  for (int j = 0; j < kVectors; ++j) {
    const int input = 4 * half + j;
#pragma GCC unroll 4
    for (int tile = 0; tile < kTiles; ++tile) {
      const std::byte* vector = unit[tile] + codes + 64 * (kNibbles ? j : input);
      if (!kNibbles || half == 0) prefetch(vector + unit.ahead);
      if constexpr (!kNibbles) {
        dot_rows<L::kBiased>(sums[tile], load_bytes<L::kBiased>(vector), x, input);
      } else if constexpr (L::kHalves == 2) {
        dot_rows<L::kBiased>(
            sums[tile], half == 0 ? load_low(vector, table) : load_high(vector, table), x, input);
      } else {
        dot_rows<L::kBiased>(sums[tile], load_low(vector, table), x, j);
        dot_rows<L::kBiased>(sums[tile], load_high(vector, table), x, j + 4);
      }
    }
  }
}

}  // namespace
}  // namespace talon::cpu
