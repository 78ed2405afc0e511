#pragma once

#include "backend/cpu/kernels/loops_output.h"
#include "backend/cpu/kernels/loops_second.h"

// Weight tiles times rows, in terms of the lanes_*.h of one instruction set and of sum_products()
// in loops_products.h or products_avx2.h, which the including unit has included before.
namespace talon::cpu {
namespace {

/// Where the parts of a record of QuantizedRow lie, for a block of kRows rows.
template <int kRows>
struct Record {
  const std::byte* at;

  static constexpr int kScale = kRows * kInputGroup;
  const std::int8_t* codes() const { return reinterpret_cast<const std::int8_t*>(at); }
  float scale(int row) const { return reinterpret_cast<const float*>(at + kScale)[row]; }
  float sum(int row) const { return reinterpret_cast<const float*>(at + kScale + 4 * kRows)[row]; }
  const std::int32_t* zero() const {
    return reinterpret_cast<const std::int32_t*>(at + kScale + 8 * kRows);
  }
  void advance() { at += kRecordBytes * kRows; }
};

/// Where the parts of the sums of 16 inputs lie, for a block of kRows rows.
template <int kRows>
struct HalfSums {
  const std::byte* at;

  float sum(int half, int row) const {
    return reinterpret_cast<const float*>(at)[half * kRows + row];
  }
  const std::int32_t* zero(int half) const {
    return reinterpret_cast<const std::int32_t*>(at + 8 * kRows) + half * kRows;
  }
  void advance() { at += kHalfSumBytes * kRows; }
};

/// Group `g` of 32 inputs of a unit in kTiles tiles.
template <int kTiles>
struct TileGroup {
  Stream<kTiles> unit;
  int g;
  Floats d[kTiles];
  Floats dmin[kTiles];
};

/// Adds one group of inputs times all rows to `total`.
template <TileKind kKind, int kTiles, int kRows>
[[gnu::always_inline]] inline void add_group(const TileGroup<kTiles>& group, Table table,
                                             Record<kRows> record, HalfSums<kRows> half_sums,
                                             Floats (&total)[kTiles][kRows]) {
  using L = Layout<kKind>;
  const int codes = L::kScaleBytes + group.g * L::kGroupBytes;
#pragma GCC unroll 2
  for (int half = 0; half < L::kHalves; ++half) {
    const std::int32_t* zero = L::kHalves == 1 ? record.zero() : half_sums.zero(half);
    Ints sums[kTiles][kRows];
    sum_products<kKind>(sums, group.unit, codes, table, record.codes(), zero, half);
#pragma GCC unroll 4
    for (int t = 0; t < kTiles; ++t) {
      const auto scales = scales_of<L::kShape.super, L::kShape.minimum>(
          group.unit[t], group.g * L::kHalves + half, L::kGroups, group.d[t], group.dmin[t]);
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row) {
        Floats& sum = total[t][row];
        sum =
            fma(to_floats(sums[t][row]), multiply(scales.scale, broadcast(record.scale(row))), sum);
        if constexpr (L::kShape.minimum) {
          const float inputs = L::kHalves == 1 ? record.sum(row) : half_sums.sum(half, row);
          sum = fma(scales.minimum, broadcast(inputs), sum);
        }
      }
    }
  }
}

/// Adds kTiles consecutive tiles, from `tile` on, times all rows to `total`: of the first plane.
template <TileKind kKind, int kTiles, int kRows>
void multiply_tile(const MultiplyCall& call, const std::byte* tile,
                   Floats (&total)[kTiles][kRows]) {
  using L = Layout<kKind>;
  const Table table = load_table<L::kBiased>(call.table);
  Record<kRows> record{call.input};
  HalfSums<kRows> half_sums{call.sums16};
  TileGroup<kTiles> group{{tile, call.tile_bytes, call.prefetch}, 0, {}, {}};
  Stream<kTiles>& unit = group.unit;
  for (int u = 0; u < call.units; ++u) {
#pragma GCC unroll 4
    for (int t = 0; t < kTiles; ++t) {
      if constexpr (L::kShape.super) {
        group.d[t] = multiply(load_half(unit[t]), broadcast(call.pre_scale));
        if constexpr (L::kShape.minimum) group.dmin[t] = load_half(unit[t] + 2 * kLanes);
      }
#pragma GCC unroll 1
      for (int i = 0; i < L::kScaleBytes; i += 64) prefetch(unit[t] + i + unit.ahead);
    }
#pragma GCC unroll 1
    for (group.g = 0; group.g < L::kGroups32; ++group.g) {
      add_group<kKind>(group, table, record, half_sums, total);
      record.advance();
      if constexpr (L::kHalves == 2) half_sums.advance();
    }
    unit.at += L::kUnitBytes;
  }
}

template <TileKind kKind>
inline Floats load_weights(const std::byte* unit, int input) {
  if constexpr (kKind == TileKind::f32) {
    return load(reinterpret_cast<const float*>(unit) + kLanes * input);
  } else if constexpr (kKind == TileKind::f16) {
    return load_half(unit + 2 * kLanes * input);
  } else {
    return load_bf16(unit + 4 * kLanes * (input / 2), input % 2);
  }
}

/// Float weights: even and odd inputs are summed apart, so that the additions do not wait for each
/// other.
template <TileKind kKind, int kRows>
void multiply_float_tile(const MultiplyCall& call, const std::byte* tile, Floats (&total)[kRows]) {
  constexpr int kUnitBytes = kLanes * kLanes * kTileShapes[static_cast<int>(kKind)].bits / 8;
  Floats odd[kRows];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) odd[row] = zero_floats();
  const float* x = reinterpret_cast<const float*>(call.input);
  for (int u = 0; u < call.units; ++u) {
    for (int i = 0; i < kUnitBytes; i += 64) prefetch(tile + i + call.prefetch);
#pragma GCC unroll 8
    for (int i = 0; i < kLanes; i += 2) {
      const Floats first = load_weights<kKind>(tile, i);
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row)
        total[row] = fma(first, broadcast(x[row * kLanes + i]), total[row]);
      const Floats second = load_weights<kKind>(tile, i + 1);
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row)
        odd[row] = fma(second, broadcast(x[row * kLanes + i + 1]), odd[row]);
    }
    tile += kUnitBytes;
    x += kRows * kLanes;
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) total[row] = add(total[row], odd[row]);
}

