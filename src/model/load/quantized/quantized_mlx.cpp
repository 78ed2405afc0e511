#include "model/load/quantized/quantized_mlx.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/half.h"
#include "io/quant/quant_tables.h"
#include "model/load/quantized/quantized_floats.h"

namespace talon {
namespace {

using Codes = Quantization::Groups::Codes;

constexpr std::size_t kBitsOfCodeWord = 32;
constexpr std::size_t kInputsOfBlock = 32;  // of q4_1 and q5_1; groups are whole ones

struct GroupsOfCodes {
  std::size_t inputs = 0;             // of a group
  std::vector<std::uint8_t> codes;    // [rows, cols]
  std::vector<float> scales, biases;  // [rows, cols / inputs]
};

/// Rows are whole words.
std::vector<std::uint8_t> unpacked_codes(const std::vector<std::uint32_t>& words, int bits) {
  const auto width = static_cast<std::size_t>(bits);
  const std::uint64_t mask = (1U << bits) - 1;
  std::vector<std::uint8_t> codes(words.size() * kBitsOfCodeWord / width);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::size_t word = i * width / kBitsOfCodeWord, shift = i * width % kBitsOfCodeWord;
    std::uint64_t both = words[word];
    if (shift + width > kBitsOfCodeWord) both |= std::uint64_t{words[word + 1]} << kBitsOfCodeWord;
    codes[i] = static_cast<std::uint8_t>(both >> shift & mask);
  }
  return codes;
}

bool are_halves(const std::vector<float>& values) {
  return std::ranges::all_of(
      values, [](float value) { return half_to_float(float_to_half(value)) == value; });
}

void append_half(float value, std::vector<std::byte>& bytes) {
  const std::uint16_t half = float_to_half(value);
  bytes.push_back(static_cast<std::byte>(half & 255U));
  bytes.push_back(static_cast<std::byte>(half >> 8));
}

/// Codes i and i + 16 share a byte; before these lie the fifth bits of all, if there are any.
void append_block(const std::uint8_t* codes, bool has_fifth, std::vector<std::byte>& bytes) {
  constexpr std::size_t kPairs = kInputsOfBlock / 2;
  std::uint32_t fifth = 0;
  for (std::size_t i = 0; i < kInputsOfBlock; ++i) {
    fifth |= static_cast<std::uint32_t>(codes[i] >> 4) << i;
  }
  for (int shift = 0; has_fifth && shift < 32; shift += 8) {
    bytes.push_back(static_cast<std::byte>(fifth >> shift & 255U));
  }
  for (std::size_t i = 0; i < kPairs; ++i) {
    bytes.push_back(static_cast<std::byte>((codes[i] & 15) | (codes[i + kPairs] & 15) << 4));
  }
}

MadeMatrix in_blocks(const GroupsOfCodes& from, StorageType type) {
  MadeMatrix made;
  made.type = type;
  made.bytes.reserve(from.codes.size() / kInputsOfBlock * block_shape(type).bytes);
  for (std::size_t first = 0; first < from.codes.size(); first += kInputsOfBlock) {
    append_half(from.scales[first / from.inputs], made.bytes);
    append_half(from.biases[first / from.inputs], made.bytes);
    append_block(&from.codes[first], type == StorageType::q5_1, made.bytes);
  }
  return made;
}

MadeMatrix in_floats(const GroupsOfCodes& from) {
  std::vector<float> values(from.codes.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t group = i / from.inputs;
    const double product = double{from.scales[group]} * from.codes[i];
    values[i] = static_cast<float>(product + double{from.biases[group]});
  }
  return f32_matrix(values);
}

/// Of `cols` columns a row.
TensorShape shape_of(const StackedMatrix& place, int cols) {
  return place.count > 0 ? TensorShape{place.count, place.rows, cols}
                         : TensorShape{place.rows, cols};
}

int words_of_row(const Quantization::Groups& groups, int cols) {
  return cols * groups.bits / static_cast<int>(kBitsOfCodeWord);
}

/// Small floats: bytes as they are stored.
struct GroupsOfFloats {
  std::size_t inputs = 0;             // of a group
  std::span<const std::byte> codes;   // [rows, cols] of eight bits, or two of four bits in a byte
  std::span<const std::byte> scales;  // [rows, cols / inputs]

