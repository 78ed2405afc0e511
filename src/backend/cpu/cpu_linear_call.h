#pragma once

#include <algorithm>

#include "backend/cpu/cpu_linear.h"

// What linear() of one call and of several share.
namespace talon::cpu {

/// Of a piece when each weight is read once, by few rows and by more: a call of AMX kernels takes
/// half a microsecond before and after its work.
inline constexpr std::size_t kStreamBytes = std::size_t{16} << 10;
inline constexpr std::size_t kWideStreamBytes = std::size_t{64} << 10;
inline constexpr int kTilesAtOnce = 2;  // that kernels like to multiply side by side
inline constexpr std::size_t kPanelBytes =
    std::size_t{256} << 10;  // of a piece that stays in the cache for many rows

inline const PackedWeight& packed(const Projection& projection) {
  return static_cast<const PackedWeight&>(*projection.weight);
}

/// Throws Bug unless the shapes of `args` fit each other.
void check_linear(const LinearArgs& args);
/// In any unit: calls of the same work take equally long.
double work_of(const LinearArgs& args);

struct Linear::Forms {
  bool quantized = false;
  bool half_sums = false;  // sums of 16 inputs, for weights with groups of 16
  bool floats = false;
  bool rounded = false;  // to bf16, for weights of that type
};

struct Linear::Input {
  const Blocks* blocks = nullptr;        // of rows, for quantised weights
  const Blocks* float_blocks = nullptr;  // for float ones
  int rows = 0;
  int cols = 0;
  int groups = 0;       // of 32, padded
  int float_units = 0;  // of 16, padded
  std::byte* records = nullptr;
  std::byte* second = nullptr;
  std::byte* half_sums = nullptr;
  std::byte* floats = nullptr;
  std::byte* rounded = nullptr;

  std::span<const RowBlock> blocks_of(const PackedWeight& weight) const {
    return (weight.is_float() ? float_blocks : blocks)->list;
  }
};

/// Pieces of all projections, numbered in order.
struct Linear::Pieces {
  const LinearArgs& args;
  const Input& input;
  int wide_rows;  // of Kernels

  /// Each weight is read once, else by every block of rows.
  bool streams(const PackedWeight& weight) const { return input.blocks_of(weight).size() == 1; }
  int tiles_of(const PackedWeight& weight) const {
    if (!streams(weight))
      return std::clamp(static_cast<int>(kPanelBytes / weight.tile_bytes), 1, 4);
    const std::size_t bytes = args.input.rows < wide_rows ? kStreamBytes : kWideStreamBytes;
    const auto fitting = static_cast<int>(bytes / weight.tile_bytes);
    return std::max(fitting / kTilesAtOnce, 1) * kTilesAtOnce;
  }
  int count_of(const Projection& projection) const {
    const PackedWeight& weight = packed(projection);
    return (weight.tiles + tiles_of(weight) - 1) / tiles_of(weight);
  }
  int count() const {
    int pieces = 0;
    for (const Projection& projection : args.outputs) pieces += count_of(projection);
    return pieces;
  }
};

/// One of several calls, kept with its memory for the next ones.
struct Linear::Part {
  const LinearArgs* args = nullptr;
  Blocks blocks, float_blocks;
  Input input;
  int first_piece = 0;  // in the line of all calls' pieces
  Scratch memory;
};

}  // namespace talon::cpu
