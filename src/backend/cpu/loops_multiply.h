#pragma once

// Weight tiles times rows, in terms of the lanes_*.h of one instruction set, which the including
// unit has included before.
namespace talon::cpu {
namespace {

/// Where the parts of a record of QuantizedRow lie, for a block of kRows rows.
template <int kPlanes, int kRows>
struct Record {
  const std::byte* at;

  static constexpr int kScale = kPlanes * kRows * kInputGroup;
  static constexpr int kBytes = kScale + 12 * kRows;
  const std::int8_t* codes(int plane, int row) const {
    return reinterpret_cast<const std::int8_t*>(at) + (plane * kRows + row) * kInputGroup;
  }
  float scale(int row) const { return reinterpret_cast<const float*>(at + kScale)[row]; }
  const std::int32_t* zero(int row) const {
    return reinterpret_cast<const std::int32_t*>(at + kScale + 4 * kRows) + row;
  }
  float sum(int row) const { return reinterpret_cast<const float*>(at + kScale + 8 * kRows)[row]; }
};

/// The same for the sums of 16 inputs.
template <int kRows>
struct HalfSums {
  const std::byte* at;

  static constexpr int kBytes = 16 * kRows;
  const std::int32_t* zero(int half, int row) const {
    return reinterpret_cast<const std::int32_t*>(at) + half * kRows + row;
  }
  float sum(int half, int row) const {
    return reinterpret_cast<const float*>(at + 8 * kRows)[half * kRows + row];
  }
};

/// Adds dot products of one vector of codes (inputs 4j .. 4j + 3 of the group) to the sums of all
/// rows, for each plane.
template <bool kBiased, int kPlanes, int kRows>
inline void dot_rows(Ints (&sums)[kPlanes][kRows], Codes codes, Record<kPlanes, kRows> record,
                     int j) {
#pragma GCC unroll 2
  for (int plane = 0; plane < kPlanes; ++plane) {
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      sums[plane][row] = dot<kBiased>(sums[plane][row], codes, record.codes(plane, row) + 4 * j);
    }
  }
}

template <bool kBiased, int kPlanes, int kRows>
inline void start_rows(Ints (&sums)[kPlanes][kRows], const std::int32_t* zero) {
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
    sums[kPlanes - 1][row] = start_sum<kBiased>(zero + row);
    if constexpr (kPlanes == 2) sums[0][row] = zero_ints();
  }
}

