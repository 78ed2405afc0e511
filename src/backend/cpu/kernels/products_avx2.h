#pragma once

#include "backend/cpu/kernels/loops_tile.h"

// Integer dot products of a group of inputs in AVX2, which multiplies unsigned bytes by signed ones
// and adds the products of two neighbours in 16 bits. Codes of few bits leave room there for the
// products of several vectors, so most sums are made in 16 bits, exactly. The codes of eight
// outputs stay in registers while the rows go by.
namespace talon::cpu {
namespace {

/// Of how many vectors, at most `vectors`, the products of unsigned codes up to `largest` with
/// inputs up to 127 may be added in 16 bits, two of each.
constexpr int vectors_that_fit(int largest, int vectors) {
  const int fit = 32767 / (2 * 127 * largest);
  return fit < vectors ? fit : vectors;
}

// Tables of signed codes by their span: the products of eight vectors fit (Q4_0, Q3_K, TQ), those
// of four (MXFP4, NVFP4), those of one (IQ2); of others none does (IQ4_NL).
constexpr int kNarrowTable = 16;
constexpr int kMiddleTable = 32;
constexpr int kWideTable = 129;

inline __m256i broadcast_four(const std::int8_t* x) {
  std::int32_t four;
  __builtin_memcpy(&four, x, 4);
  return _mm256_set1_epi32(four);
}

/// Lane i: the sum of codes[j][4 i ..] * x[4 j ..] over all vectors j of unsigned codes, kFit
/// vectors at a time in 16 bits.
template <int kFit, int kVectors>
[[gnu::always_inline]] inline __m256i dot_unsigned(const __m256i (&codes)[kVectors],
                                                   const std::int8_t* x) {
  static_assert(kVectors % kFit == 0);
  __m256i sum = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int first = 0; first < kVectors; first += kFit) {
    __m256i pairs = _mm256_maddubs_epi16(codes[first], broadcast_four(x + 4 * first));
#pragma GCC unroll 8
    for (int j = first + 1; j < first + kFit; ++j) {
      pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(codes[j], broadcast_four(x + 4 * j)));
    }
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  return sum;
}

/// Inputs are read again for the next eight outputs: to keep them takes more registers than there
/// are.
[[gnu::always_inline]] inline void forget_inputs() { asm volatile("" ::: "memory"); }

inline __m256i& side_of(Ints& sum, int side) { return side == 0 ? sum.low : sum.high; }

/// Vector `j` of a group's codes, of eight outputs (`side` 0: the first), as stored or, of nibbles,
/// as `values` says: vectors 0 .. 3 lie in the low ones, the others in the high ones.
template <TileKind kKind>
[[gnu::always_inline]] inline __m256i load_side(const std::byte* codes, __m256i values, int j,
                                                int side) {
  constexpr bool kNibbles = Layout<kKind>::kShape.bits == 4;
  const std::byte* at = codes + 64 * (kNibbles ? j % 4 : j) + 32 * side;
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  if constexpr (!kNibbles) return bytes;
  return look_up(values, j < 4 ? bytes : _mm256_srli_epi16(bytes, 4));
}

/// One tile's part of sum_products() where kFit vectors of the stored codes less `least` fit.
template <TileKind kKind, int kFit, int kRows>
[[gnu::always_inline]] inline void sum_unsigned(Ints (&sums)[kRows], const std::byte* codes,
                                                __m256i values, int least, const std::int8_t* x,
                                                const std::int32_t* zero, int half) {
  using L = Layout<kKind>;
  constexpr int kVectors = 8 / L::kHalves;
  constexpr bool kNibbles = L::kShape.bits == 4;
#pragma GCC unroll 2
  for (int side = 0; side < 2; ++side) {
    forget_inputs();
    __m256i vectors[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      vectors[j] = load_side<kKind>(codes, values, kVectors * half + j, side);
      if constexpr (L::kBiased && !kNibbles) {
        vectors[j] = _mm256_sub_epi8(vectors[j], _mm256_set1_epi8(static_cast<char>(least)));
      }
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      __m256i sum = dot_unsigned<kFit>(vectors, x + row * kInputGroup + 4 * kVectors * half);
      // zero is -128 times the sum of the inputs.
      if constexpr (L::kBiased) {
        sum = _mm256_add_epi32(sum, _mm256_set1_epi32(zero[row] / 128 * (128 - least)));
      }
      side_of(sums[row], side) = sum;
    }
  }
}

/// One tile's part of sum_products() of other biased codes: |code| times the input with the code's
/// sign. The sums of eight outputs stay in registers.
template <TileKind kKind, int kRows>
[[gnu::always_inline]] inline void sum_signed(Ints (&sums)[kRows], const std::byte* codes,
                                              Table table, const std::int8_t* x, int half) {
  using L = Layout<kKind>;
  constexpr int kVectors = 8 / L::kHalves;
  constexpr bool kNibbles = L::kShape.bits == 4;
#pragma GCC unroll 2
  for (int side = 0; side < 2; ++side) {
    forget_inputs();
    __m256i side_sums[kRows];
#pragma GCC unroll 16
    for (__m256i& sum : side_sums) sum = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int j = kVectors * half; j < kVectors * (half + 1); ++j) {
      const __m256i code = kNibbles ? load_side<kKind>(codes, table.v, j, side)
                                    : without_bias<true>(load_side<kKind>(codes, table.v, j, side));
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row) {
        side_sums[row] =
            dot<true>(side_sums[row], code, broadcast_four(x + row * kInputGroup + 4 * j));
      }
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) side_of(sums[row], side) = side_sums[row];
  }
}

