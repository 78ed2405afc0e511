#pragma once

#include "backend/cpu/kernels/loops_tile.h"

// Integer dot products of a group of inputs in AVX2, which multiplies unsigned bytes by signed ones
// and adds the products of two neighbours in 16 bits. Codes of few bits leave room there for the
// products of several vectors, so most sums are made in 16 bits, exactly. The sums of sixteen
// outputs and up to four rows stay in registers while the codes go by, and every input is broadcast
// once for all of them.
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

/// Rows whose sums fit in the registers.
constexpr int kMostRowsOfPart = 4;

/// How many of `rows` rows go by together: all, or parts that differ little.
constexpr int rows_of_part(int rows) {
  const int parts = (rows + kMostRowsOfPart - 1) / kMostRowsOfPart;
  return (rows + parts - 1) / parts;
}

/// What was read is read again: to keep the codes for the next rows takes more registers than
/// there are.
[[gnu::always_inline]] inline void forget_loads() { asm volatile("" ::: "memory"); }

inline Ints add_16(Ints a, Ints b) {
  return {_mm256_add_epi16(a.low, b.low), _mm256_add_epi16(a.high, b.high)};
}
inline Ints add_32(Ints a, Ints b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
/// The 16-bit sums of two neighbours in 32 bits.
inline Ints widen(Ints pairs) {
  const __m256i ones = _mm256_set1_epi16(1);
  return {_mm256_madd_epi16(pairs.low, ones), _mm256_madd_epi16(pairs.high, ones)};
}

/// Products of two neighbours, added in 16 bits: of unsigned codes, or of signed ones, where |code|
/// is multiplied by the input with the code's sign.
template <bool kSigned>
inline Ints multiply_pairs(Codes codes, __m256i x) {
  if constexpr (kSigned) {
    return {_mm256_maddubs_epi16(_mm256_abs_epi8(codes.low), _mm256_sign_epi8(x, codes.low)),
            _mm256_maddubs_epi16(_mm256_abs_epi8(codes.high), _mm256_sign_epi8(x, codes.high))};
  } else {
    return {_mm256_maddubs_epi16(codes.low, x), _mm256_maddubs_epi16(codes.high, x)};
  }
}

/// Vector `j` of a group's codes: signed ones, or unsigned ones less `least`. `table`: what nibbles
/// of kinds without a minimum stand for; those with one stand for themselves.
template <TileKind kKind, bool kSigned>
[[gnu::always_inline]] inline Codes load_codes(const std::byte* codes, __m256i table, int least,
                                               int j) {
  using L = Layout<kKind>;
  constexpr bool kNibbles = L::kShape.bits == 4;
  const auto* at = reinterpret_cast<const __m256i*>(codes + 64 * (kNibbles ? j % 4 : j));
  Codes vector{_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)};
  if constexpr (kNibbles) {
    if (j >= 4) vector = {_mm256_srli_epi16(vector.low, 4), _mm256_srli_epi16(vector.high, 4)};
    if constexpr (L::kBiased) return {look_up(table, vector.low), look_up(table, vector.high)};
    const __m256i nibbles = _mm256_set1_epi8(15);
    return {_mm256_and_si256(vector.low, nibbles), _mm256_and_si256(vector.high, nibbles)};
  } else if constexpr (kSigned) {
    return {without_bias<true>(vector.low), without_bias<true>(vector.high)};
  } else if constexpr (L::kBiased) {
    const __m256i less = _mm256_set1_epi8(static_cast<char>(least));
    return {_mm256_sub_epi8(vector.low, less), _mm256_sub_epi8(vector.high, less)};
  } else {
    return vector;
  }
}

/// One tile's part of sum_products(): products of kFit vectors fit in 16 bits. `table` and `least`
/// as load_codes() takes them.
template <TileKind kKind, int kFit, bool kSigned, int kRows>
[[gnu::always_inline]] inline void sum_codes(Ints (&sums)[kRows], const std::byte* codes,
                                             __m256i table, int least, const std::int8_t* x,
                                             const std::int32_t* zero, int half) {
  using L = Layout<kKind>;
  constexpr int kVectors = 8 / L::kHalves;
  static_assert(kVectors % kFit == 0);
  constexpr int kPart = rows_of_part(kRows);
#pragma GCC unroll 2
  for (int first = 0; first < kRows; first += kPart) {
    forget_loads();
    const int end = first + kPart < kRows ? first + kPart : kRows;
    Ints pairs[kRows];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      const int vector = kVectors * half + j;
      const Codes code = load_codes<kKind, kSigned>(codes, table, least, vector);
#pragma GCC unroll 4
      for (int row = first; row < end; ++row) {
        const Ints products =
            multiply_pairs<kSigned>(code, broadcast_four(x + row * kInputGroup + 4 * vector));
        pairs[row] = j % kFit == 0 ? products : add_16(pairs[row], products);
        if (j % kFit == kFit - 1) {
          sums[row] = j < kFit ? widen(pairs[row]) : add_32(sums[row], widen(pairs[row]));
        }
      }
    }
  }
  if constexpr (L::kBiased && !kSigned) {
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      // zero is -128 times the sum of the inputs.
      const __m256i taken = _mm256_set1_epi32(zero[row] / 128 * (128 - least));
      sums[row] = add_32(sums[row], {taken, taken});
    }
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
    if constexpr (!L::kBiased || (!kNibbles && kFit > 1)) {
      sum_codes<kKind, kFit, false>(sums[tile], at, table.v, kRange.least, x, zero, half);
    } else if (kNibbles && table.span <= kNarrowTable) {
      sum_codes<kKind, kNarrowFit, false>(sums[tile], at, table.above_least, table.least, x, zero,
                                          half);
    } else if (kNibbles && table.span <= kMiddleTable) {
      sum_codes<kKind, kMiddleFit, false>(sums[tile], at, table.above_least, table.least, x, zero,
                                          half);
    } else if (kNibbles && table.span <= kWideTable) {
      sum_codes<kKind, kWideFit, false>(sums[tile], at, table.above_least, table.least, x, zero,
                                        half);
    } else {
      sum_codes<kKind, 1, true>(sums[tile], at, table.v, 0, x, zero, half);
    }
  }
}

}  // namespace
}  // namespace talon::cpu
