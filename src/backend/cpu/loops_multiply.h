#pragma once

// Weight tiles times rows, in terms of the lanes_*.h of one instruction set, which the including
// unit has included before.
namespace talon::cpu {
namespace {

/// Where the parts of a record of QuantizedRow lie, for a block of kRows rows.
template <int kPlanes, int kRows>
struct Record {
  const std::byte* at;
  const std::byte* second;

  static constexpr int kScale = kRows * kInputGroup;
  static constexpr int kZero = kScale + 8 * kRows;
  static constexpr int kBytes = record_bytes(kPlanes) * kRows;
  const std::int8_t* codes(int plane, int row) const {
    return reinterpret_cast<const std::int8_t*>(plane == 0 ? at : second) + row * kInputGroup;
  }
  float scale(int row) const { return reinterpret_cast<const float*>(at + kScale)[row]; }
  float sum(int row) const { return reinterpret_cast<const float*>(at + kScale + 4 * kRows)[row]; }
  /// [planes][rows]
  const std::int32_t* zero() const { return reinterpret_cast<const std::int32_t*>(at + kZero); }
  void advance() {
    at += kBytes;
    if constexpr (kPlanes == 2) second += kRows * kInputGroup;
  }
  /// Whether a row uses the second plane here.
  bool is_fine() const { return kPlanes == 2 && any_set<kRows>(zero() + kPlanes * kRows); }
};

/// The same for the sums of 16 inputs.
template <int kPlanes, int kRows>
struct HalfSums {
  const std::byte* at;

  static constexpr int kBytes = half_sum_bytes(kPlanes) * kRows;
  float sum(int half, int row) const {
    return reinterpret_cast<const float*>(at)[half * kRows + row];
  }
  const std::int32_t* zero(int half) const {
    return reinterpret_cast<const std::int32_t*>(at + 8 * kRows) + half * kPlanes * kRows;
  }
};

/// Adds dot products of one vector of codes (inputs 4j .. 4j + 3 of the group) to the sums of all
/// rows, for each of the planes used.
template <bool kBiased, int kUsed, int kPlanes, int kRows>
inline void dot_rows(Ints (&sums)[kUsed][kRows], Codes codes, Record<kPlanes, kRows> record,
                     int j) {
#pragma GCC unroll 2
  for (int plane = 0; plane < kUsed; ++plane) {
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      sums[plane][row] = dot<kBiased>(sums[plane][row], codes, record.codes(plane, row) + 4 * j);
    }
  }
}

template <bool kBiased, int kUsed, int kRows>
inline void start_rows(Ints (&sums)[kUsed][kRows], const std::int32_t* zero) {
#pragma GCC unroll 2
  for (int plane = 0; plane < kUsed; ++plane) {
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      sums[plane][row] = start_sum<kBiased>(zero + plane * kRows + row);
    }
  }
}

template <int kUsed, int kRows>
inline Floats joined(const Ints (&sums)[kUsed][kRows], int row) {
  if constexpr (kUsed == 1) {
    return to_floats(sums[0][row]);
  } else {
    return to_floats(join_planes(sums[0][row], sums[1][row]));
  }
}

/// Consecutive tiles read side by side: `at` lies in the first, in the others at the same place.
template <int kTiles>
struct Stream {
  const std::byte* at;
  std::size_t tile_bytes;
  int ahead;  // of prefetches

  const std::byte* operator[](int tile) const {
    return at + static_cast<std::size_t>(tile) * tile_bytes;
  }
};

/// Codes of a group of 32 inputs, or of one half of it, times all rows. `codes`: offset in `unit`.
template <int kBits, bool kBiased, int kTiles, int kUsed, int kPlanes, int kRows>
inline void multiply_group(Ints (&sums)[kTiles][kUsed][kRows], Stream<kTiles> unit, int codes,
                           Table table, Record<kPlanes, kRows> record) {
#pragma GCC unroll 8
  for (int j = 0; j < (kBits == 4 ? 4 : 8); ++j) {
#pragma GCC unroll 4
    for (int tile = 0; tile < kTiles; ++tile) {
      const std::byte* vector = unit[tile] + codes + 64 * j;
      prefetch(vector + unit.ahead);
      if constexpr (kBits == 4) {
        dot_rows<kBiased>(sums[tile], load_low(vector, table), record, j);
        dot_rows<kBiased>(sums[tile], load_high(vector, table), record, j + 4);
      } else {
        dot_rows<kBiased>(sums[tile], load_bytes<kBiased>(vector), record, j);
      }
    }
  }
}
template <int kBits, bool kBiased, int kTiles, int kUsed, int kPlanes, int kRows>
inline void multiply_half(Ints (&sums)[kTiles][kUsed][kRows], Stream<kTiles> unit, int codes,
                          Table table, Record<kPlanes, kRows> record, int half) {
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 4
    for (int tile = 0; tile < kTiles; ++tile) {
      const std::byte* vector = unit[tile] + codes + 64 * (kBits == 4 ? j : 4 * half + j);
      if (kBits == 8 || half == 0) prefetch(vector + unit.ahead);
      if constexpr (kBits == 4) {
        dot_rows<kBiased>(sums[tile],
                          half == 0 ? load_low(vector, table) : load_high(vector, table), record,
                          4 * half + j);
      } else {
        dot_rows<kBiased>(sums[tile], load_bytes<kBiased>(vector), record, 4 * half + j);
      }
    }
  }
}

