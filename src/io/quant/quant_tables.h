#pragma once

#include <array>
#include <bit>
#include <cstdint>

/// The tables and bit rules of ggml's block types, for code that takes blocks apart itself.
/// Fields of several bytes are little-endian; d, m and dmin are IEEE binary16.
///
/// Value i of a block of 32:
///
///   q8_0     d, i8 q[32]            d * q[i]
///   q4_0     d, u8 q[16]            d * (n(i) - 8)
///   q4_1     d, m, u8 q[16]         d * n(i) + m
///   q5_0     d, u32 h, u8 q[16]     d * ((n(i) | bit i of h << 4) - 16)
///   q5_1     d, m, u32 h, u8 q[16]  d * (n(i) | bit i of h << 4) + m
///   iq4_nl   d, u8 q[16]            d * kIq4Codebook[n(i)]
///   mxfp4    u8 e, u8 q[16]         2^(e - 128) * kMxfp4Codebook[n(i)]
///
/// nvfp4, blocks of 64: u8 s[4], u8 q[4][8], nvfp4_scale(s[i / 16]) * kMxfp4Codebook[nibble], the
/// low nibbles first in each 16. Types below three bits: low_bit_blocks.h.
///
///   n(i): the low nibble of q[i], from 16 on the high nibble of q[i - 16]
///
/// Value i of a block of 256, where g = i / 32:
///
///   q2_k     u8 s[16], u8 q[64], d, dmin
///            (d * (s[i / 16] & 15)) * c(i) - dmin * (s[i / 16] >> 4)
///   q3_k     u8 h[32], u8 q[64], u8 s[12], d
///            (d * q3_k_scale(s, i / 16)) * (c(i) - (bit g of h[i % 32] ? 0 : 4))
///   q4_k     d, dmin, u8 s[12], u8 q[128]
///            (d * scale) * w(i) - dmin * min, both of k_scale_min(s, g)
///   q5_k     d, dmin, u8 s[12], u8 h[32], u8 q[128]
///            (d * scale) * (w(i) | bit g of h[i % 32] << 4) - dmin * min
///   q6_k     u8 q[128], u8 h[64], i8 s[16], d
///            (d * s[i / 16]) * ((v(i) | c(i) of h << 4) - 32)
///   iq4_xs   d, u16 high, u8 low[4], u8 q[128]
///            (d * ((nibble g of low | bits 2g, 2g + 1 of high << 4) - 32)) * kIq4Codebook[n],
///            n as above, of the 16 bytes from q[16 * g]
///   iq2_xxs  d, 8 x {u8 index[4], u32 a}, part = i / 8 % 4
///            ((d * (0.5 + (a >> 28))) * 0.25) * kIq2XxsGrid[index[part]][i % 8],
///            negative where bit i % 8 of iq2_signs((a >> 7 * part) & 127) is set
///
///   c(i): two bits of q[32 * (i / 128) + i % 32], from bit 2 * (g % 4) on
///   w(i): nibble of q[32 * (i / 64) + i % 32], the high one where g is odd
///   v(i): nibble of q[64 * (i / 128) + i % 64], the high one where i / 64 is odd
///
/// Products are float32, in the order of the brackets.
namespace talon {

inline constexpr std::array<std::int8_t, 16> kIq4Codebook = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// Twice the values of the four-bit floats e2m1.
inline constexpr std::array<std::int8_t, 16> kMxfp4Codebook = {0, 1,  2,  3,  4,  6,  8,  12,
                                                               0, -1, -2, -3, -4, -6, -8, -12};

/// Scale and minimum of group 0..7 in the 12 bytes of q4_k and q5_k: six bits each.
struct KScaleMin {
  std::uint8_t scale;
  std::uint8_t min;
};
constexpr KScaleMin k_scale_min(const std::uint8_t* packed, int group) {
  if (group < 4) {
    return {static_cast<std::uint8_t>(packed[group] & 63),
            static_cast<std::uint8_t>(packed[group + 4] & 63)};
  }
  return {static_cast<std::uint8_t>((packed[group + 4] & 15) | ((packed[group - 4] >> 6) << 4)),
          static_cast<std::uint8_t>((packed[group + 4] >> 4) | ((packed[group] >> 6) << 4))};
}

/// Scale -32..31 of group 0..15 in the 12 bytes of q3_k.
constexpr int q3_k_scale(const std::uint8_t* packed, int group) {
  const int low = group < 8 ? packed[group] & 15 : packed[group - 8] >> 4;
  const int high = (packed[8 + group % 4] >> (2 * (group / 4))) & 3;
  return (low | (high << 4)) - 32;
}

/// The eight sign bits (set: negative) that a 7-bit field of iq2_xxs stands for: the eighth makes
/// their number even.
constexpr std::uint8_t iq2_signs(std::uint32_t seven_bits) {
  return static_cast<std::uint8_t>(seven_bits | ((std::popcount(seven_bits) & 1u) << 7));
}

/// nvfp4: a byte of scale, e4m3 without a sign, halved as the codes are doubled; 127 stands for 0.
float nvfp4_scale(std::uint8_t byte);
/// The eight-bit float of safetensors: four bits of exponent, three of mantissa, no infinities.
float f8_e4m3_to_float(std::uint8_t byte);

/// iq2_xxs: the eight magnitudes of each of 256 entries. Only 8, 25 and 43 occur.
using Iq2Grid = std::array<std::array<std::uint8_t, 8>, 256>;

namespace quant_tables_detail {

// Value j of an entry is {8, 25, 43}[bits 2j and 2j + 1].
inline constexpr std::array<std::uint16_t, 256> kIq2XxsPacked = {
    0x0000, 0x0002, 0x0005, 0x0008, 0x000A, 0x0011, 0x0014, 0x0020, 0x0022, 0x0028, 0x002A, 0x0041,
    0x0044, 0x0050, 0x0058, 0x0061, 0x0064, 0x0080, 0x0082, 0x008A, 0x00A2, 0x0101, 0x0104, 0x0110,
    0x0115, 0x0140, 0x0184, 0x0198, 0x0200, 0x0202, 0x0222, 0x0282, 0x0401, 0x0404, 0x0410, 0x0421,
    0x0424, 0x0440, 0x0442, 0x0448, 0x0460, 0x0481, 0x0484, 0x0490, 0x04A4, 0x0500, 0x0502, 0x0508,
    0x0520, 0x0546, 0x0569, 0x0580, 0x0591, 0x0609, 0x0610, 0x0640, 0x0684, 0x06A4, 0x0800, 0x0805,
    0x0808, 0x0814, 0x0828, 0x0841, 0x0844, 0x0850, 0x0852, 0x0888, 0x0904, 0x0940, 0x0A02, 0x0A14,
    0x1001, 0x1004, 0x1010, 0x1021, 0x1040, 0x1060, 0x1084, 0x1090, 0x1095, 0x1100, 0x1108, 0x1120,
    0x1150, 0x115A, 0x1180, 0x1224, 0x1245, 0x1400, 0x1408, 0x1420, 0x1425, 0x1449, 0x1480, 0x1518,
    0x1562, 0x1600, 0x1616, 0x1801, 0x1804, 0x1810, 0x1840, 0x1881, 0x1900, 0x1905, 0x19A0, 0x1A51,
    0x2000, 0x2002, 0x200A, 0x2044, 0x2061, 0x2080, 0x2082, 0x2129, 0x2148, 0x2200, 0x2202, 0x2401,
    0x2404, 0x2410, 0x2440, 0x2456, 0x2500, 0x2541, 0x2564, 0x2690, 0x2808, 0x2820, 0x2894, 0x2A44,
    0x4001, 0x4004, 0x4010, 0x4018, 0x4021, 0x4024, 0x4040, 0x4048, 0x4056, 0x4060, 0x4081, 0x4084,
    0x4090, 0x4100, 0x4120, 0x4161, 0x4180, 0x4185, 0x4201, 0x4210, 0x4248, 0x4256, 0x4268, 0x4400,
    0x4408, 0x4420, 0x4480, 0x4499, 0x4512, 0x4524, 0x4600, 0x4801, 0x4804, 0x4810, 0x4840, 0x4845,
    0x4900, 0x4958, 0x4961, 0x4982, 0x4A45, 0x4A90, 0x5000, 0x5008, 0x5011, 0x5019, 0x5020, 0x5080,
    0x5088, 0x5104, 0x5142, 0x51A4, 0x5291, 0x5490, 0x5492, 0x550A, 0x5601, 0x5654, 0x5800, 0x5811,
    0x5819, 0x5864, 0x5940, 0x5A08, 0x6004, 0x6010, 0x6040, 0x6068, 0x6100, 0x6155, 0x6218, 0x6260,
    0x6400, 0x6405, 0x6510, 0x6512, 0x6584, 0x6842, 0x8000, 0x8002, 0x800A, 0x8041, 0x8082, 0x8104,
    0x8118, 0x8140, 0x8211, 0x8401, 0x8404, 0x8410, 0x8415, 0x8440, 0x8460, 0x8500, 0x8546, 0x8594,
    0x8609, 0x8640, 0x8660, 0x8802, 0x8904, 0x8A11, 0x9004, 0x9010, 0x9024, 0x9040, 0x90A1, 0x9116,
    0x9180, 0x9245, 0x9400, 0x9422, 0x9444, 0x9551, 0x9881, 0x9920, 0xA002, 0xA050, 0xA085, 0xA109,
    0xA200, 0xA418, 0xA850, 0xA904,
};

constexpr Iq2Grid unpack_iq2_xxs() {
  constexpr std::array<std::uint8_t, 3> kMagnitudes = {8, 25, 43};
  Iq2Grid grid{};
  for (std::size_t entry = 0; entry < grid.size(); ++entry) {
    for (std::size_t j = 0; j < 8; ++j) {
      grid[entry][j] = kMagnitudes[(kIq2XxsPacked[entry] >> (2 * j)) & 3u];
    }
  }
  return grid;
}

}  // namespace quant_tables_detail

inline constexpr Iq2Grid kIq2XxsGrid = quant_tables_detail::unpack_iq2_xxs();

}  // namespace talon
