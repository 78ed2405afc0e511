#include <immintrin.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes_avx512.h"

// For many rows: AMX tiles multiply 16 rows by 16 outputs and one group of inputs at a time; the
// exact integer sums are then combined with the scales like in loops_multiply.h, operation by
// operation. Everything else is avx512_kernels().
namespace talon::cpu {
namespace {

constexpr int kTileRows = 16;
constexpr int kMostRows = 64;
constexpr int kLeastRows = 12;  // fewer are done sooner by avx512_kernels()
constexpr int kChunk = 24;      // groups of 32 inputs handled between two visits of the totals
constexpr int kSteps = 2 * kChunk;

/// Working memory of one call: fits in the first-level cache.
struct alignas(64) Memory {
  std::uint8_t codes[kChunk][kInputGroup * kLanes];  // signed, as the tiles want them
  float scale[kSteps][kLanes];
  float minimum[kSteps][kLanes];
  std::int32_t sums[2][2][kTileRows][kLanes];  // [step % 2][plane]
  float row_scale[kSteps][kTileRows];          // zero past the last row
  float row_sum[kSteps][kTileRows];
  float total[kMostRows][kLanes];
};

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t column_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

/// The tile instructions take literal numbers only. Tiles 0 and 1: activations [rows][group], a
/// plane each; 2: codes [group / 4][16 outputs][4];
/// 4 to 7: sums [rows][16 outputs] of a plane, of even steps and of odd ones.
inline void configure_tiles(int group, int rows) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.rows[i] = static_cast<std::uint8_t>(i == 2 ? group / 4 : rows);
    config.column_bytes[i] = i < 2 ? static_cast<std::uint16_t>(group) : 64;
  }
  _tile_loadconfig(&config);
}

struct Geometry {
  TileShape shape;
  int groups32;     // of a unit
  int halves;       // scales per group of 32
  int scale_bytes;  // before the codes of a unit
  int group_bytes;  // codes of a group of 32
};

constexpr Geometry geometry_of(TileKind kind) {
  const TileShape shape = kTileShapes[static_cast<int>(kind)];
  Geometry g{};
  g.shape = shape;
  g.groups32 = shape.unit_inputs / kInputGroup;
  g.halves = kInputGroup / shape.group;
  const int scales = shape.super ? kLanes * g.groups32 * g.halves : 64;
  g.scale_bytes = (shape.super ? 64 : 0) + scales * (shape.minimum ? 2 : 1);
  g.group_bytes = kInputGroup * kLanes * shape.bits / 8;
  return g;
}

/// Codes of one group as signed bytes.
template <TileKind kKind>
inline void unpack_codes(const std::byte* codes, __m512i table, std::uint8_t* out) {
  constexpr Geometry kGeometry = geometry_of(kKind);
  const __m512i bias = _mm512_set1_epi8(kGeometry.shape.minimum ? 0 : -128);
  if constexpr (kGeometry.shape.bits == 4) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const __m512i pairs = _mm512_loadu_si512(codes + 64 * j);
      _mm512_store_si512(out + 64 * j, _mm512_permutexvar_epi8(pairs, table));
      _mm512_store_si512(out + 64 * (j + 4),
                         _mm512_permutexvar_epi8(_mm512_srli_epi16(pairs, 4), table));
    }
  } else {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      _mm512_store_si512(out + 64 * j, _mm512_xor_si512(_mm512_loadu_si512(codes + 64 * j), bias));
    }
  }
}

template <TileKind kKind>
inline void unpack_scales(const MultiplyCall& call, const std::byte* unit, int first, int count,
                          float (*scale)[kLanes], float (*minimum)[kLanes]) {
  constexpr Geometry kGeometry = geometry_of(kKind);
  constexpr int kGroups = kGeometry.groups32 * kGeometry.halves;
  Floats d{}, dmin{};
  if constexpr (kGeometry.shape.super) {
    d = multiply(load_half(unit), broadcast(call.pre_scale));
    if constexpr (kGeometry.shape.minimum) dmin = load_half(unit + 2 * kLanes);
  }
  for (int i = 0; i < count; ++i) {
    const int index = first + i;
    if constexpr (kGeometry.shape.super) {
      const std::byte* codes = unit + 64 + kLanes * index;
      store(scale[i], multiply(d, load_int8(codes)));
      if constexpr (kGeometry.shape.minimum) {
        store(minimum[i], multiply(dmin, load_int8(codes + kLanes * kGroups)));
      }
    } else {
      store(scale[i], load_half(unit + 2 * kLanes * index));
      if constexpr (kGeometry.shape.minimum) {
        store(minimum[i], load_half(unit + 64 + 2 * kLanes * index));
      }
    }
  }
}

