#pragma once

#include "backend/cpu/kernels/loops_tile.h"

// The second plane of inputs that have one: of few groups and rows, and so a pass of its own.
namespace talon::cpu {
namespace {

/// The groups of inputs where some of up to 16 consecutive rows of a block use the second plane.
struct FineGroups {
  struct Group {
    std::uint16_t index;
    std::uint16_t rows;  // bit i: row first + i
  };
  int first = 0;
  int count = 0;
  Group list[kMostInputs / kInputGroup];

  FineGroups() {}  // the list stays as it is
  template <TileKind kKind>
  void gather(const MultiplyCall& call, int first_row, int row_count) {
    first = first_row;
    count = 0;
    if (call.second == nullptr) return;
    const int groups = call.units * Layout<kKind>::kGroups32;
    const auto* fine = reinterpret_cast<const std::int32_t*>(call.second) +
                       call.rows * (kInputGroup / 4 + 2) + first;
    for (int group = 0; group < groups; ++group, fine += call.rows * (kSecondBytes / 4)) {
      const unsigned rows = nonzero_lanes(fine, row_count);
      list[count] = {static_cast<std::uint16_t>(group), static_cast<std::uint16_t>(rows)};
      count += rows != 0 ? 1 : 0;
    }
  }
};

/// Adds the products of the second planes with one tile to `sums`, one for each row that `fine` is
/// about.
template <TileKind kKind>
[[gnu::noinline]] void add_second_plane(const MultiplyCall& call, const FineGroups& fine,
                                        const std::byte* tile, Floats* sums) {
  using L = Layout<kKind>;
  constexpr int kVectors = 8 / L::kHalves;
  const Table table = load_table<L::kBiased>(call.table);
  for (const FineGroups::Group* group = fine.list; group != fine.list + fine.count; ++group) {
    const std::byte* unit = tile + group->index / L::kGroups32 * L::kUnitBytes;
    const int in_unit = group->index % L::kGroups32;
    Codes codes[8];
    unpack<kKind>(unit + L::kScaleBytes + in_unit * L::kGroupBytes, table, codes);
    const auto rows = static_cast<std::ptrdiff_t>(call.rows);
    const std::byte* record = call.second + group->index * rows * kSecondBytes;
    const auto* scale = reinterpret_cast<const float*>(
        call.input + group->index * rows * kRecordBytes + rows * kInputGroup);
    const auto* zero = reinterpret_cast<const std::int32_t*>(record + rows * kInputGroup);
#pragma GCC unroll 2
    for (int half = 0; half < L::kHalves; ++half) {
      Floats d = zero_floats();
      if constexpr (L::kShape.super) d = multiply(load_half(unit), broadcast(call.pre_scale));
      const Floats weight_scale =
          scales_of<L::kShape.super, false>(unit, in_unit * L::kHalves + half, L::kGroups, d, d)
              .scale;
      for (unsigned left = group->rows; left != 0; left &= left - 1) {
        const int i = __builtin_ctz(left);
        const int row = fine.first + i;
        const auto* b = reinterpret_cast<const std::int8_t*>(record) + row * kInputGroup;
        const std::int32_t start =
            L::kHalves == 2 ? zero[half * rows + row] : zero[row] + zero[rows + row];
        Ints sum = start_sum<L::kBiased>(&start);
#pragma GCC unroll 8
        for (int j = half * kVectors; j < (half + 1) * kVectors; ++j) {
          sum = dot<L::kBiased>(sum, codes[j], b + 4 * j);
        }
        const Floats product = multiply(weight_scale, broadcast(scale[row] / 256.0F));
        sums[i] = fma(to_floats(sum), product, sums[i]);
      }
    }
  }
}

}  // namespace
}  // namespace talon::cpu