/// Tiles [first, first + kTiles) of a call.
template <TileKind kKind, int kTiles, int kRows>
inline void multiply_some_tiles(const MultiplyCall& call, const FineGroups& fine, int first) {
  const std::byte* tile = call.tiles + static_cast<std::size_t>(first) * call.tile_bytes;
  Floats total[kTiles][kRows];
#pragma GCC unroll 4
  for (int t = 0; t < kTiles; ++t) {
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) total[t][row] = zero_floats();
    prefetch_rows<kRows>(call, (first + t) * kLanes);
  }
  if constexpr (kKind >= TileKind::f32) {
    static_assert(kTiles == 1);
    multiply_float_tile<kKind>(call, tile, total[0]);
  } else {
    multiply_tile<kKind>(call, tile, total);
  }
#pragma GCC unroll 4
  for (int t = 0; t < kTiles; ++t) {
    if constexpr (kKind < TileKind::f32) {
      if (call.second != nullptr) {
        Floats second[kRows];
        for (int row = 0; row < kRows; ++row) second[row] = zero_floats();
        if (fine.count > 0) {
          add_second_plane<kKind>(call, fine, tile + static_cast<std::size_t>(t) * call.tile_bytes,
                                  second);
        }
#pragma GCC unroll 16
        for (int row = 0; row < kRows; ++row) total[t][row] = add(total[t][row], second[row]);
      }
    }
    write_rows(call, (first + t) * kLanes, total[t]);
  }
}