struct Records {
  const std::byte* at;
  const std::byte* second;
  const std::byte* half_sums;
  int planes;
  int rows;

  int bytes() const { return rows * record_bytes(planes); }
  const float* scales(int group) const {
    return reinterpret_cast<const float*>(at + group * bytes() + rows * kInputGroup);
  }
  const float* sums(int group, int halves, int half) const {
    if (halves == 1) return scales(group) + rows;
    return reinterpret_cast<const float*>(half_sums + group * half_sum_bytes(planes) * rows) +
           half * rows;
  }
  /// Whether a row of [first, first + count) uses the second plane.
  bool is_fine(int group, int first, int count) const {
    const __m512i fine =
        _mm512_maskz_loadu_epi32(first_lanes(count), scales(group) + (2 + planes) * rows + first);
    return _mm512_test_epi32_mask(fine, fine) != 0;
  }
};

inline void prefetch_near(const std::byte* p) { _mm_prefetch(p, _MM_HINT_T0); }

/// Memory of the weights ahead, fetched bit by bit so that it is never idle nor flooded.
struct Ahead {
  const std::byte* next;
  int lines;  // per step

  void fetch() {
    for (int i = 0; i < lines; ++i, next += 64) prefetch(next);
  }
};

/// Rows [first, first + count) of a block, handled together as kRows >= count rows of the tiles.
struct RowTile {
  int first;
  int count;
};

/// Starts the products of one step: 16 outputs, the inputs that share a scale, all rows. A step's
/// sums are complete some 50 cycles later, while those of the step before are scaled. Returns
/// whether the second plane takes part, which it need not where it is zero.
template <int kHalves, int kPlanes, int kOdd>
inline bool start_step(const Records& records, RowTile rows, int step, const Memory& memory) {
  const int group = step / kHalves;
  const int half = step % kHalves;
  const std::byte* a = records.at + group * records.bytes() + rows.first * kInputGroup + half * 16;
  for (int i = 0; half == 0 && i < kTileRows * kInputGroup; i += 64) {
    prefetch_near(a + 2 * records.bytes() + i);
  }
  _tile_loadd(2, memory.codes[group] + half * 4 * 64, 64);
  _tile_loadd(0, a, kInputGroup);
  if constexpr (kOdd == 0) {
    _tile_zero(4);
    _tile_dpbssd(4, 0, 2);
  } else {
    _tile_zero(6);
    _tile_dpbssd(6, 0, 2);
  }
  if constexpr (kPlanes == 2) {
    if (!records.is_fine(group, rows.first, rows.count)) return false;
    const std::byte* second = records.second + group * records.rows * kInputGroup;
    _tile_loadd(1, second + rows.first * kInputGroup + half * 16, kInputGroup);
    if constexpr (kOdd == 0) {
      _tile_zero(5);
      _tile_dpbssd(5, 1, 2);
    } else {
      _tile_zero(7);
      _tile_dpbssd(7, 1, 2);
    }
    return true;
  }
  return false;
}

template <int kOdd>
inline void store_sums(Memory& memory, bool both) {
  if constexpr (kOdd == 0) {
    _tile_stored(4, memory.sums[0][0], 64);
    if (both) _tile_stored(5, memory.sums[0][1], 64);
  } else {
    _tile_stored(6, memory.sums[1][0], 64);
    if (both) _tile_stored(7, memory.sums[1][1], 64);
  }
}

template <bool kMinimum, int kHalves>
inline void gather_row_scales(const Records& records, RowTile rows, int steps, Memory& memory) {
  for (int step = 0; step < steps; ++step) {
    const int group = step / kHalves;
    store(memory.row_scale[step], load_first(records.scales(group) + rows.first, rows.count));
    if constexpr (kMinimum) {
      const float* sums = records.sums(group, kHalves, step % kHalves);
      store(memory.row_sum[step], load_first(sums + rows.first, rows.count));
    }
  }
}

