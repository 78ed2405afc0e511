#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/half.h"
#include "io/quant/low_bit_blocks.h"
#include "io/quant/quant_tables.h"
#include "io/storage_type.h"

namespace talon {
namespace {

// Each decode_* reads one block at `b` and writes its values to `y`. Layouts and product orders:
// quant_tables.h.
using Bytes = const std::uint8_t*;
using Decode = void (*)(Bytes b, float* y);

template <typename T>
T load(Bytes b) {
  T value;
  std::memcpy(&value, b, sizeof(value));
  return value;
}

float load_half(Bytes b) { return half_to_float(load<std::uint16_t>(b)); }

template <typename T>
void decode_number(Bytes b, float* y) {
  *y = static_cast<float>(load<T>(b));
}
void decode_f16(Bytes b, float* y) { *y = load_half(b); }
void decode_bf16(Bytes b, float* y) { *y = bf16_to_float(load<std::uint16_t>(b)); }
void decode_boolean(Bytes b, float* y) { *y = *b != 0 ? 1.0f : 0.0f; }

void decode_q8_0(Bytes b, float* y) {
  const float d = load_half(b);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(load<std::int8_t>(b + 2 + i));
}

void decode_q4_0(Bytes b, float* y) {
  const float d = load_half(b);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * static_cast<float>((b[2 + i] & 15) - 8);
    y[i + 16] = d * static_cast<float>((b[2 + i] >> 4) - 8);
  }
}

void decode_q4_1(Bytes b, float* y) {
  const float d = load_half(b);
  const float m = load_half(b + 2);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * static_cast<float>(b[4 + i] & 15) + m;
    y[i + 16] = d * static_cast<float>(b[4 + i] >> 4) + m;
  }
}

// Value i of the 5-bit types, whose fifth bits are in `high` and whose nibbles begin at `low`.
int five_bits(std::uint32_t high, Bytes low, int i) {
  const int nibble = i < 16 ? low[i] & 15 : low[i - 16] >> 4;
  return nibble | static_cast<int>(((high >> i) & 1u) << 4);
}

void decode_q5_0(Bytes b, float* y) {
  const float d = load_half(b);
  const auto high = load<std::uint32_t>(b + 2);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(five_bits(high, b + 6, i) - 16);
}

void decode_q5_1(Bytes b, float* y) {
  const float d = load_half(b);
  const float m = load_half(b + 2);
  const auto high = load<std::uint32_t>(b + 4);
  for (int i = 0; i < 32; ++i) y[i] = d * static_cast<float>(five_bits(high, b + 8, i)) + m;
}

void decode_q2_k(Bytes b, float* y) {
  Bytes scales = b;
  Bytes q = b + 16;
  const float d = load_half(b + 80);
  const float dmin = load_half(b + 82);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(scales[i / 16] & 15);
    const float min = dmin * static_cast<float>(scales[i / 16] >> 4);
    const int code = (q[32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4))) & 3;
    y[i] = scale * static_cast<float>(code) - min;
  }
}

void decode_q3_k(Bytes b, float* y) {
  Bytes high = b;
  Bytes q = b + 32;
  const float d = load_half(b + 108);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(q3_k_scale(b + 96, i / 16));
    const int code = (q[32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4))) & 3;
    const bool bit = (high[i % 32] >> (i / 32)) & 1;
    y[i] = scale * static_cast<float>(code - (bit ? 0 : 4));
  }
}

void decode_q4_k(Bytes b, float* y) {
  const float d = load_half(b);
  const float dmin = load_half(b + 2);
  for (int group = 0; group < 8; ++group) {
    const KScaleMin packed = k_scale_min(b + 4, group);
    const float scale = d * static_cast<float>(packed.scale);
    const float min = dmin * static_cast<float>(packed.min);
    Bytes q = b + 16 + 32 * (group / 2);
    for (int i = 0; i < 32; ++i) {
      y[32 * group + i] = scale * static_cast<float>((q[i] >> (4 * (group % 2))) & 15) - min;
    }
  }
}

