#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

// What the trainer's own kernels of pictures share. They are compiled with flags of their own
// (CMakeLists.txt), for each instruction set that pays.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TALON_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TALON_CLONES
#endif

// What is called within a clone must be compiled with it.
#define TALON_INLINE inline __attribute__((always_inline))

namespace talon {

/// A 16-bit float, as torch's BFloat16 lies in memory.
enum class Bf16 : std::uint16_t {};

namespace kernel {

TALON_INLINE float wide(Bf16 x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
TALON_INLINE float wide(float x) { return x; }
TALON_INLINE double wide(double x) { return x; }

TALON_INLINE void put(Bf16& to, float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  to = static_cast<Bf16>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
TALON_INLINE void put(float& to, float value) { to = value; }
TALON_INLINE void put(double& to, double value) { to = value; }

/// e to the x, to 2e-7 of it: 2^k times a polynomial.
TALON_INLINE float exponential(float x) {
  const float bounded = x < -87.0f ? -87.0f : (x > 87.0f ? 87.0f : x);
  const float shifted = bounded * 1.44269504f + 12582912.0f;  // rounds to a whole number
  std::int32_t whole;
  std::memcpy(&whole, &shifted, sizeof(whole));
  const float k = shifted - 12582912.0f;
  const float f = (bounded - k * 0.693359375f) + k * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * f + 1.3981999507e-3f;
  p = p * f + 8.3334519073e-3f;
  p = p * f + 4.1665795894e-2f;
  p = p * f + 1.6666665459e-1f;
  p = p * f + 5.0000001201e-1f;
  p = p * f * f + f + 1.0f;
  const std::int32_t power = (whole - 0x4b400000 + 127) << 23;
  float scale;
  std::memcpy(&scale, &power, sizeof(scale));
  return p * scale;
}
TALON_INLINE double exponential(double x) { return std::exp(x); }

}  // namespace kernel
}  // namespace talon
