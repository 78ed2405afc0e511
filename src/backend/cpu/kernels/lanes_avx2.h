#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// Sixteen floats or integers as two AVX2 registers: the operations that loops_*.h is written in,
// with the results of lanes_avx512.h to the bit. See there for what each does.
namespace talon::cpu {
namespace {

constexpr int kMaxRows = 8;         // rows multiplied at once
constexpr int kMaxFloatRows = 4;    // by float weights
constexpr int kUsualFloatRows = 3;  // what the registers hold; four only if that ends the rows
constexpr int tiles_at_once(int) { return 1; }
constexpr int kQueryBatch = 4;
constexpr int kVectorBatch = 1;

struct Floats {
  __m256 low, high;
};
struct Ints {
  __m256i low, high;
};

/// A load or store mask of the first n of eight lanes.
inline __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

inline Floats zero_floats() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline Floats broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Floats load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline Floats load_first(const float* p, int n) {
  if (n >= kLanes) return load(p);
  return {_mm256_maskload_ps(p, first_lanes(n)), _mm256_maskload_ps(p + 8, first_lanes(n - 8))};
}
inline void store(float* p, Floats x) {
  _mm256_storeu_ps(p, x.low);
  _mm256_storeu_ps(p + 8, x.high);
}
inline void store_first(float* p, Floats x, int n) {
  if (n >= kLanes) return store(p, x);
  _mm256_maskstore_ps(p, first_lanes(n), x.low);
  _mm256_maskstore_ps(p + 8, first_lanes(n - 8), x.high);
}
inline Floats add(Floats a, Floats b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline Floats subtract(Floats a, Floats b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline Floats multiply(Floats a, Floats b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline Floats divide(Floats a, Floats b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
inline Floats fma(Floats a, Floats b, Floats c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Floats larger(Floats a, Floats b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
inline Floats smaller(Floats a, Floats b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
inline Floats absolute(Floats a) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}
inline Floats zero_below(Floats x, Floats keep, Floats limit) {
  return {_mm256_and_ps(x.low, _mm256_cmp_ps(keep.low, limit.low, _CMP_NLT_UQ)),
          _mm256_and_ps(x.high, _mm256_cmp_ps(keep.high, limit.high, _CMP_NLT_UQ))};
}
inline unsigned mask_of(__m256 low, __m256 high) {
  return static_cast<unsigned>(_mm256_movemask_ps(low)) |
         static_cast<unsigned>(_mm256_movemask_ps(high)) << 8;
}
inline unsigned greater_lanes(Floats a, Floats b) {
  return mask_of(_mm256_cmp_ps(a.low, b.low, _CMP_GT_OQ),
                 _mm256_cmp_ps(a.high, b.high, _CMP_GT_OQ));
}
inline unsigned equal_lanes(Floats a, Floats b) {
  return mask_of(_mm256_cmp_ps(a.low, b.low, _CMP_EQ_OQ),
                 _mm256_cmp_ps(a.high, b.high, _CMP_EQ_OQ));
}

inline float sum_of(Floats x) {
  const __m256 eight = _mm256_add_ps(x.low, x.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float max_of(Floats x) {
  const __m256 eight = _mm256_max_ps(x.low, x.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
inline float largest_size(Floats a, Floats b) {
  a = absolute(a);
  b = absolute(b);
  const __m256i eight =
      _mm256_max_epi32(_mm256_max_epi32(_mm256_castps_si256(a.low), _mm256_castps_si256(a.high)),
                       _mm256_max_epi32(_mm256_castps_si256(b.low), _mm256_castps_si256(b.high)));
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1));
  return _mm_cvtss_f32(_mm_castsi128_ps(four));
}

inline Ints zero_ints() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline Floats to_floats(Ints x) { return {_mm256_cvtepi32_ps(x.low), _mm256_cvtepi32_ps(x.high)}; }
inline Ints round_to_ints(Floats x) {
  return {_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high)};
}
inline Floats round_to_integers(Floats x) {
  return {_mm256_round_ps(x.low, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
          _mm256_round_ps(x.high, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline int sum_of(Ints x) {
  const __m256i eight = _mm256_add_epi32(x.low, x.high);
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
  return _mm_cvtsi128_si32(four);
}
inline void store_int8(std::int8_t* p, Ints x) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.low, x.high), 0xD8);
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
inline Floats load_int8(const std::byte* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}
inline __m256 scale_by_power(__m256 x, __m256 n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}
inline Floats scale_by_power(Floats x, Floats n) {
  return {scale_by_power(x.low, n.low), scale_by_power(x.high, n.high)};
}
inline __m256 add_to_exponent(__m256 x, __m256 shifted) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), exponent));
}
inline Floats add_to_exponent(Floats x, Floats shifted) {
  return {add_to_exponent(x.low, shifted.low), add_to_exponent(x.high, shifted.high)};
}

inline Floats load_half(const std::byte* p) {
  const auto* halves = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}
inline void store_half(std::uint16_t* p, Floats x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  auto* halves = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(halves, _mm256_cvtps_ph(x.low, kNearest));
  _mm_storeu_si128(halves + 1, _mm256_cvtps_ph(x.high, kNearest));
}
inline Floats load_bf16(const std::byte* p, int which) {
  __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p) + 1);
  if (which == 0) {
    low = _mm256_slli_epi32(low, 16);
    high = _mm256_slli_epi32(high, 16);
  } else {
    low = _mm256_and_si256(low, _mm256_set1_epi32(-65536));
    high = _mm256_and_si256(high, _mm256_set1_epi32(-65536));
  }
  return {_mm256_castsi256_ps(low), _mm256_castsi256_ps(high)};
}

inline unsigned nonzero_lanes(const std::int32_t* p, int n) {
  unsigned bits = 0;
  for (int i = 0; i < n; ++i) bits |= (p[i] != 0 ? 1U : 0U) << i;
  return bits;
}

// Inlined by force: GCC drops calls of functions that do nothing but prefetch.
[[gnu::always_inline]] inline void prefetch(const std::byte* p) { _mm_prefetch(p, _MM_HINT_T1); }
[[gnu::always_inline]] inline void prefetch_for_write(const float* p) { __builtin_prefetch(p, 1); }

// Biased codes are turned back into signed ones at the load: there is no product of unsigned and
// signed bytes that would not saturate, but |code| times the activation with the code's sign fits.
struct Codes {
  __m256i low, high;
};
struct Table {
  __m256i v;
  // Of biased codes: the largest less the least, the least, and what is looked up less the least.
  int span;
  int least;
  __m256i above_least;
};

template <bool kBiased>
inline __m256i without_bias(__m256i codes) {
  return kBiased ? _mm256_xor_si256(codes, _mm256_set1_epi8(-128)) : codes;
}
inline int least_of(__m128i bytes) {
  return _mm_cvtsi128_si32(_mm_minpos_epu16(_mm_min_epu8(bytes, _mm_srli_epi16(bytes, 8)))) & 255;
}
template <bool kBiased>
inline Table load_table(const std::uint8_t* p) {
  const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m256i both = _mm256_broadcastsi128_si256(values);
  if constexpr (!kBiased) return {both, 0, 0, both};
  const int least = least_of(values);
  const int largest = 255 - least_of(_mm_xor_si128(values, _mm_set1_epi8(-1)));
  return {without_bias<true>(both), largest - least, least,
          _mm256_sub_epi8(both, _mm256_set1_epi8(static_cast<char>(least)))};
}
template <bool kBiased>
inline Codes load_bytes(const std::byte* p) {
  const auto* halves = reinterpret_cast<const __m256i*>(p);
  return {without_bias<kBiased>(_mm256_loadu_si256(halves)),
          without_bias<kBiased>(_mm256_loadu_si256(halves + 1))};
}
inline __m256i look_up(__m256i table, __m256i nibbles) {
  return _mm256_shuffle_epi8(table, _mm256_and_si256(nibbles, _mm256_set1_epi8(15)));
}
inline __m256i look_up(const Table& table, __m256i nibbles) { return look_up(table.v, nibbles); }
inline Codes load_low(const std::byte* p, Table table) {
  const auto* halves = reinterpret_cast<const __m256i*>(p);
  return {look_up(table, _mm256_loadu_si256(halves)),
          look_up(table, _mm256_loadu_si256(halves + 1))};
}
inline Codes load_high(const std::byte* p, Table table) {
  const auto* halves = reinterpret_cast<const __m256i*>(p);
  return {look_up(table, _mm256_srli_epi16(_mm256_loadu_si256(halves), 4)),
          look_up(table, _mm256_srli_epi16(_mm256_loadu_si256(halves + 1), 4))};
}
template <bool kBiased>
inline Ints start_sum(const std::int32_t*) {
  return zero_ints();
}
template <bool kBiased>
inline __m256i dot(__m256i sum, __m256i codes, __m256i x) {
  const __m256i pairs =
      kBiased ? _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(x, codes))
              : _mm256_maddubs_epi16(codes, x);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
template <bool kBiased>
inline Ints dot(Ints sum, Codes codes, const std::int8_t* x) {
  std::int32_t four;
  __builtin_memcpy(&four, x, 4);
  const __m256i values = _mm256_set1_epi32(four);
  return {dot<kBiased>(sum.low, codes.low, values), dot<kBiased>(sum.high, codes.high, values)};
}

}  // namespace
}  // namespace talon::cpu