template <TileKind kKind, int kRows>
void multiply_tiles(const MultiplyCall& call) {
  constexpr int kTiles = kKind >= TileKind::f32 ? 1 : tiles_at_once(kRows);
  FineGroups fine;
  if (kKind < TileKind::f32) fine.gather<kKind>(call, 0, kRows);
  int first = 0;
  for (; first + kTiles <= call.tile_count; first += kTiles) {
    multiply_some_tiles<kKind, kTiles, kRows>(call, fine, first);
  }
  for (; kTiles > 1 && first < call.tile_count; ++first) {
    multiply_some_tiles<kKind, 1, kRows>(call, fine, first);
  }
}

using MultiplyTiles = void (*)(const MultiplyCall&);

template <TileKind kKind, int kRows = kKind<TileKind::f32 ? kMaxRows : kMaxFloatRows> MultiplyTiles
                              tiles_for(int rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return tiles_for<kKind, kRows - 1>(rows);
  }
  return multiply_tiles<kKind, kRows>;
}

MultiplyTiles tiles_for(TileKind kind, int rows) {
  switch (kind) {
    case TileKind::nibble:
      return tiles_for<TileKind::nibble>(rows);
    case TileKind::nibble_min:
      return tiles_for<TileKind::nibble_min>(rows);
    case TileKind::nibble_super:
      return tiles_for<TileKind::nibble_super>(rows);
    case TileKind::nibble_super_min:
      return tiles_for<TileKind::nibble_super_min>(rows);
    case TileKind::nibble_super16:
      return tiles_for<TileKind::nibble_super16>(rows);
    case TileKind::nibble_super16_min:
      return tiles_for<TileKind::nibble_super16_min>(rows);
    case TileKind::byte:
      return tiles_for<TileKind::byte>(rows);
    case TileKind::byte_min:
      return tiles_for<TileKind::byte_min>(rows);
    case TileKind::byte_super_min:
      return tiles_for<TileKind::byte_super_min>(rows);
    case TileKind::byte_super16:
      return tiles_for<TileKind::byte_super16>(rows);
    case TileKind::f32:
      return tiles_for<TileKind::f32>(rows);
    case TileKind::f16:
      return tiles_for<TileKind::f16>(rows);
    case TileKind::bf16:
      return tiles_for<TileKind::bf16>(rows);
  }
  __builtin_unreachable();
}

constexpr int kWideRows = 7;

/// As few blocks as the registers allow, of sizes that differ by one at most.
int block_rows(int rows_left, bool float_weights) {
  const int most_floats = rows_left > kMaxFloatRows ? kUsualFloatRows : kMaxFloatRows;
  const int most = float_weights ? most_floats : kMaxRows;
  const int blocks = (rows_left + most - 1) / most;
  return (rows_left + blocks - 1) / blocks;
}

void multiply_call(const MultiplyCall& call) { tiles_for(call.kind, call.rows)(call); }

/// 32 values, zeros past `n`.
struct Group {
  Floats a, b;

  Group(const float* x, int n)
      : a(load_first(x, n > 0 ? n : 0)), b(load_first(x + kLanes, n > kLanes ? n - kLanes : 0)) {}
  float largest() const { return largest_size(a, b); }
};

/// Integers in [-127, 127] of one plane of a group.
struct Plane {
  Floats a, b;

  void store(std::int8_t* codes) const {
    store_int8(codes, round_to_ints(a));
    store_int8(codes + kLanes, round_to_ints(b));
  }
  // Sums of so few small integers are exact in floats.
  int sum_a() const { return static_cast<int>(sum_of(a)); }
  int sum_b() const { return static_cast<int>(sum_of(b)); }
};

/// Splits integers up to 32639 in size into 256 times what stays in `high`, and the rest.
inline Plane split_low(Plane& high) {
  const auto split = [](Floats& whole) {
    const Floats upper = round_to_integers(multiply(whole, broadcast(1.0F / 256.0F)));
    // Without -128 and 128: products of bytes must fit for every instruction set.
    const Floats rest = fma(upper, broadcast(-256.0F), whole);
    whole = upper;
    return larger(smaller(rest, broadcast(127.0F)), broadcast(-127.0F));
  };
  return {split(high.a), split(high.b)};
}

