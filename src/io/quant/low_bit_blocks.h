#pragma once

#include <array>
#include <cstdint>

#include "io/storage_type.h"

namespace talon {

/// A block of 256 of ggml's types below three bits, taken apart: value i is
/// ((d * unit) * scale[i / group]) * values[code[i]], every product exact.
struct LowBitBlock {
  std::uint16_t d = 0;  // binary16
  std::int8_t scale[16] = {};
  std::uint8_t code[256] = {};
};
struct LowBitType {
  StorageType type;
  int group;  // 16 or 32 values share a scale
  float unit;
  std::array<std::int8_t, 16> values;
  void (*take_apart)(const std::uint8_t* block, LowBitBlock& out);
};

/// IQ1_S, IQ1_M, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, TQ1_0, TQ2_0; null for others.
const LowBitType* low_bit_type(StorageType type);

}  // namespace talon
