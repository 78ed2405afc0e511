#pragma once

#include <bit>
#include <cstdint>

namespace talon {

/// IEEE binary16 to float, exact (subnormals, infinities and NaN included).
float half_to_float(std::uint16_t half);
/// float to IEEE binary16, round to nearest even; overflow gives infinity.
std::uint16_t float_to_half(float value);

inline float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
/// float to bfloat16, round to nearest even; NaN stays NaN.
std::uint16_t float_to_bf16(float value);

}  // namespace talon