template <bool kMinimum>
struct Scales {
  Floats scale;
  Floats minimum;
};

/// Scales number `index` of a unit: per group of 32, or 16.
template <bool kSuper, bool kMinimum>
inline Scales<kMinimum> scales_of(const std::byte* unit, int index, int groups, Floats d,
                                  Floats dmin) {
  Scales<kMinimum> scales{};
  if constexpr (kSuper) {
    const std::byte* codes = unit + 64 + kLanes * index;
    scales.scale = multiply(d, load_int8(codes));
    if constexpr (kMinimum) {
      scales.minimum = multiply(dmin, load_int8(codes + kLanes * groups));
    }
  } else {
    scales.scale = load_half(unit + 2 * kLanes * index);
    if constexpr (kMinimum) scales.minimum = load_half(unit + 64 + 2 * kLanes * index);
  }
  return scales;
}

/// What follows from a kind of tiles of codes.
template <TileKind kKind>
struct Layout {
  static constexpr TileShape kShape = kTileShapes[static_cast<int>(kKind)];
  static constexpr bool kBiased = !kShape.minimum;
  static constexpr int kGroups32 = kShape.unit_inputs / kInputGroup;
  static constexpr int kHalves = kInputGroup / kShape.group;
  static constexpr int kGroups = kGroups32 * kHalves;
  static constexpr int kScaleBytes = (kShape.super ? 64 + kLanes * kGroups : 64) +
                                     (kShape.minimum ? (kShape.super ? kLanes * kGroups : 64) : 0);
  static constexpr int kGroupBytes = kInputGroup * kLanes * kShape.bits / 8;
};

/// Group `g` of 32 inputs of a unit in kTiles tiles.
template <int kTiles>
struct TileGroup {
  Stream<kTiles> unit;
  int g;
  Floats d[kTiles];
  Floats dmin[kTiles];
};

/// Adds one group of inputs times all rows to `total`, by the first kUsed planes.
template <TileKind kKind, int kUsed, int kTiles, int kPlanes, int kRows>
[[gnu::always_inline]] inline void add_group(const TileGroup<kTiles>& group, Table table,
                                             Record<kPlanes, kRows> record,
                                             HalfSums<kPlanes, kRows> half_sums,
                                             Floats (&total)[kTiles][kRows]) {
  using L = Layout<kKind>;
  const int codes = L::kScaleBytes + group.g * L::kGroupBytes;
#pragma GCC unroll 2
  for (int half = 0; half < L::kHalves; ++half) {
    Ints sums[kTiles][kUsed][kRows];
    if constexpr (L::kHalves == 1) {
      for (auto& tile_sums : sums) start_rows<L::kBiased>(tile_sums, record.zero());
      multiply_group<L::kShape.bits, L::kBiased>(sums, group.unit, codes, table, record);
    } else {
      for (auto& tile_sums : sums) start_rows<L::kBiased>(tile_sums, half_sums.zero(half));
      multiply_half<L::kShape.bits, L::kBiased>(sums, group.unit, codes, table, record, half);
    }
#pragma GCC unroll 4
    for (int t = 0; t < kTiles; ++t) {
      auto scales = scales_of<L::kShape.super, L::kShape.minimum>(
          group.unit[t], group.g * L::kHalves + half, L::kGroups, group.d[t], group.dmin[t]);
      if (kUsed == 2) scales.scale = multiply(scales.scale, broadcast(1.0F / 256.0F));
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        Floats& sum = total[t][row];
        sum = fma(joined(sums[t], row), multiply(scales.scale, broadcast(record.scale(row))), sum);
        if constexpr (L::kShape.minimum) {
          const float inputs = L::kHalves == 1 ? record.sum(row) : half_sums.sum(half, row);
          sum = fma(scales.minimum, broadcast(inputs), sum);
        }
      }
    }
  }
}

