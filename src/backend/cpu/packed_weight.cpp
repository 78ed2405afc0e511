#include "backend/cpu/packed_weight.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cpu/block_decoders.h"
#include "backend/cpu/tile_writer.h"
#include "core/error.h"
#include "core/half.h"
#include "io/quant/quantize.h"

namespace talon::cpu {
namespace {

std::size_t row_bytes(const StoredMatrix& matrix) {
  const BlockShape block = block_shape(matrix.type);
  return static_cast<std::size_t>(matrix.cols) / block.elements * block.bytes;
}

void check(const StoredMatrix& matrix) {
  const BlockShape block = block_shape(matrix.type);
  if (matrix.rows <= 0 || matrix.cols <= 0 ||
      static_cast<std::size_t>(matrix.cols) % block.elements != 0) {
    fail("load weight \"{}\": expected {} rows of whole blocks of {} values, got [{},{}]",
         matrix.name, name_of(matrix.type), block.elements, matrix.rows, matrix.cols);
  }
  if (matrix.cols > kMostInputs) {
    fail("load weight \"{}\": expected at most {} inputs, got {}", matrix.name, kMostInputs,
         matrix.cols);
  }
  const std::size_t expected = static_cast<std::size_t>(matrix.rows) * row_bytes(matrix);
  if (matrix.row_order.empty() && matrix.bytes.size() != expected) {
    fail("load weight \"{}\": expected {} bytes, got {}", matrix.name, expected,
         matrix.bytes.size());
  }
  expects(
      matrix.row_order.empty() || matrix.row_order.size() == static_cast<std::size_t>(matrix.rows),
      "a row order names every row");
}

std::span<const std::byte> stored_row(const StoredMatrix& matrix, int row) {
  const auto index =
      matrix.row_order.empty()
          ? static_cast<std::size_t>(row)
          : static_cast<std::size_t>(matrix.row_order[static_cast<std::size_t>(row)]);
  const std::size_t bytes = row_bytes(matrix);
  expects((index + 1) * bytes <= matrix.bytes.size(), "a row lies in the stored matrix");
  return matrix.bytes.subspan(index * bytes, bytes);
}

[[noreturn]] void fail_not_finite(const StoredMatrix& matrix, int row) {
  fail("load weight \"{}\": expected finite values, got infinity or NaN in row {}", matrix.name,
       row);
}

void dequantize_row(const StoredMatrix& matrix, int row, std::vector<float>& out) {
  out.resize(static_cast<std::size_t>(matrix.cols));
  dequantize(matrix.type, stored_row(matrix, row), out);
  for (const float value : out) {
    if (!std::isfinite(value)) fail_not_finite(matrix, row);
  }
}

bool finite_half(std::uint16_t half) { return (half & 0x7C00U) != 0x7C00U; }

void pack_blocks(const StoredMatrix& matrix, const BlockRecipe& recipe, int row,
                 const PackedWeight& weight) {
  const auto bytes = stored_row(matrix, row);
  const std::size_t block_bytes = block_shape(matrix.type).bytes;
  DecodedBlock decoded;
  for (std::size_t b = 0; b * block_bytes < bytes.size(); ++b) {
    recipe.decode(reinterpret_cast<const std::uint8_t*>(bytes.data()) + b * block_bytes, decoded);
    if (!finite_half(decoded.d) || !finite_half(decoded.dmin)) fail_not_finite(matrix, row);
    write_block(weight, row, static_cast<int>(b), decoded);
  }
}

/// Symmetric: scale = the largest magnitude / 127, rounded to f16.
void quantize_int8(std::span<const float> values, DecodedBlock& out) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  out.d = float_to_half(std::min(largest / 127.0F, 65504.0F));
  const float scale = half_to_float(out.d);
  std::fill_n(out.code, 32, std::uint8_t{128});
  for (std::size_t i = 0; i < values.size() && scale > 0; ++i) {
    const float code = std::clamp(std::nearbyint(values[i] / scale), -127.0F, 127.0F);
    out.code[i] = static_cast<std::uint8_t>(static_cast<int>(code) + 128);
  }
}

void quantize_int4(std::span<const float> values, DecodedBlock& out) {
  const NibbleGroup group = quantize_nibbles(values);
  out.d = group.scale;
  out.dmin = group.minimum;
  std::ranges::copy(group.code, out.code);
}

void pack_quantized(const StoredMatrix& matrix, int row, const PackedWeight& weight,
                    std::vector<float>& scratch) {
  dequantize_row(matrix, row, scratch);
  DecodedBlock decoded;
  for (std::size_t first = 0; first < scratch.size(); first += kInputGroup) {
    const auto values = std::span<const float>(scratch).subspan(
        first, std::min<std::size_t>(kInputGroup, scratch.size() - first));
    if (weight.kind == TileKind::byte) {
      quantize_int8(values, decoded);
    } else {
      quantize_int4(values, decoded);
    }
    write_block(weight, row, static_cast<int>(first) / kInputGroup, decoded);
  }
}

void pack_floats(const StoredMatrix& matrix, int row, const PackedWeight& weight,
                 std::vector<float>& scratch) {
  dequantize_row(matrix, row, scratch);
  write_floats(weight, row, 0, scratch);
}

/// Whether the stored f32 values are all bf16 values, so that the low halves need not be kept.
bool fits_bf16(const StoredMatrix& matrix) {
  for (std::size_t i = 0; i + 4 <= matrix.bytes.size(); i += 4) {
    std::uint16_t low;
    std::memcpy(&low, matrix.bytes.data() + i, 2);
    if (low != 0) return false;
  }
  return true;
}

struct Plan {
  TileKind kind;
  const char* layout;
  bool exact;
  const BlockRecipe* recipe = nullptr;  // null: through float32
};

Plan plan_as_stored(const StoredMatrix& matrix) {
  if (matrix.type == StorageType::mxfp4 && !fits_mxfp4_tiles(matrix.bytes)) {
    return {TileKind::bf16, "bf16", true};
  }
  if (const BlockRecipe* recipe = recipe_for(matrix.type)) {
    return {recipe->kind, recipe->layout, true, recipe};
  }
  if (matrix.type == StorageType::f16) return {TileKind::f16, "f16, float32 arithmetic", true};
  const bool bf16 = matrix.type == StorageType::bf16 || matrix.type == StorageType::nvfp4 ||
                    (matrix.type == StorageType::f32 && fits_bf16(matrix));
  if (bf16) return {TileKind::bf16, "bf16", true};
  return {TileKind::f32, "f32", true};
}

Plan plan_for(const StoredMatrix& matrix, WeightLayout layout) {
  const Plan stored = plan_as_stored(matrix);
  const StorageType type = matrix.type;
  switch (layout) {
    case WeightLayout::as_stored:
      return stored;
    case WeightLayout::int8:
      if (type == StorageType::q8_0) return stored;
      return {TileKind::byte, "8-bit groups of 32, f16 scale, rounded", false};
    case WeightLayout::int4:
      if (type == StorageType::q4_0 || type == StorageType::q4_1) return stored;
      return {TileKind::nibble_min, "4-bit groups of 32, f16 scale and minimum, rounded", false};
    case WeightLayout::bf16:
      if (stored.kind == TileKind::bf16) return stored;
      return {TileKind::bf16, "bf16, rounded", false};
    case WeightLayout::f32:
      return {TileKind::f32, "f32", true};
  }
  return stored;
}

}  // namespace