/// Quantises a group, whose place `out` names.
inline void quantize_group(const Group& group, float largest_value, bool fine,
                           const QuantizedRow& out) {
  const float steps = fine ? 32639.0F / 256.0F : 127.0F;
  // Values so small that their scale would lose bits count as zero, and all as NaN where one is not
  // finite.
  const bool usable = largest_value > 1e-30F && largest_value < __builtin_inff();
  const float scale = usable ? largest_value / steps : 0.0F * largest_value;
  const Floats inverse = broadcast(usable ? (fine ? 256.0F : 1.0F) * steps / largest_value : 0.0F);
  Plane high{round_to_integers(multiply(group.a, inverse)),
             round_to_integers(multiply(group.b, inverse))};
  if (!usable) high = {zero_floats(), zero_floats()};
  Plane low{zero_floats(), zero_floats()};
  if (fine) low = split_low(high);

  high.store(reinterpret_cast<std::int8_t*>(out.records) + out.row * kInputGroup);
  const int high_a = high.sum_a(), high_b = high.sum_b();
  const int low_a = fine ? low.sum_a() : 0, low_b = fine ? low.sum_b() : 0;
  const auto real_sum = [&](int high_sum, int low_sum) {
    return scale / 256.0F * static_cast<float>(256 * high_sum + low_sum);
  };
  auto* scales = reinterpret_cast<float*>(out.records + out.rows * kInputGroup);
  scales[out.row] = scale;
  scales[out.rows + out.row] = real_sum(high_a + high_b, low_a + low_b);
  reinterpret_cast<std::int32_t*>(scales)[2 * out.rows + out.row] = -128 * (high_a + high_b);
  if (out.second != nullptr) {
    low.store(reinterpret_cast<std::int8_t*>(out.second) + out.row * kInputGroup);
    auto* zeros = reinterpret_cast<std::int32_t*>(out.second + out.rows * kInputGroup) + out.row;
    zeros[0] = -128 * low_a;
    zeros[out.rows] = -128 * low_b;
    zeros[2 * out.rows] = fine ? 1 : 0;
  }
  if (out.sums16 == nullptr) return;
  auto* sums = reinterpret_cast<float*>(out.sums16) + out.row;
  sums[0] = real_sum(high_a, low_a);
  sums[out.rows] = real_sum(high_b, low_b);
  auto* zeros = reinterpret_cast<std::int32_t*>(sums);
  zeros[2 * out.rows] = -128 * high_a;
  zeros[3 * out.rows] = -128 * high_b;
}

/// REQUIRES: groups <= kLongestSegment / 32.
void quantize_row(const float* x, int cols, int groups, const QuantizedRow& out) {
  const auto group_at = [&](int g) {
    const int n = cols - g * kInputGroup;
    return Group(n > 0 ? x + g * kInputGroup : x, n);
  };
  float largest[kLongestSegment / kInputGroup];
  for (int g = 0; g < groups; ++g) largest[g] = group_at(g).largest();
  float limit = 0.0F;
  if (out.second != nullptr && out.fine_above > 0.0F) {
    for (int g = 0; g < groups; ++g) limit += largest[g];
    limit *= out.fine_above / static_cast<float>(groups);
  }
  QuantizedRow at = out;
  for (int g = 0; g < groups; ++g) {
    quantize_group(group_at(g), largest[g], out.second != nullptr && largest[g] > limit, at);
    at.records += kRecordBytes * out.rows;
    if (at.second != nullptr) at.second += kSecondBytes * out.rows;
    if (at.sums16 != nullptr) at.sums16 += kHalfSumBytes * out.rows;
  }
}

}  // namespace
}  // namespace talon::cpu