/// Adds kTiles consecutive tiles, from `tile` on, times all rows to `total`.
template <TileKind kKind, int kPlanes, int kTiles, int kRows>
void multiply_tile(const MultiplyCall& call, const std::byte* tile,
                   Floats (&total)[kTiles][kRows]) {
  using L = Layout<kKind>;
  const Table table = load_table<L::kBiased>(call.table);
  Record<kPlanes, kRows> record{call.input, call.second};
  HalfSums<kPlanes, kRows> half_sums{call.sums16};
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
      if (record.is_fine()) {
        add_group<kKind, kPlanes>(group, table, record, half_sums, total);
      } else {
        add_group<kKind, 1>(group, table, record, half_sums, total);
      }
      record.advance();
      if constexpr (L::kHalves == 2) half_sums.at += HalfSums<kPlanes, kRows>::kBytes;
    }
    unit.at += L::kScaleBytes + L::kGroups32 * L::kGroupBytes;
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
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) odd[row] = zero_floats();
  const float* x = reinterpret_cast<const float*>(call.input);
  for (int u = 0; u < call.units; ++u) {
    for (int i = 0; i < kUnitBytes; i += 64) prefetch(tile + i + call.prefetch);
#pragma GCC unroll 8
    for (int i = 0; i < kLanes; i += 2) {
      const Floats first = load_weights<kKind>(tile, i);
      const Floats second = load_weights<kKind>(tile, i + 1);
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        total[row] = fma(first, broadcast(x[row * kLanes + i]), total[row]);
        odd[row] = fma(second, broadcast(x[row * kLanes + i + 1]), odd[row]);
      }
    }
    tile += kUnitBytes;
    x += kRows * kLanes;
  }
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) total[row] = add(total[row], odd[row]);
}

/// Tiles [first, first + kTiles) of a call.
template <TileKind kKind, int kPlanes, int kTiles, int kRows>
inline void multiply_some_tiles(const MultiplyCall& call, int first) {
  const std::byte* tile = call.tiles + static_cast<std::size_t>(first) * call.tile_bytes;
  Floats total[kTiles][kRows];
#pragma GCC unroll 4
  for (int t = 0; t < kTiles; ++t) {
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      total[t][row] = zero_floats();
      prefetch_for_write(call.out + row * call.out_stride + (first + t) * kLanes);
    }
  }
  if constexpr (kKind >= TileKind::f32) {
    static_assert(kTiles == 1);
    multiply_float_tile<kKind>(call, tile, total[0]);
  } else {
    multiply_tile<kKind, kPlanes>(call, tile, total);
  }
#pragma GCC unroll 4
  for (int t = 0; t < kTiles; ++t) {
    const int output = (first + t) * kLanes;
    const int n = call.outputs - output;
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      float* out = call.out + row * call.out_stride + output;
      Floats y = total[t][row];
      if (call.bias != nullptr) y = add(y, load_first(call.bias + output, n));
      if (call.accumulate) y = add(load_first(out, n), y);
      store_first(out, y, n);
    }
  }
}

template <TileKind kKind, int kPlanes, int kRows>
void multiply_tiles(const MultiplyCall& call) {
  constexpr int kTiles = kKind >= TileKind::f32 ? 1 : tiles_at_once(kPlanes, kRows);
  int first = 0;
  for (; first + kTiles <= call.tile_count; first += kTiles) {
    multiply_some_tiles<kKind, kPlanes, kTiles, kRows>(call, first);
  }
  for (; kTiles > 1 && first < call.tile_count; ++first) {
    multiply_some_tiles<kKind, kPlanes, 1, kRows>(call, first);
  }
}

using MultiplyTiles = void (*)(const MultiplyCall&);

template <TileKind kKind, int kPlanes>
MultiplyTiles tiles_for(int rows) {
  if constexpr (kMaxRows >= 6) {
    if (rows == 8) return multiply_tiles<kKind, kPlanes, 8>;
    if (rows == 6) return multiply_tiles<kKind, kPlanes, 6>;
  }
  if constexpr (kMaxRows >= 2) {
    if (rows == 4) return multiply_tiles<kKind, kPlanes, 4>;
    if (rows == 3) return multiply_tiles<kKind, kPlanes, 3>;
    if (rows == 2) return multiply_tiles<kKind, kPlanes, 2>;
  }
  return multiply_tiles<kKind, kPlanes, 1>;
}

template <TileKind kKind>
MultiplyTiles tiles_for(int planes, int rows) {
  return planes == 1 ? tiles_for<kKind, 1>(rows) : tiles_for<kKind, 2>(rows);
}

