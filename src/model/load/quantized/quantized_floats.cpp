#include "model/load/quantized/quantized_floats.h"

#include <fmt/format.h>

#include <cmath>

#include "io/quant/quant_tables.h"
#include "io/tensor_layout.h"

namespace talon {
namespace {

/// Blocks of a matrix, each with a scale.
struct ScaledBlocks {
  int height = 1, width = 1;
  std::vector<float> scales;  // in rows of blocks
};

int blocks_in(int size, int block) { return (size + block - 1) / block; }

/// `values` [rows, cols] are those of the codes.
MadeMatrix multiply_blocks(const MatrixParts& parts, std::string_view part,
                           std::vector<float>& values, const ScaledBlocks& blocks, int cols) {
  const auto rows = static_cast<int>(values.size() / static_cast<std::size_t>(cols));
  const int across = blocks_in(cols, blocks.width);
  auto value = values.begin();
  for (int row = 0; row < rows; ++row) {
    const auto first =
        static_cast<std::size_t>(row / blocks.height) * static_cast<std::size_t>(across);
    for (int col = 0; col < cols; ++col, ++value) {
      if (!std::isfinite(*value)) {
        parts.refuse(part, "finite values", fmt::format("{} in row {}", *value, row));
      }
      *value *= blocks.scales[first + static_cast<std::size_t>(col / blocks.width)];
    }
  }
  return f32_matrix(values);
}

}  // namespace

MadeMatrix f32_matrix(const std::vector<float>& values) {
  MadeMatrix made;
  const auto bytes = std::as_bytes(std::span(values));
  made.bytes.assign(bytes.begin(), bytes.end());
  return made;
}

std::vector<float> scales_of_outputs(const MatrixParts& parts, int rows, std::string_view name) {
  std::vector<float> scales = parts.numbers_of(name, {{rows, 1}, {rows}, {1}, {}});
  if (scales.size() == 1) scales.assign(static_cast<std::size_t>(rows), scales[0]);
  return scales;
}

MadeMatrix read_floats(const MatrixParts& parts, const Quantization& q, int rows, int cols) {
  const std::string name = parts.has("weight_scale_inv") ? "weight_scale_inv" : "weight_scale";
  const StoredTensor& codes = parts.tensor("weight", {rows, cols});
  if (!holds_reals(codes.type)) parts.bytes("weight", StorageType::f8_e4m3, {rows, cols});
  ScaledBlocks blocks{1, cols, {}};
  if (q.block_rows > 0) {
    blocks = {q.block_rows, q.block_cols, {}};
    blocks.scales =
        parts.numbers(name, {blocks_in(rows, q.block_rows), blocks_in(cols, q.block_cols)});
  } else {
    blocks.scales = scales_of_outputs(parts, rows, name);
  }
  std::vector<float> values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
  dequantize(codes.type, codes.bytes, values);
  return multiply_blocks(parts, "weight", values, blocks, cols);
}

MadeMatrix read_floats_of_stack(const MatrixParts& parts, const Quantization& q,
                                std::string_view scales, const StackedMatrix& place) {
  const auto [count, index, rows, cols, inputs_first] = place;
  const auto all = parts.bytes("", StorageType::f8_e4m3, {count, rows, cols});
  std::vector<float> values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
  dequantize(StorageType::f8_e4m3,
             all.subspan(static_cast<std::size_t>(index) * values.size(), values.size()), values);
  ScaledBlocks blocks;
  if (q.block_rows > 0) {
    blocks = {q.block_rows, q.block_cols, {}};
    const TensorShape shape = {count, blocks_in(rows, q.block_rows), blocks_in(cols, q.block_cols)};
    blocks.scales = parts.numbers_of_one(scales, {shape}, count, index);
  } else {
    const int outputs = inputs_first ? cols : rows;
    blocks.scales = parts.numbers_of_one(
        scales, {{count, outputs, 1}, {count, 1, outputs}, {count, 1, 1}, {count}, {1}, {}}, count,
        index);
    const bool is_one = blocks.scales.size() == 1;
    blocks.height = is_one || inputs_first ? rows : 1;
    blocks.width = is_one || !inputs_first ? cols : 1;
  }
  return multiply_blocks(parts, "", values, blocks, cols);
}

MadeMatrix read_nvfp4(const MatrixParts& parts, int rows, int cols) {
  constexpr std::size_t kGroup = 16;
  if (cols % int{kGroup} != 0) parts.refuse("inputs in whole groups of 16", cols);
  const bool divides = parts.has("weight_packed");
  const auto codes =
      parts.bytes(divides ? "weight_packed" : "weight", StorageType::u8, {rows, cols / 2});
  const auto scales = parts.numbers("weight_scale", {rows, cols / int{kGroup}});
  const char* name = divides ? "weight_global_scale" : "weight_scale_2";
  const float factor = parts.numbers_of(name, {{1}, {}})[0];
  if (divides && factor == 0) parts.refuse(name, "a number to divide by", "0");
  std::vector<float> values(2 * codes.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float scale = scales[i / kGroup];
    const auto both = static_cast<std::uint8_t>(codes[i / 2]);
    const float code =
        0.5F * static_cast<float>(kMxfp4Codebook[i % 2 == 0 ? both & 15 : both >> 4]);
    values[i] = code * (divides ? scale / factor : scale * factor);
  }
  return f32_matrix(values);
}

}  // namespace talon