template <int kPlanes, int kRows>
inline Floats joined(const Ints (&sums)[kPlanes][kRows], int row) {
  if constexpr (kPlanes == 1) {
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
template <int kBits, bool kBiased, int kTiles, int kPlanes, int kRows>
inline void multiply_group(Ints (&sums)[kTiles][kPlanes][kRows], Stream<kTiles> unit, int codes,
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
template <int kBits, bool kBiased, int kTiles, int kPlanes, int kRows>
inline void multiply_half(Ints (&sums)[kTiles][kPlanes][kRows], Stream<kTiles> unit, int codes,
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

/// Adds kTiles consecutive tiles, from `tile` on, times all rows to `total`.
template <TileKind kKind, int kPlanes, int kTiles, int kRows>
void multiply_tile(const MultiplyCall& call, const std::byte* tile,
                   Floats (&total)[kTiles][kRows]) {
  constexpr TileShape kShape = kTileShapes[static_cast<int>(kKind)];
  constexpr bool kBiased = !kShape.minimum;
  constexpr int kGroups32 = kShape.unit_inputs / kInputGroup;
  constexpr int kHalves = kInputGroup / kShape.group;
  constexpr int kGroups = kGroups32 * kHalves;
  constexpr int kScaleBytes = (kShape.super ? 64 + kLanes * kGroups : 64) +
                              (kShape.minimum ? (kShape.super ? kLanes * kGroups : 64) : 0);
  constexpr int kGroupBytes = kInputGroup * kLanes * kShape.bits / 8;

  const Table table = load_table<kBiased>(call.table);
  Record<kPlanes, kRows> record{call.input};
  HalfSums<kRows> half_sums{call.sums16};
  Stream<kTiles> unit{tile, call.tile_bytes, call.prefetch};
  for (int u = 0; u < call.units; ++u) {
    Floats d[kTiles]{}, dmin[kTiles]{};
#pragma GCC unroll 4
    for (int t = 0; t < kTiles; ++t) {
      if constexpr (kShape.super) {
        d[t] = multiply(load_half(unit[t]), broadcast(call.pre_scale));
        if constexpr (kShape.minimum) dmin[t] = load_half(unit[t] + 2 * kLanes);
      }
#pragma GCC unroll 1
      for (int i = 0; i < kScaleBytes; i += 64) prefetch(unit[t] + i + unit.ahead);
    }
    int codes = kScaleBytes;
#pragma GCC unroll 1
    for (int g = 0; g < kGroups32; ++g) {
#pragma GCC unroll 2
      for (int half = 0; half < kHalves; ++half) {
        Ints sums[kTiles][kPlanes][kRows];
        if constexpr (kHalves == 1) {
          for (auto& tile_sums : sums) start_rows<kBiased>(tile_sums, record.zero(0));
          multiply_group<kShape.bits, kBiased>(sums, unit, codes, table, record);
        } else {
          for (auto& tile_sums : sums) start_rows<kBiased>(tile_sums, half_sums.zero(half, 0));
          multiply_half<kShape.bits, kBiased>(sums, unit, codes, table, record, half);
        }
#pragma GCC unroll 4
        for (int t = 0; t < kTiles; ++t) {
          const auto scales = scales_of<kShape.super, kShape.minimum>(unit[t], g * kHalves + half,
                                                                      kGroups, d[t], dmin[t]);
#pragma GCC unroll 8
          for (int row = 0; row < kRows; ++row) {
            Floats& sum = total[t][row];
            sum = fma(joined(sums[t], row), multiply(scales.scale, broadcast(record.scale(row))),
                      sum);
            if constexpr (kShape.minimum) {
              const float inputs = kHalves == 1 ? record.sum(row) : half_sums.sum(half, row);
              sum = fma(scales.minimum, broadcast(inputs), sum);
            }
          }
        }
      }
      codes += kGroupBytes;
      record.at += Record<kPlanes, kRows>::kBytes;
      if constexpr (kHalves == 2) half_sums.at += HalfSums<kRows>::kBytes;
    }
    unit.at += kScaleBytes + kGroups32 * kGroupBytes;
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

/// Quantises 32 floats (zeros past `n`) into the record of one row.
inline void quantize_group(const float* x, int n, std::byte* record, std::byte* half_sums,
                           const QuantizedRow& out) {
  const Floats a = load_first(x, n > 0 ? n : 0);
  const Floats b = load_first(x + kLanes, n > kLanes ? n - kLanes : 0);
  const float largest_value = max_of(larger(absolute(a), absolute(b)));
  const float steps = out.planes == 1 ? 127.0F : 32639.0F;
  // Values so small that their scale would lose bits count as zero.
  const bool usable = largest_value > 1e-30F;
  const float scale = usable ? largest_value / steps : 0.0F;
  const Floats inverse = broadcast(usable ? steps / largest_value : 0.0F);
  Floats whole_a = round_to_integers(multiply(a, inverse));
  Floats whole_b = round_to_integers(multiply(b, inverse));

  auto* bytes = reinterpret_cast<std::int8_t*>(record) + out.row * kInputGroup;
  if (out.planes == 2) {
    const auto split = [](Floats& whole, std::int8_t* high_codes, std::int8_t* low_codes) {
      const Floats high = round_to_integers(multiply(whole, broadcast(1.0F / 256.0F)));
      // Without -128 and 128: products of bytes must fit for every instruction set.
      const Floats rest = fma(high, broadcast(-256.0F), whole);
      const Floats low = larger(smaller(rest, broadcast(127.0F)), broadcast(-127.0F));
      whole = fma(high, broadcast(256.0F), low);
      store_int8(high_codes, round_to_ints(high));
      store_int8(low_codes, round_to_ints(low));
    };
    std::int8_t* low = bytes + out.rows * kInputGroup;
    split(whole_a, bytes, low);
    split(whole_b, bytes + kLanes, low + kLanes);
  } else {
    store_int8(bytes, round_to_ints(whole_a));
    store_int8(bytes + kLanes, round_to_ints(whole_b));
  }
  const int sum_a = sum_of(round_to_ints(whole_a));
  const int sum_b = sum_of(round_to_ints(whole_b));
  std::byte* scales = record + out.planes * out.rows * kInputGroup;
  reinterpret_cast<float*>(scales)[out.row] = scale;
  reinterpret_cast<std::int32_t*>(scales)[out.rows + out.row] = -128 * (sum_a + sum_b);
  reinterpret_cast<float*>(scales)[2 * out.rows + out.row] =
      scale * static_cast<float>(sum_a + sum_b);
  if (half_sums == nullptr) return;
  auto* zeros = reinterpret_cast<std::int32_t*>(half_sums);
  auto* sums = reinterpret_cast<float*>(half_sums + 8 * out.rows);
  zeros[out.row] = -128 * sum_a;
  zeros[out.rows + out.row] = -128 * sum_b;
  sums[out.row] = scale * static_cast<float>(sum_a);
  sums[out.rows + out.row] = scale * static_cast<float>(sum_b);
}

void quantize_row(const float* x, int cols, int groups, const QuantizedRow& out) {
  const int record_bytes = out.rows * (out.planes * kInputGroup + 12);
  for (int g = 0; g < groups; ++g) {
    std::byte* half_sums = out.sums16 == nullptr ? nullptr : out.sums16 + g * 16 * out.rows;
    const int n = cols - g * kInputGroup;
    quantize_group(n > 0 ? x + g * kInputGroup : x, n, out.records + g * record_bytes, half_sums,
                   out);
  }
}

}  // namespace
}  // namespace talon::cpu