/// Adds a step's sums times scales to the totals. kBoth: of two planes.
template <bool kMinimum, bool kBoth, int kOdd, int kRows>
[[gnu::always_inline]] inline void scale_step(const Memory& memory, int step,
                                              Floats (&total)[kRows]) {
  const float* row_scale = memory.row_scale[step];
  const float* row_sum = memory.row_sum[step];
  Floats scale = load(memory.scale[step]);
  if constexpr (kBoth) scale = multiply(scale, broadcast(1.0F / 256.0F));
  Floats minimum{};
  if constexpr (kMinimum) minimum = load(memory.minimum[step]);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    Ints sum{_mm512_load_si512(memory.sums[kOdd][0][i])};
    if constexpr (kBoth) sum = join_planes(sum, {_mm512_load_si512(memory.sums[kOdd][1][i])});
    total[i] = fma(to_floats(sum), multiply(scale, broadcast(row_scale[i])), total[i]);
    if constexpr (kMinimum) total[i] = fma(minimum, broadcast(row_sum[i]), total[i]);
  }
}

template <bool kMinimum, int kPlanes, int kOdd, int kRows>
[[gnu::always_inline]] inline void scale_step(const Memory& memory, int step, bool both,
                                              Floats (&total)[kRows]) {
  if (kPlanes == 2 && both) {
    scale_step<kMinimum, true, kOdd>(memory, step, total);
  } else {
    scale_step<kMinimum, false, kOdd>(memory, step, total);
  }
}

/// Multiplies a chunk of `groups` (an even number) by the rows of one tile.
template <bool kMinimum, int kHalves, int kPlanes, int kRows>
void multiply_rows(const Records& records, RowTile rows, int groups, Ahead ahead, Memory& memory) {
  Floats total[kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) total[i] = load(memory.total[rows.first + i]);
  const int steps = groups * kHalves;
  gather_row_scales<kMinimum, kHalves>(records, rows, steps, memory);
  bool even = start_step<kHalves, kPlanes, 0>(records, rows, 0, memory);  // whether both planes
  bool odd = false;
  for (int step = 0; step < steps; step += 2) {
    const bool odd_before = odd;
    odd = start_step<kHalves, kPlanes, 1>(records, rows, step + 1, memory);
    store_sums<0>(memory, even);
    ahead.fetch();
    if (step > 0) {
      scale_step<kMinimum, kPlanes, 1>(memory, step - 1, odd_before, total);
    }
    const bool even_before = even;
    if (step + 2 < steps) even = start_step<kHalves, kPlanes, 0>(records, rows, step + 2, memory);
    store_sums<1>(memory, odd);
    ahead.fetch();
    scale_step<kMinimum, kPlanes, 0>(memory, step, even_before, total);
  }
  scale_step<kMinimum, kPlanes, 1>(memory, steps - 1, odd, total);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) store(memory.total[rows.first + i], total[i]);
}

template <bool kMinimum, int kHalves, int kPlanes>
inline void multiply_rows(int tile_rows, const Records& records, RowTile rows, int groups,
                          Ahead ahead, Memory& memory) {
  if (tile_rows == 16) {
    multiply_rows<kMinimum, kHalves, kPlanes, 16>(records, rows, groups, ahead, memory);
  } else if (tile_rows == 12) {
    multiply_rows<kMinimum, kHalves, kPlanes, 12>(records, rows, groups, ahead, memory);
  } else if (tile_rows == 8) {
    multiply_rows<kMinimum, kHalves, kPlanes, 8>(records, rows, groups, ahead, memory);
  } else {
    multiply_rows<kMinimum, kHalves, kPlanes, 4>(records, rows, groups, ahead, memory);
  }
}

/// Rows of one tile: as even a division of a block as steps of 4 allow.
int tile_rows_of(int rows) {
  const int tiles = (rows + kTileRows - 1) / kTileRows;
  return ((rows + tiles - 1) / tiles + 3) / 4 * 4;
}

