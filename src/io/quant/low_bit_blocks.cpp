#include "io/quant/low_bit_blocks.h"

#include "io/quant/low_bit_grids.h"
#include "io/quant/quant_tables.h"

namespace talon {
namespace {

using Bytes = const std::uint8_t*;

std::uint16_t read16(Bytes p) { return static_cast<std::uint16_t>(p[0] | (p[1] << 8)); }
std::uint32_t read32(Bytes p) {
  return static_cast<std::uint32_t>(read16(p)) | static_cast<std::uint32_t>(read16(p + 2)) << 16;
}
/// 2 n + 1: scales are odd multiples.
std::int8_t odd(unsigned n) { return static_cast<std::int8_t>(2 * n + 1); }

/// Eight codes of `bits` bits from grid entries; bit i of `signs` sets `sign` in code i.
void put_codes(unsigned entry, int bits, int count, unsigned signs, unsigned sign,
               std::uint8_t* code) {
  const unsigned mask = (1U << bits) - 1;
  for (int i = 0; i < count; ++i) {
    const unsigned magnitude = entry >> (bits * i) & mask;
    code[i] = static_cast<std::uint8_t>(magnitude | ((signs >> i & 1U) != 0 ? sign : 0U));
  }
}
constexpr unsigned kSign2 = 4, kSign3 = 8;  // codes of negative values
constexpr unsigned kAllDown = 255;          // eight values whose shift is down

void iq1_s(Bytes b, LowBitBlock& out) {
  out.d = read16(b);
  for (int g = 0; g < 8; ++g) {
    const unsigned high = read16(b + 34 + 2 * g);
    out.scale[g] = odd(high >> 12 & 7U);
    for (int part = 0; part < 4; ++part) {
      const unsigned index = b[2 + 4 * g + part] | (high >> (3 * part) & 7U) << 8;
      put_codes(kIq1Grid[index], 2, 8, (high & 0x8000U) != 0 ? kAllDown : 0, kSign2,
                out.code + 32 * g + 8 * part);
    }
  }
}

/// Its d lies in the top nibbles of four words of scales.
void iq1_m(Bytes b, LowBitBlock& out) {
  unsigned d = 0;
  for (int word = 0; word < 4; ++word) {
    d |= static_cast<unsigned>(read16(b + 48 + 2 * word) >> 12) << (4 * word);
  }
  out.d = static_cast<std::uint16_t>(d);
  for (int g = 0; g < 16; ++g) {
    out.scale[g] = odd(static_cast<unsigned>(read16(b + 48 + 2 * (g / 4))) >> (3 * (g % 4)) & 7U);
  }
  for (int part = 0; part < 32; ++part) {
    const unsigned nibble = b[32 + part / 2] >> (4 * (part % 2)) & 15U;
    put_codes(kIq1Grid[b[part] | (nibble & 7U) << 8], 2, 8, (nibble & 8U) != 0 ? kAllDown : 0,
              kSign2, out.code + 8 * part);
  }
}

void iq2_xs(Bytes b, LowBitBlock& out) {
  out.d = read16(b);
  for (int g = 0; g < 16; ++g) out.scale[g] = odd(b[66 + g / 2] >> (4 * (g % 2)) & 15U);
  for (int part = 0; part < 32; ++part) {
    const unsigned index = read16(b + 2 + 2 * part);
    put_codes(kIq2XsGrid[index & 511U], 2, 8, iq2_signs(index >> 9), kSign2, out.code + 8 * part);
  }
}

void iq2_s(Bytes b, LowBitBlock& out) {
  out.d = read16(b);
  for (int g = 0; g < 16; ++g) out.scale[g] = odd(b[74 + g / 2] >> (4 * (g % 2)) & 15U);
  for (int part = 0; part < 32; ++part) {
    const unsigned high = b[66 + part / 4] >> (2 * (part % 4)) & 3U;
    put_codes(kIq2SGrid[b[2 + part] | high << 8], 2, 8, b[34 + part], kSign2, out.code + 8 * part);
  }
}

void iq3_xxs(Bytes b, LowBitBlock& out) {
  out.d = read16(b);
  for (int g = 0; g < 8; ++g) {
    const std::uint32_t packed = read32(b + 66 + 4 * g);
    out.scale[g] = odd(packed >> 28);
    for (int part = 0; part < 4; ++part) {
      const unsigned signs = iq2_signs(packed >> (7 * part) & 127U);
      std::uint8_t* code = out.code + 32 * g + 8 * part;
      Bytes index = b + 2 + 8 * g + 2 * part;
      put_codes(kIq3XxsGrid[index[0]], 3, 4, signs, kSign3, code);
      put_codes(kIq3XxsGrid[index[1]], 3, 4, signs >> 4, kSign3, code + 4);
    }
  }
}

void iq3_s(Bytes b, LowBitBlock& out) {
  out.d = read16(b);
  for (int g = 0; g < 8; ++g) out.scale[g] = odd(b[106 + g / 2] >> (4 * (g % 2)) & 15U);
  for (int four = 0; four < 64; ++four) {
    const unsigned high = b[66 + four / 8] >> (four % 8) & 1U;
    const unsigned signs = static_cast<unsigned>(b[74 + four / 2]) >> (4 * (four % 2));
    put_codes(kIq3SGrid[b[2 + four] | high << 8], 3, 4, signs, kSign3, out.code + 4 * four);
  }
}

void one_scale(std::uint16_t d, LowBitBlock& out) {
  out.d = d;
  for (int g = 0; g < 8; ++g) out.scale[g] = 1;
}

/// Five digits to the base of three in a byte, four in the last ones, the highest first.
void tq1_0(Bytes b, LowBitBlock& out) {
  one_scale(read16(b + 52), out);
  std::uint8_t* code = out.code;
  const auto digits = [&](Bytes bytes, int count, int digits_of_each) {
    unsigned power = 1;
    for (int digit = 0; digit < digits_of_each; ++digit, power *= 3) {
      for (int i = 0; i < count; ++i) {
        const unsigned rest = bytes[i] * power & 255U;
        *code++ = static_cast<std::uint8_t>(rest * 3 >> 8);
      }
    }
  };
  digits(b, 32, 5);
  digits(b + 32, 16, 5);
  digits(b + 48, 4, 4);
}

void tq2_0(Bytes b, LowBitBlock& out) {
  one_scale(read16(b + 64), out);
  for (int i = 0; i < 256; ++i) {
    out.code[i] = b[32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4)) & 3;
  }
}

using Values = std::array<std::int8_t, 16>;
constexpr Values kIq1 = {-7, 1, 9, 0, -9, -1, 7};  // eighths: the grid's value and 1/8 up or down
constexpr Values kIq2 = {8, 25, 43, 0, -8, -25, -43};
constexpr Values kIq3Xxs = {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};
constexpr Values kIq3S = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
constexpr Values kTernary = {-1, 0, 1, 2};

constexpr LowBitType kTypes[] = {
    {StorageType::iq1_s, 32, 0.125F, kIq1, iq1_s},
    {StorageType::iq1_m, 16, 0.125F, kIq1, iq1_m},
    {StorageType::iq2_xs, 16, 0.125F, kIq2, iq2_xs},
    {StorageType::iq2_s, 16, 0.125F, kIq2, iq2_s},
    {StorageType::iq3_xxs, 32, 0.25F, kIq3Xxs, iq3_xxs},
    {StorageType::iq3_s, 32, 1.0F, kIq3S, iq3_s},
    {StorageType::tq1_0, 32, 1.0F, kTernary, tq1_0},
    {StorageType::tq2_0, 32, 1.0F, kTernary, tq2_0},
};

}  // namespace

const LowBitType* low_bit_type(StorageType type) {
  for (const LowBitType& known : kTypes) {
    if (known.type == type) return &known;
  }
  return nullptr;
}

}  // namespace talon