  std::uint8_t nibble(std::size_t i) const {
    const auto pair = std::to_integer<unsigned>(codes[i / 2]);
    return static_cast<std::uint8_t>(i % 2 == 0 ? pair & 15U : pair >> 4);
  }
};

/// Blocks of as many groups: their scales, then of each group codes i and i + half in one byte.
MadeMatrix in_blocks(const GroupsOfFloats& from, StorageType type) {
  const std::size_t groups = block_shape(type).elements / from.inputs, half = from.inputs / 2;
  MadeMatrix made;
  made.type = type;
  made.bytes.reserve(from.scales.size() + from.codes.size());
  for (std::size_t group = 0; group < from.scales.size(); ++group) {
    if (group % groups == 0) {
      const auto scales = from.scales.subspan(group, groups);
      made.bytes.insert(made.bytes.end(), scales.begin(), scales.end());
    }
    const std::size_t first = group * from.inputs;
    for (std::size_t i = first; i < first + half; ++i) {
      made.bytes.push_back(static_cast<std::byte>(from.nibble(i) | from.nibble(i + half) << 4));
    }
  }
  return made;
}

MadeMatrix smallest_of_floats(const std::vector<float>& values) {
  const auto fits = [](float value) { return bf16_to_float(float_to_bf16(value)) == value; };
  if (!std::ranges::all_of(values, fits)) return f32_matrix(values);
  MadeMatrix made;
  made.type = StorageType::bf16;
  made.bytes.reserve(2 * values.size());
  for (const float value : values) {
    const std::uint16_t bits = float_to_bf16(value);
    made.bytes.push_back(static_cast<std::byte>(bits & 255U));
    made.bytes.push_back(static_cast<std::byte>(bits >> 8));
  }
  return made;
}

/// Of codes of `part`, whose NaN MLX reads as a number.
float number_of(const MatrixParts& parts, std::string_view part, std::byte code) {
  const float value = f8_e4m3_to_float(std::to_integer<std::uint8_t>(code));
  if (std::isnan(value)) parts.refuse(part, "finite values", "nan");
  return value;
}

MadeMatrix in_mxfp8(const MatrixParts& parts, const GroupsOfFloats& from) {
  std::vector<float> values(from.codes.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double code = number_of(parts, "weight", from.codes[i]);
    const int exponent = std::to_integer<int>(from.scales[i / from.inputs]) - 127;
    values[i] = static_cast<float>(std::ldexp(code, exponent));
  }
  return smallest_of_floats(values);
}

MadeMatrix in_nvfp4(const MatrixParts& parts, const GroupsOfFloats& from, StorageType type) {
  std::vector<float> scales;
  for (const std::byte scale : from.scales) scales.push_back(number_of(parts, "scales", scale));
  const bool is_negative = std::ranges::any_of(scales, [](float s) { return std::signbit(s); });
  if (type == StorageType::nvfp4 && !is_negative) return in_blocks(from, type);
  std::vector<float> values(2 * from.codes.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.5F * static_cast<float>(kMxfp4Codebook[from.nibble(i)]) * scales[i / from.inputs];
  }
  return smallest_of_floats(values);
}

MadeMatrix read_groups_of_floats(const MatrixParts& parts, const Quantization::Groups& groups,
                                 const StackedMatrix& place) {
  const auto bytes = [&](std::string_view part, StorageType type, int cols) {
    return parts.bytes_of_one(part, type, shape_of(place, cols), std::max(1, place.count),
                              place.index);
  };
  GroupsOfFloats from;
  from.inputs = static_cast<std::size_t>(groups.inputs);
  from.codes = bytes("weight", StorageType::i32, words_of_row(groups, place.cols));
  from.scales = bytes("scales", StorageType::u8, place.cols / groups.inputs);
  const StorageType type = smallest_type_of_codes(groups, static_cast<std::uint64_t>(place.cols));
  if (groups.codes == Codes::mxfp8) return in_mxfp8(parts, from);
  if (groups.codes == Codes::nvfp4) return in_nvfp4(parts, from, type);
  return in_blocks(from, type);
}

MadeMatrix read_groups_of_numbers(const MatrixParts& parts, const Quantization::Groups& groups,
                                  const StackedMatrix& place) {
  const int count = std::max(1, place.count);
  const TensorShape words = shape_of(place, words_of_row(groups, place.cols));
  const TensorShape by_group = shape_of(place, place.cols / groups.inputs);
  GroupsOfCodes from;
  from.inputs = static_cast<std::size_t>(groups.inputs);
  from.codes = unpacked_codes(parts.words_of_one("weight", words, count, place.index), groups.bits);
  from.scales = parts.numbers_of_one("scales", {by_group}, count, place.index);
  from.biases = parts.numbers_of_one("biases", {by_group}, count, place.index);
  const StorageType type = smallest_type_of_codes(groups, static_cast<std::uint64_t>(place.cols));
  const bool fits = type != StorageType::f32 && are_halves(from.scales) && are_halves(from.biases);
  return fits ? in_blocks(from, type) : in_floats(from);
}

}  // namespace

StorageType smallest_type_of_codes(const Quantization::Groups& groups, std::uint64_t inputs) {
  switch (groups.codes) {
    case Codes::mxfp4:
      return StorageType::mxfp4;
    case Codes::mxfp8:
      return StorageType::bf16;
    case Codes::nvfp4:
      return inputs % block_shape(StorageType::nvfp4).elements == 0 ? StorageType::nvfp4
                                                                    : StorageType::bf16;
    case Codes::affine:
      break;
  }
  return groups.bits <= 4   ? StorageType::q4_1
         : groups.bits == 5 ? StorageType::q5_1
                            : StorageType::f32;
}

MadeMatrix read_groups_of_codes(const MatrixParts& parts, const Quantization::Groups& groups,
                                const StackedMatrix& place) {
  if (place.cols % groups.inputs != 0) {
    parts.refuse(fmt::format("inputs in groups of {}", groups.inputs), place.cols);
  }
  return groups.codes == Codes::affine ? read_groups_of_numbers(parts, groups, place)
                                       : read_groups_of_floats(parts, groups, place);
}

}  // namespace talon
