#include "backend/cpu/block_decoders.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/half.h"
#include "io/quant/low_bit_blocks.h"
#include "io/quant/quant_tables.h"

namespace talon::cpu {
namespace {

// The formulas are in io/quant/quant_tables.h. Minima that a type subtracts are kept as added ones:
// the sign of dmin is turned.

std::uint16_t read16(const std::uint8_t* p) {
  return static_cast<std::uint16_t>(p[0] | (p[1] << 8));
}
std::uint32_t read32(const std::uint8_t* p) {
  return static_cast<std::uint32_t>(read16(p)) | (static_cast<std::uint32_t>(read16(p + 2)) << 16);
}
std::uint16_t negated(std::uint16_t half) { return half ^ 0x8000U; }

/// The low nibbles of `count` bytes, then the high ones.
void unpack_nibbles(const std::uint8_t* q, int count, std::uint8_t* code) {
  for (int i = 0; i < count; ++i) code[i] = q[i] & 15;
  for (int i = 0; i < count; ++i) code[count + i] = q[i] >> 4;
}

/// 256 codes of two bits: per 32 bytes the lowest pairs, then the next, ...
void unpack_pairs(const std::uint8_t* q, std::uint8_t* code) {
  for (int part = 0; part < 8; ++part, code += 32) {
    const std::uint8_t* bytes = q + 32 * (part / 4);
    const int shift = 2 * (part % 4);
    for (int i = 0; i < 32; ++i) code[i] = (bytes[i] >> shift) & 3;
  }
}

/// ORs `value` into the codes whose bit in 32 bytes is set: bit g of byte i is that of code 32 * g
/// + i.
void add_high_bits(const std::uint8_t* bits, int value, std::uint8_t* code) {
  for (int g = 0; g < 8; ++g, code += 32) {
    for (int i = 0; i < 32; ++i) {
      code[i] = static_cast<std::uint8_t>(code[i] | (((bits[i] >> g) & 1) * value));
    }
  }
}

void decode_q4_0(const std::uint8_t* block, DecodedBlock& out) {
  out.d = read16(block);
  unpack_nibbles(block + 2, 16, out.code);
}

void decode_q4_1(const std::uint8_t* block, DecodedBlock& out) {
  out.d = read16(block);
  out.dmin = read16(block + 2);
  unpack_nibbles(block + 4, 16, out.code);
}

void decode_q5(const std::uint8_t* high, const std::uint8_t* low, int bias, DecodedBlock& out) {
  const std::uint32_t bits = read32(high);
  unpack_nibbles(low, 16, out.code);
  for (int i = 0; i < 32; ++i) {
    const auto value = out.code[i] | (bits >> i & 1U) << 4;
    out.code[i] = static_cast<std::uint8_t>(value + static_cast<unsigned>(bias));
  }
}
void decode_q5_0(const std::uint8_t* block, DecodedBlock& out) {
  out.d = read16(block);
  decode_q5(block + 2, block + 6, 128 - 16, out);
}
void decode_q5_1(const std::uint8_t* block, DecodedBlock& out) {
  out.d = read16(block);
  out.dmin = read16(block + 2);
  decode_q5(block + 4, block + 8, 0, out);
}

void decode_q8_0(const std::uint8_t* block, DecodedBlock& out) {
  out.d = read16(block);
  for (int i = 0; i < 32; ++i) out.code[i] = block[2 + i] ^ 0x80U;
}

void decode_q2_k(const std::uint8_t* block, DecodedBlock& out) {
  out.d = read16(block + 80);
  out.dmin = negated(read16(block + 82));
  for (int g = 0; g < 16; ++g) {
    out.scale[g] = static_cast<std::int8_t>(block[g] & 15);
    out.minimum[g] = static_cast<std::int8_t>(block[g] >> 4);
  }
  unpack_pairs(block + 16, out.code);
}

void decode_q3_k(const std::uint8_t* block, DecodedBlock& out) {
  out.d = read16(block + 108);
  for (int g = 0; g < 16; ++g) {
    out.scale[g] = static_cast<std::int8_t>(q3_k_scale(block + 96, g));
  }
  unpack_pairs(block + 32, out.code);
  add_high_bits(block, 4, out.code);
}

void decode_k_scales(const std::uint8_t* block, DecodedBlock& out) {
  out.d = read16(block);
  out.dmin = negated(read16(block + 2));
  for (int g = 0; g < 8; ++g) {
    const KScaleMin scale = k_scale_min(block + 4, g);
    out.scale[g] = static_cast<std::int8_t>(scale.scale);
    out.minimum[g] = static_cast<std::int8_t>(scale.min);
  }
}
void decode_q4_k(const std::uint8_t* block, DecodedBlock& out) {
  decode_k_scales(block, out);
  for (int part = 0; part < 4; ++part) {
    unpack_nibbles(block + 16 + 32 * part, 32, out.code + 64 * part);
  }
}
void decode_q5_k(const std::uint8_t* block, DecodedBlock& out) {
  decode_k_scales(block, out);
  for (int part = 0; part < 4; ++part) {
    unpack_nibbles(block + 48 + 32 * part, 32, out.code + 64 * part);
  }
  add_high_bits(block + 16, 16, out.code);
}

void decode_q6_k(const std::uint8_t* block, DecodedBlock& out) {
  out.d = read16(block + 208);
  for (int g = 0; g < 16; ++g) out.scale[g] = static_cast<std::int8_t>(block[192 + g]);
  std::uint8_t high[256];
  unpack_pairs(block + 128, high);
  for (int part = 0; part < 2; ++part) {
    unpack_nibbles(block + 64 * part, 64, out.code + 128 * part);
  }
  for (int i = 0; i < 256; ++i) {
    out.code[i] = static_cast<std::uint8_t>((out.code[i] | (high[i] << 4)) + 128 - 32);
  }
}

void decode_iq4_xs(const std::uint8_t* block, DecodedBlock& out) {
  out.d = read16(block);
  const unsigned high = read16(block + 2);
  for (int g = 0; g < 8; ++g) {
    const int low = (block[4 + g / 2] >> (4 * (g % 2))) & 15;
    const int bits = static_cast<int>(high >> (2 * g) & 3U) << 4;
    out.scale[g] = static_cast<std::int8_t>((low | bits) - 32);
    unpack_nibbles(block + 8 + 16 * g, 16, out.code + 32 * g);
  }
}

// Codes 0, 1, 2 stand for 8, 25, 43, codes 4, 5, 6 for the negative ones.
constexpr std::array<std::uint8_t, 16> kIq2Table = {
    128 + 8, 128 + 25, 128 + 43, 128, 128 - 8, 128 - 25, 128 - 43, 128,
    128,     128,      128,      128, 128,     128,      128,      128};

/// Entry of the grid -> the codes of its eight magnitudes, byte by byte.
constexpr std::array<std::uint64_t, 256> iq2_codes() {
  std::array<std::uint64_t, 256> codes{};
  for (std::size_t entry = 0; entry < 256; ++entry) {
    for (unsigned i = 0; i < 8; ++i) {
      codes[entry] |= std::uint64_t{kIq2XxsGrid[entry][i]} >> 4 << (8 * i);
    }
  }
  return codes;
}
/// Seven bits -> 4 in the bytes of negative values.
constexpr std::array<std::uint64_t, 128> sign_codes() {
  std::array<std::uint64_t, 128> codes{};
  for (std::uint32_t bits = 0; bits < 128; ++bits) {
    for (unsigned i = 0; i < 8; ++i) {
      codes[bits] |= std::uint64_t{(iq2_signs(bits) >> i) & 1U} << (8 * i + 2);
    }
  }
  return codes;
}
constexpr std::array<std::uint64_t, 256> kIq2Codes = iq2_codes();
constexpr std::array<std::uint64_t, 128> kSignCodes = sign_codes();

void decode_iq2_xxs(const std::uint8_t* block, DecodedBlock& out) {
  out.d = read16(block);
  for (int g = 0; g < 8; ++g) {
    const std::uint8_t* group = block + 2 + 8 * g;
    const std::uint32_t signs_and_scale = read32(group + 4);
    out.scale[g] = static_cast<std::int8_t>(2 * (signs_and_scale >> 28) + 1);
    for (int part = 0; part < 4; ++part) {
      const std::uint64_t magnitudes = kIq2Codes[group[part]];
      const std::uint64_t signs = kSignCodes[signs_and_scale >> (7 * part) & 127U];
      const std::uint64_t codes = magnitudes | signs;
      std::memcpy(out.code + 32 * g + 8 * part, &codes, 8);
    }
  }
}

/// The exponent as a binary16, which holds it: fits_mxfp4_tiles().
void decode_mxfp4(const std::uint8_t* block, DecodedBlock& out) {
  out.d = float_to_half(std::ldexp(1.0F, block[0] - 128));
  unpack_nibbles(block + 1, 16, out.code);
}

template <StorageType kType>
void decode_low_bits(const std::uint8_t* block, DecodedBlock& out) {
  static const LowBitType& type = *low_bit_type(kType);
  LowBitBlock taken;
  type.take_apart(block, taken);
  out.d = taken.d;
  std::memcpy(out.scale, taken.scale, sizeof(taken.scale));
  std::memcpy(out.code, taken.code, sizeof(taken.code));
}

template <StorageType kType>
BlockRecipe low_bit_recipe(const char* layout) {
  const LowBitType& type = *low_bit_type(kType);
  BlockRecipe recipe{kType,  type.group == 16 ? TileKind::nibble_super16 : TileKind::nibble_super,
                     layout, decode_low_bits<kType>,
                     {},     type.unit};
  for (std::size_t i = 0; i < 16; ++i) {
    recipe.table[i] = static_cast<std::uint8_t>(type.values[i] + 128);
  }
  return recipe;
}

constexpr std::array<std::uint8_t, 16> counting_table(int first) {
  std::array<std::uint8_t, 16> table{};
  for (int i = 0; i < 16; ++i)
    table[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(first + i);
  return table;
}

constexpr std::array<std::uint8_t, 16> iq4_table() {
  std::array<std::uint8_t, 16> table{};
  for (std::size_t i = 0; i < 16; ++i) {
    table[i] = static_cast<std::uint8_t>(kIq4Codebook[i] + 128);
  }
  return table;
}

constexpr std::array<std::uint8_t, 16> mxfp4_table() {
  std::array<std::uint8_t, 16> table{};
  for (std::size_t i = 0; i < 16; ++i) {
    table[i] = static_cast<std::uint8_t>(kMxfp4Codebook[i] + 128);
  }
  return table;
}

constexpr std::array<std::uint8_t, 16> kPlain = counting_table(0);

constexpr std::array kRecipes = {
    BlockRecipe{StorageType::q4_0, TileKind::nibble, "4-bit groups of 32, f16 scale", decode_q4_0,
                counting_table(128 - 8)},
    BlockRecipe{StorageType::q4_1, TileKind::nibble_min,
                "4-bit groups of 32, f16 scale and minimum", decode_q4_1, kPlain},
    BlockRecipe{StorageType::q5_0, TileKind::byte, "8-bit groups of 32, f16 scale", decode_q5_0,
                kPlain},
    BlockRecipe{StorageType::q5_1, TileKind::byte_min, "8-bit groups of 32, f16 scale and minimum",
                decode_q5_1, kPlain},
    BlockRecipe{StorageType::q8_0, TileKind::byte, "8-bit groups of 32, f16 scale", decode_q8_0,
                kPlain},
    BlockRecipe{StorageType::q2_k, TileKind::nibble_super16_min,
                "4-bit groups of 16, 8-bit scale and minimum, f16 scales of 256", decode_q2_k,
                kPlain},
    BlockRecipe{StorageType::q3_k, TileKind::nibble_super16,
                "4-bit groups of 16, 8-bit scale, f16 scale of 256", decode_q3_k,
                counting_table(128 - 4)},
    BlockRecipe{StorageType::q4_k, TileKind::nibble_super_min,
                "4-bit groups of 32, 8-bit scale and minimum, f16 scales of 256", decode_q4_k,
                kPlain},
    BlockRecipe{StorageType::q5_k, TileKind::byte_super_min,
                "8-bit groups of 32, 8-bit scale and minimum, f16 scales of 256", decode_q5_k,
                kPlain},
    BlockRecipe{StorageType::q6_k, TileKind::byte_super16,
                "8-bit groups of 16, 8-bit scale, f16 scale of 256", decode_q6_k, kPlain},
    BlockRecipe{StorageType::iq4_nl, TileKind::nibble, "4-bit codebook, groups of 32, f16 scale",
                decode_q4_0, iq4_table()},
    BlockRecipe{StorageType::mxfp4, TileKind::nibble, "4-bit floats, groups of 32, f16 scale",
                decode_mxfp4, mxfp4_table()},
    BlockRecipe{StorageType::iq4_xs, TileKind::nibble_super,
                "4-bit codebook, groups of 32, 8-bit scale, f16 scale of 256", decode_iq4_xs,
                iq4_table()},
    BlockRecipe{StorageType::iq2_xxs, TileKind::nibble_super,
                "4-bit codebook of +-{8, 25, 43}, groups of 32, 8-bit scale, f16 scale of 256",
                decode_iq2_xxs, kIq2Table, 0.125F},
};

/// Nibbles of kinds with a minimum are not looked up by all kernels.
constexpr bool stand_for_themselves(const BlockRecipe& recipe) {
  const TileShape& shape = kTileShapes[static_cast<int>(recipe.kind)];
  return shape.bits != 4 || !shape.minimum || recipe.table == kPlain;
}
static_assert(std::ranges::all_of(kRecipes, stand_for_themselves));

std::span<const BlockRecipe> low_bit_recipes() {
  static const std::array kLowBit = {
      low_bit_recipe<StorageType::iq1_s>(
          "4-bit codebook of +-{1, 7, 9}, groups of 32, 8-bit scale, f16 scale of 256"),
      low_bit_recipe<StorageType::iq1_m>(
          "4-bit codebook of +-{1, 7, 9}, groups of 16, 8-bit scale, f16 scale of 256"),
      low_bit_recipe<StorageType::iq2_xs>(
          "4-bit codebook of +-{8, 25, 43}, groups of 16, 8-bit scale, f16 scale of 256"),
      low_bit_recipe<StorageType::iq2_s>(
          "4-bit codebook of +-{8, 25, 43}, groups of 16, 8-bit scale, f16 scale of 256"),
      low_bit_recipe<StorageType::iq3_xxs>(
          "4-bit codebook of eight magnitudes, groups of 32, 8-bit scale, f16 scale of 256"),
      low_bit_recipe<StorageType::iq3_s>(
          "4-bit codebook of eight magnitudes, groups of 32, 8-bit scale, f16 scale of 256"),
      low_bit_recipe<StorageType::tq1_0>("4-bit codes of -1, 0, 1, f16 scale of 256"),
      low_bit_recipe<StorageType::tq2_0>("4-bit codes of -1, 0, 1, 2, f16 scale of 256"),
  };
  return kLowBit;
}

}  // namespace

const BlockRecipe* recipe_for(StorageType type) {
  for (const BlockRecipe& recipe : kRecipes) {
    if (recipe.type == type) return &recipe;
  }
  for (const BlockRecipe& recipe : low_bit_recipes()) {
    if (recipe.type == type) return &recipe;
  }
  return nullptr;
}

bool fits_mxfp4_tiles(std::span<const std::byte> blocks) {
  constexpr std::size_t kBytes = 17;
  constexpr int kLeast = 128 - 24, kMost = 128 + 15;  // powers of two that a binary16 holds
  for (std::size_t i = 0; i < blocks.size(); i += kBytes) {
    const int exponent = static_cast<int>(blocks[i]);
    if (exponent < kLeast || exponent > kMost) return false;
  }
  return true;
}

std::array<std::uint8_t, 16> plain_table() { return kPlain; }

}  // namespace talon::cpu