template <TileKind kKind, int kPlanes>
void multiply_tile(const MultiplyCall& call, const std::byte* tile, __m512i table, int tile_rows,
                   const float* out, Memory& memory) {
  constexpr Geometry kGeometry = geometry_of(kKind);
  constexpr int kHalves = kGeometry.halves;
  constexpr int kUnitBytes = kGeometry.scale_bytes + kGeometry.groups32 * kGeometry.group_bytes;
  constexpr int kUnitSteps = kGeometry.groups32 * kHalves;
  constexpr int kChunkUnits = kChunk / kGeometry.groups32;
  for (auto& total : memory.total) store(total, zero_floats());
  Records records{call.input, call.second, call.sums16, kPlanes, call.rows};
  for (int first = 0; first < call.units; first += kChunkUnits) {
    const int units = call.units - first < kChunkUnits ? call.units - first : kChunkUnits;
    const int groups = units * kGeometry.groups32;
    const std::byte* unit = tile + first * kUnitBytes;
    Ahead ahead{unit + call.prefetch, (kUnitBytes + 64 * kUnitSteps - 1) / (64 * kUnitSteps)};
    for (int u = 0; u < units; ++u, unit += kUnitBytes) {
      unpack_scales<kKind>(call, unit, 0, kUnitSteps, memory.scale + u * kUnitSteps,
                           memory.minimum + u * kUnitSteps);
      for (int g = 0; g < kGeometry.groups32; ++g) {
        unpack_codes<kKind>(unit + kGeometry.scale_bytes + g * kGeometry.group_bytes, table,
                            memory.codes[u * kGeometry.groups32 + g]);
      }
    }
    for (int row = 0; row < call.rows; row += tile_rows) {
      if (row > 0 || call.prefetch == 0) ahead.lines = 0;
      const int count = call.rows - row < tile_rows ? call.rows - row : tile_rows;
      for (int i = row; first + units == call.units && i < row + count; ++i) {
        prefetch_for_write(out + i * call.out_stride);
      }
      multiply_rows<kGeometry.shape.minimum, kHalves, kPlanes>(tile_rows, records, {row, count},
                                                               groups, ahead, memory);
    }
    records.at += groups * records.bytes();
    if (kPlanes == 2) records.second += groups * call.rows * kInputGroup;
    if (kHalves == 2) records.half_sums += groups * half_sum_bytes(kPlanes) * call.rows;
  }
}

template <TileKind kKind, int kPlanes>
void multiply_all(const MultiplyCall& call) {
  constexpr Geometry kGeometry = geometry_of(kKind);
  Memory memory;
  const __m512i bias = _mm512_set1_epi8(kGeometry.shape.minimum ? 0 : -128);
  const __m512i table = _mm512_xor_si512(load_table<true>(call.table).v, bias);
  const int tile_rows = tile_rows_of(call.rows);
  configure_tiles(kGeometry.shape.group, tile_rows);
  const std::byte* tile = call.tiles;
  for (int t = 0; t < call.tile_count; ++t, tile += call.tile_bytes) {
    const int first = t * kLanes;
    const int n = call.outputs - first;
    multiply_tile<kKind, kPlanes>(call, tile, table, tile_rows, call.out + first, memory);
    for (int row = 0; row < call.rows; ++row) {
      float* out = call.out + row * call.out_stride + first;
      Floats y = load(memory.total[row]);
      if (call.bias != nullptr) y = add(y, load_first(call.bias + first, n));
      if (call.accumulate) y = add(load_first(out, n), y);
      store_first(out, y, n);
    }
  }
  _tile_release();
}

template <TileKind kKind>
void multiply_all(const MultiplyCall& call) {
  return call.planes == 1 ? multiply_all<kKind, 1>(call) : multiply_all<kKind, 2>(call);
}

void multiply_call(const MultiplyCall& call) {
  if (call.rows < kLeastRows) return avx512_kernels().multiply(call);
  switch (call.kind) {
    case TileKind::nibble:
      return multiply_all<TileKind::nibble>(call);
    case TileKind::nibble_min:
      return multiply_all<TileKind::nibble_min>(call);
    case TileKind::nibble_super:
      return multiply_all<TileKind::nibble_super>(call);
    case TileKind::nibble_super_min:
      return multiply_all<TileKind::nibble_super_min>(call);
    case TileKind::nibble_super16:
      return multiply_all<TileKind::nibble_super16>(call);
    case TileKind::nibble_super16_min:
      return multiply_all<TileKind::nibble_super16_min>(call);
    case TileKind::byte:
      return multiply_all<TileKind::byte>(call);
    case TileKind::byte_min:
      return multiply_all<TileKind::byte_min>(call);
    case TileKind::byte_super_min:
      return multiply_all<TileKind::byte_super_min>(call);
    case TileKind::byte_super16:
      return multiply_all<TileKind::byte_super16>(call);
    case TileKind::f32:
    case TileKind::f16:
    case TileKind::bf16:
      return avx512_kernels().multiply(call);
  }
}

int block_rows(int rows_left, bool float_weights) {
  if (float_weights || rows_left < kLeastRows) {
    return avx512_kernels().block_rows(rows_left, float_weights);
  }
  return rows_left < kMostRows ? rows_left : kMostRows;
}

Kernels make_table() {
  Kernels table = avx512_kernels();
  table.name = "amx_int8 and avx512_vnni";
  table.block_rows = block_rows;
  table.multiply = multiply_call;
  return table;
}

}  // namespace

const Kernels& amx_kernels() {
  static const Kernels kTable = make_table();
  return kTable;
}

}  // namespace talon::cpu
