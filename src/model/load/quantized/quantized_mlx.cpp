#include "model/load/quantized/quantized_mlx.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/half.h"
#include "model/load/quantized/quantized_floats.h"

namespace talon {
namespace {

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

}  // namespace

StorageType smallest_type_of_codes(int bits) {
  return bits <= 4 ? StorageType::q4_1 : bits == 5 ? StorageType::q5_1 : StorageType::f32;
}

MadeMatrix read_groups_of_codes(const MatrixParts& parts, const Quantization::Groups& groups,
                                const StackedMatrix& place) {
  if (place.cols % groups.inputs != 0) {
    parts.refuse(fmt::format("inputs in groups of {}", groups.inputs), place.cols);
  }
  const int count = std::max(1, place.count), groups_of_row = place.cols / groups.inputs;
  const auto shape = [&](int cols) {
    return place.count > 0 ? TensorShape{place.count, place.rows, cols}
                           : TensorShape{place.rows, cols};
  };
  const int words = place.cols / static_cast<int>(kBitsOfCodeWord) * groups.bits;
  GroupsOfCodes from;
  from.inputs = static_cast<std::size_t>(groups.inputs);
  from.codes =
      unpacked_codes(parts.words_of_one("weight", shape(words), count, place.index), groups.bits);
  from.scales = parts.numbers_of_one("scales", {shape(groups_of_row)}, count, place.index);
  from.biases = parts.numbers_of_one("biases", {shape(groups_of_row)}, count, place.index);
  const StorageType type = smallest_type_of_codes(groups.bits);
  const bool fits = type != StorageType::f32 && are_halves(from.scales) && are_halves(from.biases);
  return fits ? in_blocks(from, type) : in_floats(from);
}

}  // namespace talon
