#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// Sixteen floats or integers as one AVX-512 register: the operations that loops_*.h is written in.
namespace talon::cpu {
namespace {

constexpr int kMaxRows = 12;       // rows multiplied at once
constexpr int kMaxFloatRows = 12;  // by float weights
constexpr int kUsualFloatRows = kMaxFloatRows;
/// Tiles multiplied side by side: few rows leave registers free, and two sums that do not wait for
/// each other.
constexpr int tiles_at_once(int rows) { return rows <= 2 ? 2 : 1; }
constexpr int kQueryBatch = 6;   // query vectors in flight in attention
constexpr int kVectorBatch = 4;  // key blocks or value vectors per query

struct Floats {
  __m512 v;
};
struct Ints {
  __m512i v;
};

inline __mmask16 first_lanes(int n) {
  return n >= 16 ? static_cast<__mmask16>(0xFFFF) : static_cast<__mmask16>((1u << n) - 1u);
}

inline Floats zero_floats() { return {_mm512_setzero_ps()}; }
inline Floats broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline Floats load_first(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
}
inline void store(float* p, Floats x) { _mm512_storeu_ps(p, x.v); }
inline void store_first(float* p, Floats x, int n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), x.v);
}
inline Floats add(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Floats subtract(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Floats multiply(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Floats divide(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }
/// a * b + c, rounded once.
inline Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
/// a > b ? a : b, so b if one is NaN.
inline Floats larger(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
/// a < b ? a : b, so b if one is NaN.
inline Floats smaller(Floats a, Floats b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Floats absolute(Floats a) { return {_mm512_abs_ps(a.v)}; }
/// x where keep >= limit or NaN, else 0.
inline Floats zero_below(Floats x, Floats keep, Floats limit) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(keep.v, limit.v, _CMP_NLT_UQ), x.v)};
}
/// Bit i: lane i is greater.
inline unsigned greater_lanes(Floats a, Floats b) {
  return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ);
}
inline unsigned equal_lanes(Floats a, Floats b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ); }

/// Lanes i and i + 8 are added, then i and i + 4, i + 2, i + 1.
inline float sum_of(Floats x) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float max_of(Floats x) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
/// The largest size of all lanes, NaN if one is: the bits of sizes order as the sizes do.
inline float largest_size(Floats a, Floats b) {
  const __m512i sixteen = _mm512_max_epi32(_mm512_castps_si512(_mm512_abs_ps(a.v)),
                                           _mm512_castps_si512(_mm512_abs_ps(b.v)));
  const __m256i eight =
      _mm256_max_epi32(_mm512_castsi512_si256(sixteen), _mm512_extracti32x8_epi32(sixteen, 1));
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1));
  return _mm_cvtss_f32(_mm_castsi128_ps(four));
}

inline Ints zero_ints() { return {_mm512_setzero_si512()}; }
inline Floats to_floats(Ints x) { return {_mm512_cvtepi32_ps(x.v)}; }
/// To nearest, ties to even. REQUIRES: |x| < 2^22.
inline Ints round_to_ints(Floats x) { return {_mm512_cvtps_epi32(x.v)}; }
inline Floats round_to_integers(Floats x) {
  return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline int sum_of(Ints x) { return _mm512_reduce_add_epi32(x.v); }
inline void store_int8(std::int8_t* p, Ints x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(x.v));
}
inline Floats load_int8(const std::byte* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
}
/// x * 2^n for integers n in [-126, 128]; 2^128 is infinity.
inline Floats scale_by_power(Floats x, Floats n) {
  const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
  return {_mm512_mul_ps(x.v, _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23)))};
}
/// x * 2^n for shifted = 1.5 * 2^23 + n, if x and the result are normal numbers.
inline Floats add_to_exponent(Floats x, Floats shifted) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x.v), exponent))};
}

inline Floats load_half(const std::byte* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline void store_half(std::uint16_t* p, Floats x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
/// The first or second of each of 16 bf16 pairs.
inline Floats load_bf16(const std::byte* p, int which) {
  const __m512i pairs = _mm512_loadu_si512(p);
  return {_mm512_castsi512_ps(which == 0 ? _mm512_slli_epi32(pairs, 16)
                                         : _mm512_and_si512(pairs, _mm512_set1_epi32(-65536)))};
}

/// Bit i: integer i, of n <= 16, is not 0.
inline unsigned nonzero_lanes(const std::int32_t* p, int n) {
  const __m512i values = _mm512_maskz_loadu_epi32(first_lanes(n), p);
  return _mm512_test_epi32_mask(values, values);
}

// Inlined by force: GCC drops calls of functions that do nothing but prefetch.
[[gnu::always_inline]] inline void prefetch(const std::byte* p) { _mm_prefetch(p, _MM_HINT_T1); }
[[gnu::always_inline]] inline void prefetch_for_write(const float* p) { __builtin_prefetch(p, 1); }

// Weight codes: vectors [16 outputs][4 inputs] of bytes. kBiased: signed values stored plus 128.
struct Codes {
  __m512i v;
};
struct Table {
  __m512i v;
};

template <bool kBiased>
inline Table load_table(const std::uint8_t* p) {
  return {_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
template <bool kBiased>
inline Codes load_bytes(const std::byte* p) {
  return {_mm512_loadu_si512(p)};
}
/// The values that the low or high nibbles of 64 bytes stand for. The permutation looks at six bits
/// of an index and the table is repeated four times, so the other nibble need not be masked.
inline Codes load_low(const std::byte* p, Table table) {
  return {_mm512_permutexvar_epi8(_mm512_loadu_si512(p), table.v)};
}
inline Codes load_high(const std::byte* p, Table table) {
  return {_mm512_permutexvar_epi8(_mm512_srli_epi16(_mm512_loadu_si512(p), 4), table.v)};
}
/// Where a sum of dot() starts: for biased codes what takes the 128s out again.
template <bool kBiased>
inline Ints start_sum(const std::int32_t* zero) {
  if constexpr (kBiased) return {_mm512_set1_epi32(*zero)};
  return {_mm512_setzero_si512()};
}
/// Lane i: sum + codes[4 i .. 4 i + 3] * the four signed bytes at x.
template <bool kBiased>
inline Ints dot(Ints sum, Codes codes, const std::int8_t* x) {
  std::int32_t four;
  __builtin_memcpy(&four, x, 4);
  return {_mm512_dpbusd_epi32(sum.v, codes.v, _mm512_set1_epi32(four))};
}

}  // namespace
}  // namespace talon::cpu