std::unique_ptr<PackedWeight> pack(const StoredMatrix& matrix, WeightLayout layout,
                                   HugeArena& arena, ThreadPool& pool) {
  check(matrix);
  const Plan plan = plan_for(matrix, layout);
  auto weight = std::make_unique<PackedWeight>();
  weight->rows = matrix.rows;
  weight->cols = matrix.cols;
  weight->kind = plan.kind;
  weight->layout = plan.layout;
  weight->exact = plan.exact;
  weight->table = plan.recipe ? plan.recipe->table : plain_table();
  weight->pre_scale = plan.recipe ? plan.recipe->pre_scale : 1.0F;
  const TileShape& shape = weight->shape();
  weight->units = (matrix.cols + shape.unit_inputs - 1) / shape.unit_inputs;
  weight->tile_bytes = static_cast<std::size_t>(weight->units) * unit_bytes(shape);
  weight->tiles = (matrix.rows + kLanes - 1) / kLanes;
  weight->bytes = static_cast<std::size_t>(weight->tiles) * weight->tile_bytes;
  weight->data = arena.allocate(weight->bytes);

  pool.run([&](int) {
    std::vector<float> scratch;
    for (std::size_t t; (t = pool.next(0)) < static_cast<std::size_t>(weight->tiles);) {
      const int first = static_cast<int>(t) * kLanes;
      for (int row = first; row < std::min(first + kLanes, matrix.rows); ++row) {
        if (plan.recipe) {
          pack_blocks(matrix, *plan.recipe, row, *weight);
        } else if (weight->is_float()) {
          pack_floats(matrix, row, *weight, scratch);
        } else {
          pack_quantized(matrix, row, *weight, scratch);
        }
      }
    }
  });
  return weight;
}

}  // namespace talon::cpu
