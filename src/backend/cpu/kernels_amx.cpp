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
/// Weight tiles times groups that share a scale, between two visits of the totals: more would not
/// fit in the first-level cache.
constexpr int kSlots = 16;
constexpr int kMostTiles = 2;  // multiplied by the same inputs

/// Working memory of one call: what is used of it at a time fits in the first-level cache. Slot
/// tile * (steps of a chunk) + step belongs to a step of a tile.
struct alignas(64) Memory {
  std::uint8_t codes[kSlots][kInputGroup * kLanes];  // signed, as the tiles want them
  float scale[kSlots][kLanes];
  float minimum[kSlots][kLanes];
  std::int32_t sums[kSlots][kTileRows][kLanes];
  float row_scale[kSlots][kTileRows];  // of a step, zero past the last row
  float row_sum[kSlots][kTileRows];
  float total[kMostTiles][kMostRows][kLanes];
  std::int32_t second_sums[kSlots][kTileRows][kLanes];  // where the second plane counts
};

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t column_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

/// The tile instructions take literal numbers only. Tiles 0 and 1: activations [rows][group], a
/// plane each; 2 and 3: codes [group / 4][16 outputs][4] of two tiles of weights; 4 and 5: their
/// sums [rows][16 outputs] of the first plane, 6 and 7: of the second.
inline void configure_tiles(int group, int rows) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.rows[i] = static_cast<std::uint8_t>(i == 2 || i == 3 ? group / 4 : rows);
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
  int unit_bytes;
  int unit_steps;
  int chunk_steps;  // at most, of each tile
  int tiles;        // at once
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
  g.unit_bytes = g.scale_bytes + g.groups32 * g.group_bytes;
  g.unit_steps = g.groups32 * g.halves;
  g.chunk_steps = g.unit_steps > kSlots / kMostTiles ? kSlots : kSlots / kMostTiles;
  g.tiles = kSlots / g.chunk_steps;
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
inline void unpack_scales(const MultiplyCall& call, const std::byte* unit, float (*scale)[kLanes],
                          float (*minimum)[kLanes]) {
  constexpr Geometry kGeometry = geometry_of(kKind);
  Floats d{}, dmin{};
  if constexpr (kGeometry.shape.super) {
    d = multiply(load_half(unit), broadcast(call.pre_scale));
    if constexpr (kGeometry.shape.minimum) dmin = load_half(unit + 2 * kLanes);
  }
  for (int i = 0; i < kGeometry.unit_steps; ++i) {
    if constexpr (kGeometry.shape.super) {
      const std::byte* codes = unit + 64 + kLanes * i;
      store(scale[i], multiply(d, load_int8(codes)));
      if constexpr (kGeometry.shape.minimum) {
        store(minimum[i], multiply(dmin, load_int8(codes + kLanes * kGeometry.unit_steps)));
      }
    } else {
      store(scale[i], load_half(unit + 2 * kLanes * i));
      if constexpr (kGeometry.shape.minimum) {
        store(minimum[i], load_half(unit + 64 + 2 * kLanes * i));
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

/// The integer sums of one step: kCount times 16 outputs, the inputs that share a scale, all rows.
/// `fine`: the second plane counts.
template <const Geometry& kGeometry, int kPlanes, int kCount>
inline void multiply_step(const Records& records, RowTile rows, int step, bool fine,
                          Memory& memory) {
  constexpr int kHalves = kGeometry.halves;
  constexpr int kSecond = kGeometry.chunk_steps;  // slot of the second tile's first step
  const int group = step / kHalves;
  const int half = step % kHalves;
  const int codes = half * 4 * 64;
  const std::byte* a = records.at + group * records.bytes() + rows.first * kInputGroup + half * 16;
  for (int i = 0; half == 0 && i < kTileRows * kInputGroup; i += 64) {
    prefetch_near(a + 2 * records.bytes() + i);
  }
  _tile_loadd(0, a, kInputGroup);
  _tile_loadd(2, memory.codes[group] + codes, 64);
  _tile_zero(4);
  _tile_dpbssd(4, 0, 2);
  if constexpr (kCount == 2) {
    _tile_loadd(3, memory.codes[kSecond + group] + codes, 64);
    _tile_zero(5);
    _tile_dpbssd(5, 0, 3);
  }
  if (kPlanes == 2 && fine) {
    const std::byte* second = records.second + group * records.rows * kInputGroup;
    _tile_loadd(1, second + rows.first * kInputGroup + half * 16, kInputGroup);
    _tile_zero(6);
    _tile_dpbssd(6, 1, 2);
    if constexpr (kCount == 2) {
      _tile_zero(7);
      _tile_dpbssd(7, 1, 3);
    }
    _tile_stored(6, memory.second_sums[step], 64);
    if constexpr (kCount == 2) _tile_stored(7, memory.second_sums[kSecond + step], 64);
  }
  _tile_stored(4, memory.sums[step], 64);
  if constexpr (kCount == 2) _tile_stored(5, memory.sums[kSecond + step], 64);
}

template <const Geometry& kGeometry>
inline void gather_row_scales(const Records& records, RowTile rows, int steps, Memory& memory) {
  constexpr int kHalves = kGeometry.halves;
  for (int step = 0; step < steps; ++step) {
    const int group = step / kHalves;
    store(memory.row_scale[step], load_first(records.scales(group) + rows.first, rows.count));
    if constexpr (kGeometry.shape.minimum) {
      const float* sums = records.sums(group, kHalves, step % kHalves);
      store(memory.row_sum[step], load_first(sums + rows.first, rows.count));
    }
  }
}

/// Adds the sums of a step of a tile (which have a slot) times scales to the totals. kFine: of two
/// planes.
template <bool kMinimum, bool kFine, int kRows>
[[gnu::always_inline]] inline void scale_step(const Memory& memory, int step, int slot,
                                              Floats (&total)[kRows]) {
  const float* row_scale = memory.row_scale[step];
  const float* row_sum = memory.row_sum[step];
  Floats scale = load(memory.scale[slot]);
  if constexpr (kFine) scale = multiply(scale, broadcast(1.0F / 256.0F));
  Floats minimum{};
  if constexpr (kMinimum) minimum = load(memory.minimum[slot]);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    Ints sum{_mm512_load_si512(memory.sums[slot][i])};
    if constexpr (kFine) sum = join_planes(sum, {_mm512_load_si512(memory.second_sums[slot][i])});
    total[i] = fma(to_floats(sum), multiply(scale, broadcast(row_scale[i])), total[i]);
    if constexpr (kMinimum) total[i] = fma(minimum, broadcast(row_sum[i]), total[i]);
  }
}

/// The steps, as bits, in which a row of the tile uses the second plane.
inline unsigned fine_steps(const Records& records, RowTile rows, int steps, int halves) {
  unsigned fine = 0;
  for (int step = 0; step < steps; ++step) {
    fine |= static_cast<unsigned>(records.is_fine(step / halves, rows.first, rows.count)) << step;
  }
  return fine;
}

/// Multiplies a chunk of steps by the rows of one tile: first all integer sums, then their
/// scaling, because beside tile instructions the processor has one float unit, not two.
template <const Geometry& kGeometry, int kPlanes, int kCount, int kRows>
void multiply_rows(const Records& records, RowTile rows, int steps, Ahead ahead, Memory& memory) {
  constexpr bool kMinimum = kGeometry.shape.minimum;
  const unsigned fine = kPlanes == 2 ? fine_steps(records, rows, steps, kGeometry.halves) : 0;
  const auto is_fine = [fine](int step) { return (fine >> step & 1) != 0; };
  for (int step = 0; step < steps; ++step) {
    multiply_step<kGeometry, kPlanes, kCount>(records, rows, step, is_fine(step), memory);
    ahead.fetch();
  }
  gather_row_scales<kGeometry>(records, rows, steps, memory);
  for (int tile = 0; tile < kCount; ++tile) {
    Floats total[kRows];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) total[i] = load(memory.total[tile][rows.first + i]);
    for (int step = 0; step < steps; ++step) {
      const int slot = tile * kGeometry.chunk_steps + step;
      if (kPlanes == 2 && is_fine(step)) {
        scale_step<kMinimum, true>(memory, step, slot, total);
      } else {
        scale_step<kMinimum, false>(memory, step, slot, total);
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) store(memory.total[tile][rows.first + i], total[i]);
  }
}

template <const Geometry& kGeometry, int kPlanes, int kCount>
inline void multiply_rows(int tile_rows, const Records& records, RowTile rows, int steps,
                          Ahead ahead, Memory& memory) {
  if (tile_rows == 16) {
    multiply_rows<kGeometry, kPlanes, kCount, 16>(records, rows, steps, ahead, memory);
  } else {
    multiply_rows<kGeometry, kPlanes, kCount, 12>(records, rows, steps, ahead, memory);
  }
}

/// Rows of one tile, 12 or 16 as kLeastRows is 12: as even a division of a block as they allow.
int tile_rows_of(int rows) {
  const int tiles = (rows + kTileRows - 1) / kTileRows;
  return (rows + tiles - 1) / tiles > 12 ? kTileRows : 12;
}

template <TileKind kKind>
inline constexpr Geometry kGeometryOf = geometry_of(kKind);

/// Unpacks units of kCount tiles into the slots.
template <TileKind kKind, int kCount>
inline void unpack_chunk(const MultiplyCall& call, const std::byte* units, int count, __m512i table,
                         Memory& memory) {
  constexpr Geometry kGeometry = geometry_of(kKind);
  for (int tile = 0; tile < kCount; ++tile) {
    const std::byte* unit = units + tile * call.tile_bytes;
    for (int u = 0; u < count; ++u, unit += kGeometry.unit_bytes) {
      const int slot = tile * kGeometry.chunk_steps + u * kGeometry.unit_steps;
      unpack_scales<kKind>(call, unit, memory.scale + slot, memory.minimum + slot);
      for (int g = 0; g < kGeometry.groups32; ++g) {
        const int group = tile * kGeometry.chunk_steps + u * kGeometry.groups32 + g;
        unpack_codes<kKind>(unit + kGeometry.scale_bytes + g * kGeometry.group_bytes, table,
                            memory.codes[group]);
      }
    }
  }
}

/// kCount tiles of weights, all rows: the results are memory.total then.
template <TileKind kKind, int kPlanes, int kCount>
void multiply_tiles(const MultiplyCall& call, const std::byte* tiles, __m512i table, int tile_rows,
                    const float* out, Memory& memory) {
  constexpr const Geometry& kGeometry = kGeometryOf<kKind>;
  constexpr int kMostUnits = kGeometry.chunk_steps / kGeometry.unit_steps;
  constexpr int kUnitLines = (kGeometry.unit_bytes + 63) / 64;
  const int chunks = (call.units + kMostUnits - 1) / kMostUnits;
  const int chunk_units = (call.units + chunks - 1) / chunks;
  for (int tile = 0; tile < kCount; ++tile) {
    for (auto& total : memory.total[tile]) store(total, zero_floats());
  }
  Records records{call.input, call.second, call.sums16, kPlanes, call.rows};
  for (int first = 0; first < call.units; first += chunk_units) {
    const int units = call.units - first < chunk_units ? call.units - first : chunk_units;
    const int groups = units * kGeometry.groups32;
    const int steps = units * kGeometry.unit_steps;
    unpack_chunk<kKind, kCount>(call, tiles + first * kGeometry.unit_bytes, units, table, memory);
    Ahead ahead{tiles + kCount * first * kGeometry.unit_bytes + call.prefetch,
                (kCount * kUnitLines + kGeometry.unit_steps - 1) / kGeometry.unit_steps};
    for (int row = 0; row < call.rows; row += tile_rows) {
      if (row > 0 || call.prefetch == 0) ahead.lines = 0;
      const int count = call.rows - row < tile_rows ? call.rows - row : tile_rows;
      for (int i = row; first + units == call.units && i < row + count; ++i) {
        prefetch_for_write(out + i * call.out_stride);
      }
      multiply_rows<kGeometry, kPlanes, kCount>(tile_rows, records, {row, count}, steps, ahead,
                                                memory);
    }
    records.at += groups * records.bytes();
    if (kPlanes == 2) records.second += groups * call.rows * kInputGroup;
    if (kGeometry.halves == 2) records.half_sums += groups * half_sum_bytes(kPlanes) * call.rows;
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
  for (int t = 0; t < call.tile_count; t += kGeometry.tiles) {
    const std::byte* tiles = call.tiles + t * call.tile_bytes;
    const int count = call.tile_count - t < kGeometry.tiles ? 1 : kGeometry.tiles;
    float* out = call.out + t * kLanes;
    if (count == kGeometry.tiles) {
      multiply_tiles<kKind, kPlanes, kGeometry.tiles>(call, tiles, table, tile_rows, out, memory);
    } else {
      multiply_tiles<kKind, kPlanes, 1>(call, tiles, table, tile_rows, out, memory);
    }
    for (int row = 0; row < call.rows; ++row, out += call.out_stride) {
      for (int tile = 0; tile < count; ++tile) {
        const int first = (t + tile) * kLanes;
        const int n = call.outputs - first;
        Floats y = load(memory.total[tile][row]);
        if (call.bias != nullptr) y = add(y, load_first(call.bias + first, n));
        if (call.accumulate) y = add(load_first(out + tile * kLanes, n), y);
        store_first(out + tile * kLanes, y, n);
      }
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
