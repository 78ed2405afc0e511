#pragma once

#include <cstdint>

// What every race_*.cpp compiles for its instruction set: in an unnamed namespace, so that the
// linker cannot take one set's copy for another's.
namespace talon::sample {
namespace {

/// A bound on log2 of a time with room for the rounding of float sums. What they round is at most
/// as large as the bound and the 160 between the least and the greatest logarithm.
inline float with_room(float bound) {
  const float size = bound < 0 ? -bound : bound;
  return bound + 1e-3F + 1e-6F * size;
}

/// ln x for a positive normal x, relative error about 1e-6 but near 1, where it is absolute.
inline float rough_log(float x) {
  const auto bits = __builtin_bit_cast(std::int32_t, x);
  // The exponent that leaves a mantissa in [sqrt 1/2, sqrt 2).
  const std::int32_t exponent = (bits - 0x3F3504F3) >> 23;
  const float m = __builtin_bit_cast(float, bits - exponent * (1 << 23)) - 1.0F;
  // ln(1 + m): Cephes logf.
  float p = 7.0376836292e-2F;
  p = p * m - 1.1514610310e-1F;
  p = p * m + 1.1676998740e-1F;
  p = p * m - 1.2420140846e-1F;
  p = p * m + 1.4249322787e-1F;
  p = p * m - 1.6668057665e-1F;
  p = p * m + 2.0000714765e-1F;
  p = p * m - 2.4999993993e-1F;
  p = p * m + 3.3333331174e-1F;
  const float square = m * m;
  return static_cast<float>(exponent) * 0.69314718F + (m - 0.5F * square + square * m * p);
}

/// -ln(-ln(1 - v)), v = (word + 1/2) 2^-32. Where v is small it is exact in float, and a series
/// keeps that; elsewhere 1 - v is.
inline float rough_gumbel(std::uint32_t word) {
  // In halves: conversions from signed numbers exist in all sets.
  const auto half = [](std::uint32_t bits) {
    return static_cast<float>(static_cast<std::int32_t>(bits >> 16)) * 65536.0F +
           (static_cast<float>(static_cast<std::int32_t>(bits & 0xFFFFU)) + 0.5F);
  };
  const float v = half(word) * 0x1p-32F;
  const float rest = half(~word) * 0x1p-32F;  // 1 - v
  const float series = v * (1.0F + v * (0.5F + v * (0.33333333F + v * 0.25F)));
  const float wide = -rough_log(rest);
  return -rough_log(v < 0x1p-4F ? series : wide);
}

inline void gumbel_loop(const std::uint32_t* words, int count, float scale, float* noise) {
  for (int i = 0; i < count; ++i) noise[i] = scale * rough_gumbel(words[i]);
}

inline int rank_loop(const float* logits, int count, int token) {
  const float own = logits[token];
  int before = 0;
  for (int i = 0; i < token; ++i) before += logits[i] >= own;
  for (int i = token + 1; i < count; ++i) before += logits[i] > own;
  return before;
}

}  // namespace
}  // namespace talon::sample
