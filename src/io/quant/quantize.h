#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace talon {

/// Blocks of GGUF's q8_0: 32 values as an f16 scale, their largest size / 127, and 32 signed bytes,
/// rounded to nearest, halves away from zero; as llama.cpp's reference quantiser. A value too large
/// for the scale's f16 makes it infinite. REQUIRES: whole blocks.
std::vector<std::byte> quantize_q8_0(std::span<const float> values);

/// Value i is about scale * code[i] + minimum, both f16: sixteen steps from the least value to the
/// largest. Codes behind the last value are 0.
struct NibbleGroup {
  std::uint16_t scale = 0, minimum = 0;
  std::array<std::uint8_t, 32> code = {};
};
/// REQUIRES: 1 to 32 values, no NaN.
NibbleGroup quantize_nibbles(std::span<const float> values);
/// Blocks of GGUF's q4_1, each a NibbleGroup. REQUIRES: whole blocks.
std::vector<std::byte> quantize_q4_1(std::span<const float> values);

}  // namespace talon