/// See loops_products.h.
template <TileKind kKind, int kTiles, int kRows>
[[gnu::always_inline]] inline void sum_products(Ints (&sums)[kTiles][kRows], Stream<kTiles> unit,
                                                int codes, Table table, const std::int8_t* x,
                                                const std::int32_t* zero, int half) {
  using L = Layout<kKind>;
  constexpr bool kNibbles = L::kShape.bits == 4;
  constexpr int kVectors = 8 / L::kHalves;
  for (int tile = 0; tile < kTiles; ++tile) {
    const std::byte* at = unit[tile] + codes;
    if (!kNibbles || half == 0) {
      constexpr int kLines = kNibbles ? 4 : kVectors;
#pragma GCC unroll 8
      for (int line = 0; line < kLines; ++line) {
        prefetch(at + 64 * (kLines * half + line) + unit.ahead);
      }
    }
    constexpr CodeRange kRange = code_range(kKind);
    constexpr int kFit = vectors_that_fit(kRange.largest - kRange.least, kVectors);
    constexpr int kNarrowFit = vectors_that_fit(kNarrowTable, kVectors);
    constexpr int kMiddleFit = vectors_that_fit(kMiddleTable, kVectors);
    constexpr int kWideFit = vectors_that_fit(kWideTable, kVectors);
    const __m256i looked_up = table.above_least;
    if constexpr (!L::kBiased || (!kNibbles && kFit > 1)) {
      sum_unsigned<kKind, kFit>(sums[tile], at, table.v, kRange.least, x, zero, half);
    } else if constexpr (!kNibbles) {
      sum_signed<kKind>(sums[tile], at, table, x, half);
    } else if (table.span <= kNarrowTable) {
      sum_unsigned<kKind, kNarrowFit>(sums[tile], at, looked_up, table.least, x, zero, half);
    } else if (table.span <= kMiddleTable) {
      sum_unsigned<kKind, kMiddleFit>(sums[tile], at, looked_up, table.least, x, zero, half);
    } else if (table.span <= kWideTable) {
      sum_unsigned<kKind, kWideFit>(sums[tile], at, looked_up, table.least, x, zero, half);
    } else {
      sum_signed<kKind>(sums[tile], at, table, x, half);
    }
  }
}

}  // namespace
}  // namespace talon::cpu
