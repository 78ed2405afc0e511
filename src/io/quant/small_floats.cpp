#include <cmath>
#include <limits>

#include "io/quant/quant_tables.h"

namespace talon {
namespace {

/// Four bits of exponent, three of mantissa.
float magnitude(int bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                       : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
}

}  // namespace

float nvfp4_scale(std::uint8_t byte) { return byte == 127 ? 0.0F : 0.5F * magnitude(byte & 127); }

float f8_e4m3_to_float(std::uint8_t byte) {
  const int bits = byte & 127;
  if (bits == 127) return std::numeric_limits<float>::quiet_NaN();
  return (byte & 128) != 0 ? -magnitude(bits) : magnitude(bits);
}

}  // namespace talon