MultiplyTiles tiles_for(TileKind kind, int planes, int rows) {
  switch (kind) {
    case TileKind::nibble:
      return tiles_for<TileKind::nibble>(planes, rows);
    case TileKind::nibble_min:
      return tiles_for<TileKind::nibble_min>(planes, rows);
    case TileKind::nibble_super:
      return tiles_for<TileKind::nibble_super>(planes, rows);
    case TileKind::nibble_super_min:
      return tiles_for<TileKind::nibble_super_min>(planes, rows);
    case TileKind::nibble_super16:
      return tiles_for<TileKind::nibble_super16>(planes, rows);
    case TileKind::nibble_super16_min:
      return tiles_for<TileKind::nibble_super16_min>(planes, rows);
    case TileKind::byte:
      return tiles_for<TileKind::byte>(planes, rows);
    case TileKind::byte_min:
      return tiles_for<TileKind::byte_min>(planes, rows);
    case TileKind::byte_super_min:
      return tiles_for<TileKind::byte_super_min>(planes, rows);
    case TileKind::byte_super16:
      return tiles_for<TileKind::byte_super16>(planes, rows);
    case TileKind::f32:
      return tiles_for<TileKind::f32, 1>(rows);
    case TileKind::f16:
      return tiles_for<TileKind::f16, 1>(rows);
    case TileKind::bf16:
      return tiles_for<TileKind::bf16, 1>(rows);
  }
  __builtin_unreachable();
}

int block_rows(int rows_left, bool) {
  constexpr int kSizes[] = {8, 6, 4, 3, 2};
  for (const int rows : kSizes) {
    if (rows <= kMaxRows && rows <= rows_left) return rows;
  }
  return 1;
}

void multiply_call(const MultiplyCall& call) { tiles_for(call.kind, call.planes, call.rows)(call); }

/// 32 values, zeros past `n`.
struct Group {
  Floats a, b;

  Group(const float* x, int n)
      : a(load_first(x, n > 0 ? n : 0)), b(load_first(x + kLanes, n > kLanes ? n - kLanes : 0)) {}
  float largest() const { return max_of(larger(absolute(a), absolute(b))); }
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
  int sum() const { return static_cast<int>(sum_of(add(a, b))); }
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
  // Values so small that their scale would lose bits count as zero.
  const bool usable = largest_value > 1e-30F;
  const float scale = usable ? largest_value / steps : 0.0F;
  const Floats inverse = broadcast(usable ? (fine ? 256.0F : 1.0F) * steps / largest_value : 0.0F);
  Plane high{round_to_integers(multiply(group.a, inverse)),
             round_to_integers(multiply(group.b, inverse))};
  Plane low{zero_floats(), zero_floats()};
  if (fine) low = split_low(high);

  const auto codes_at = [&](std::byte* plane) {
    return reinterpret_cast<std::int8_t*>(plane) + out.row * kInputGroup;
  };
  high.store(codes_at(out.records));
  if (out.planes == 2) low.store(codes_at(out.second));
  const auto real_sum = [&](int high_sum, int low_sum) {
    return scale / 256.0F * static_cast<float>(256 * high_sum + low_sum);
  };
  const int high_sum = high.sum();
  const int low_sum = fine ? low.sum() : 0;
  auto* scales = reinterpret_cast<float*>(out.records + out.rows * kInputGroup);
  scales[out.row] = scale;
  scales[out.rows + out.row] = real_sum(high_sum, low_sum);
  auto* zeros = reinterpret_cast<std::int32_t*>(scales + 2 * out.rows) + out.row;
  zeros[0] = -128 * high_sum;
  if (out.planes == 2) {
    zeros[out.rows] = -128 * low_sum;
    zeros[2 * out.rows] = fine ? 1 : 0;
  }
  if (out.sums16 == nullptr) return;
  const int high_a = high.sum_a(), high_b = high.sum_b();
  const int low_a = fine ? low.sum_a() : 0, low_b = fine ? low.sum_b() : 0;
  auto* sums = reinterpret_cast<float*>(out.sums16);
  sums[out.row] = real_sum(high_a, low_a);
  sums[out.rows + out.row] = real_sum(high_b, low_b);
  zeros = reinterpret_cast<std::int32_t*>(sums + 2 * out.rows) + out.row;
  zeros[0] = -128 * high_a;
  zeros[out.planes * out.rows] = -128 * high_b;
  if (out.planes == 2) {
    zeros[out.rows] = -128 * low_a;
    zeros[3 * out.rows] = -128 * low_b;
  }
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
  if (out.planes == 2 && out.fine_above > 0.0F) {
    for (int g = 0; g < groups; ++g) limit += largest[g];
    limit *= out.fine_above / static_cast<float>(groups);
  }
  QuantizedRow at = out;
  for (int g = 0; g < groups; ++g) {
    quantize_group(group_at(g), largest[g], out.planes == 2 && largest[g] > limit, at);
    at.records += record_bytes(out.planes) * out.rows;
    if (at.second != nullptr) at.second += kInputGroup * out.rows;
    if (at.sums16 != nullptr) at.sums16 += half_sum_bytes(out.planes) * out.rows;
  }
}

}  // namespace
}  // namespace talon::cpu