void decode_q5_k(Bytes b, float* y) {
  const float d = load_half(b);
  const float dmin = load_half(b + 2);
  Bytes high = b + 16;
  for (int group = 0; group < 8; ++group) {
    const KScaleMin packed = k_scale_min(b + 4, group);
    const float scale = d * static_cast<float>(packed.scale);
    const float min = dmin * static_cast<float>(packed.min);
    Bytes q = b + 48 + 32 * (group / 2);
    for (int i = 0; i < 32; ++i) {
      const int code = ((q[i] >> (4 * (group % 2))) & 15) | (((high[i] >> group) & 1) << 4);
      y[32 * group + i] = scale * static_cast<float>(code) - min;
    }
  }
}

void decode_q6_k(Bytes b, float* y) {
  Bytes low = b;
  Bytes high = b + 128;
  const float d = load_half(b + 208);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(load<std::int8_t>(b + 192 + i / 16));
    const int nibble = (low[64 * (i / 128) + i % 64] >> (4 * (i / 64 % 2))) & 15;
    const int top = (high[32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4))) & 3;
    y[i] = scale * static_cast<float>((nibble | (top << 4)) - 32);
  }
}

// 32 values of the shared codebook: the low nibbles of 16 bytes, then the high ones.
void decode_codebook(Bytes q, float scale, float* y) {
  for (int i = 0; i < 16; ++i) {
    y[i] = scale * static_cast<float>(kIq4Codebook[q[i] & 15]);
    y[i + 16] = scale * static_cast<float>(kIq4Codebook[q[i] >> 4]);
  }
}

void decode_iq4_nl(Bytes b, float* y) { decode_codebook(b + 2, load_half(b), y); }

void decode_iq4_xs(Bytes b, float* y) {
  const float d = load_half(b);
  const auto scales_high = load<std::uint16_t>(b + 2);
  for (int group = 0; group < 8; ++group) {
    const int low = (b[4 + group / 2] >> (4 * (group % 2))) & 15;
    const int high = (scales_high >> (2 * group)) & 3;
    const float scale = d * static_cast<float>((low | (high << 4)) - 32);
    decode_codebook(b + 8 + 16 * group, scale, y + 32 * group);
  }
}

void decode_iq2_xxs(Bytes b, float* y) {
  const float d = load_half(b);
  for (int group = 0; group < 8; ++group) {
    Bytes index = b + 2 + 8 * group;
    const auto packed = load<std::uint32_t>(index + 4);
    const float scale = d * (0.5f + static_cast<float>(packed >> 28)) * 0.25f;
    for (int part = 0; part < 4; ++part) {
      const auto& magnitude = kIq2XxsGrid[index[part]];
      const std::uint8_t signs = iq2_signs((packed >> (7 * part)) & 127u);
      for (std::size_t i = 0; i < 8; ++i) {
        const float value = scale * static_cast<float>(magnitude[i]);
        *y++ = (signs >> i) & 1 ? -value : value;
      }
    }
  }
}

/// A byte of exponent, then 32 codes of e2m1, doubled: 2^(e - 128) * {0, 1, 2, 3, 4, 6, 8, 12,
/// -...}.
void decode_mxfp4(Bytes b, float* y) {
  const float scale = std::ldexp(1.0F, static_cast<int>(b[0]) - 128);
  for (int i = 0; i < 16; ++i) {
    y[i] = scale * static_cast<float>(kMxfp4Codebook[b[1 + i] & 15]);
    y[i + 16] = scale * static_cast<float>(kMxfp4Codebook[b[1 + i] >> 4]);
  }
}

/// Four scales, then four times 16 codes of e2m1, doubled, the low nibbles first.
void decode_nvfp4(Bytes b, float* y) {
  for (int part = 0; part < 4; ++part) {
    const float scale = nvfp4_scale(b[part]);
    for (int i = 0; i < 8; ++i) {
      const std::uint8_t both = b[4 + 8 * part + i];
      y[16 * part + i] = scale * static_cast<float>(kMxfp4Codebook[both & 15]);
      y[16 * part + i + 8] = scale * static_cast<float>(kMxfp4Codebook[both >> 4]);
    }
  }
}

