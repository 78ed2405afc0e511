#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace talon {

/// Blocks of GGUF's q8_0: 32 values as an f16 scale, their largest size / 127, and 32 signed bytes,
/// rounded to nearest, halves away from zero; as llama.cpp's reference quantiser. A value too large
/// for the scale's f16 makes it infinite. REQUIRES: whole blocks.
std::vector<std::byte> quantize_q8_0(std::span<const float> values);

}  // namespace talon
