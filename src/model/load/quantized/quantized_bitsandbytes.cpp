#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/half.h"
#include "io/json_text.h"
#include "model/config/config_keys.h"
#include "model/load/quantized/quantized_floats.h"

namespace talon {
namespace {

constexpr int kLargestBlock = 1 << 16;  // of values that share a scale

/// The part with the JSON of a matrix.
std::string_view state_part(const MatrixParts& parts) {
  constexpr std::string_view kNf4 = "weight.quant_state.bitsandbytes__nf4";
  constexpr std::string_view kFp4 = "weight.quant_state.bitsandbytes__fp4";
  return parts.has(kFp4) ? kFp4 : kNf4;
}

std::int64_t blocks_of(std::int64_t values, int block) { return (values + block - 1) / block; }

/// What the largest code stands for in each block.
std::vector<float> largest_of_blocks(const MatrixParts& parts, const ConfigKeys& state,
                                     std::int64_t blocks) {
  if (!parts.has("weight.nested_absmax")) return parts.numbers("weight.absmax", {blocks});
  constexpr double kMost = std::numeric_limits<float>::max();
  const int size = state.integer("nested_blocksize", 1, kLargestBlock);
  const auto offset = static_cast<float>(state.number("nested_offset", -kMost, kMost));
  const auto codes = parts.bytes("weight.absmax", StorageType::u8, {blocks});
  const auto table = parts.numbers("weight.nested_quant_map", {256});
  const auto scales = parts.numbers("weight.nested_absmax", {blocks_of(blocks, size)});
  std::vector<float> largest(codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const float part = table[static_cast<std::uint8_t>(codes[i])];
    largest[i] = part * scales[i / static_cast<std::size_t>(size)] + offset;
  }
  return largest;
}

StorageType type_of_products(const ConfigKeys& state) {
  const std::string type = state.text("dtype");
  if (type == "bfloat16") return StorageType::bf16;
  if (type == "float16") return StorageType::f16;
  if (type != "float32") state.refuse("dtype", "bfloat16, float16 or float32");
  return StorageType::f32;
}

/// Rounds to nearest.
MadeMatrix rounded_matrix(const std::vector<float>& values, StorageType type) {
  if (type == StorageType::f32) return f32_matrix(values);
  std::vector<std::uint16_t> bits(values.size());
  std::ranges::transform(values, bits.begin(),
                         type == StorageType::bf16 ? float_to_bf16 : float_to_half);
  const auto bytes = std::as_bytes(std::span(bits));
  return {type, {bytes.begin(), bytes.end()}};
}

}  // namespace

MadeMatrix read_table_codes(const MatrixParts& parts, int rows, int cols) {
  const std::string_view part = state_part(parts);
  const Json json = parse_json(parts.text(part), "load " + parts.place_of(part));
  const ConfigKeys state(json, parts.place_of(part));
  const std::vector<int> shape = state.integers("shape", 0, std::numeric_limits<int>::max(), 2);
  if (shape != std::vector<int>{rows, cols}) {
    state.refuse("shape", fmt::format("[{}, {}]", rows, cols));
  }
  const auto block = static_cast<std::size_t>(state.integer("blocksize", 1, kLargestBlock));
  const StorageType type = type_of_products(state);
  const std::int64_t count = std::int64_t{rows} * cols;
  const auto codes = parts.bytes("weight", StorageType::u8, {(count + 1) / 2, 1});
  const auto table = parts.numbers("weight.quant_map", {16});
  const auto largest = largest_of_blocks(parts, state, blocks_of(count, static_cast<int>(block)));
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto both = static_cast<std::uint8_t>(codes[i / 2]);
    values[i] = table[i % 2 == 0 ? both >> 4 : both & 15] * largest[i / block];
  }
  return rounded_matrix(values, type);
}

MadeMatrix read_scaled_bytes(const MatrixParts& parts, int rows, int cols) {
  constexpr float kOfOne = 1.0F / 127;
  if (parts.has("weight_format")) {
    const int format = static_cast<int>(parts.bytes("weight_format", StorageType::u8, {})[0]);
    if (format != 0) parts.refuse("weight_format", "0, rows", std::to_string(format));
  }
  const auto codes = parts.bytes("weight", StorageType::i8, {rows, cols});
  const auto largest = parts.numbers("SCB", {rows});
  std::vector<float> values(codes.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto code = static_cast<float>(static_cast<std::int8_t>(codes[i]));
    values[i] = code * largest[i / static_cast<std::size_t>(cols)] * kOfOne;
  }
  return f32_matrix(values);
}

}  // namespace talon