void decode_f8_e4m3(Bytes b, float* y) { *y = f8_e4m3_to_float(*b); }

template <StorageType kType>
void decode_low_bits(Bytes b, float* y) {
  static const LowBitType& type = *low_bit_type(kType);
  LowBitBlock block;
  type.take_apart(b, block);
  const float d = half_to_float(block.d) * type.unit;
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(block.scale[i / type.group]);
    y[i] = scale * static_cast<float>(type.values[block.code[i]]);
  }
}

Decode decoder_of(StorageType type) {
  switch (type) {
    case StorageType::f32:
      return decode_number<float>;
    case StorageType::f16:
      return decode_f16;
    case StorageType::bf16:
      return decode_bf16;
    case StorageType::f64:
      return decode_number<double>;
    case StorageType::i8:
      return decode_number<std::int8_t>;
    case StorageType::u8:
      return decode_number<std::uint8_t>;
    case StorageType::i16:
      return decode_number<std::int16_t>;
    case StorageType::i32:
      return decode_number<std::int32_t>;
    case StorageType::i64:
      return decode_number<std::int64_t>;
    case StorageType::boolean:
      return decode_boolean;
    case StorageType::q8_0:
      return decode_q8_0;
    case StorageType::q4_0:
      return decode_q4_0;
    case StorageType::q4_1:
      return decode_q4_1;
    case StorageType::q5_0:
      return decode_q5_0;
    case StorageType::q5_1:
      return decode_q5_1;
    case StorageType::q2_k:
      return decode_q2_k;
    case StorageType::q3_k:
      return decode_q3_k;
    case StorageType::q4_k:
      return decode_q4_k;
    case StorageType::q5_k:
      return decode_q5_k;
    case StorageType::q6_k:
      return decode_q6_k;
    case StorageType::iq4_nl:
      return decode_iq4_nl;
    case StorageType::iq4_xs:
      return decode_iq4_xs;
    case StorageType::iq2_xxs:
      return decode_iq2_xxs;
    case StorageType::mxfp4:
      return decode_mxfp4;
    case StorageType::iq1_s:
      return decode_low_bits<StorageType::iq1_s>;
    case StorageType::iq1_m:
      return decode_low_bits<StorageType::iq1_m>;
    case StorageType::iq2_xs:
      return decode_low_bits<StorageType::iq2_xs>;
    case StorageType::iq2_s:
      return decode_low_bits<StorageType::iq2_s>;
    case StorageType::iq3_xxs:
      return decode_low_bits<StorageType::iq3_xxs>;
    case StorageType::iq3_s:
      return decode_low_bits<StorageType::iq3_s>;
    case StorageType::tq1_0:
      return decode_low_bits<StorageType::tq1_0>;
    case StorageType::tq2_0:
      return decode_low_bits<StorageType::tq2_0>;
    case StorageType::nvfp4:
      return decode_nvfp4;
    case StorageType::f8_e4m3:
      return decode_f8_e4m3;
  }
  throw Bug("dequantize: not a storage type");
}

}  // namespace

void dequantize(StorageType type, std::span<const std::byte> bytes, std::span<float> out) {
  const BlockShape shape = block_shape(type);
  const std::size_t blocks = out.size() / shape.elements;
  expects(out.size() % shape.elements == 0 && bytes.size() == blocks * shape.bytes,
          "dequantize: whole blocks and as many elements as they hold");
  if (blocks == 0) return;
  if (type == StorageType::f32) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return;
  }
  const Decode decode = decoder_of(type);
  const auto* block = reinterpret_cast<Bytes>(bytes.data());
  for (std::size_t i = 0; i < blocks; ++i) {
    decode(block + i * shape.bytes, out.data() + i * shape.elements);
  }
}

}  // namespace talon
