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
constexpr int kLeastRows = 16;
constexpr int kChunk = 8;  // groups of 32 inputs handled between two visits of the totals
constexpr int kTileBytes = kTileRows * kLanes * 4;

/// Working memory of one call: fits in the first-level cache.
struct alignas(64) Memory {
  std::uint8_t codes[kChunk][kInputGroup * kLanes];  // signed, as the tiles want them
  float scale[2 * kChunk][kLanes];
  float minimum[2 * kChunk][kLanes];
  std::int32_t sums[2][2 * kChunk][kTileRows][kLanes];  // [plane][group]
  float total[kMostRows][kLanes];
};

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t column_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

/// Tiles 0 and 1: activations [16 rows][group]; 2 and 3: codes [group / 4][16 outputs][4]; 4 to 7:
/// sums.
inline void configure_tiles(int group) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.rows[i] = kTileRows;
    config.column_bytes[i] = 64;
  }
  for (int i = 0; i < 2; ++i) {
    config.column_bytes[i] = static_cast<std::uint16_t>(group);
    config.rows[2 + i] = static_cast<std::uint8_t>(group / 4);
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
inline void unpack_codes(const std::byte* codes, __m512i table, std::uint8_t* out, int ahead) {
  constexpr Geometry kGeometry = geometry_of(kKind);
  const __m512i bias = _mm512_set1_epi8(kGeometry.shape.minimum ? 0 : -128);
  if constexpr (kGeometry.shape.bits == 4) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      prefetch(codes + 64 * j + ahead);
      const __m512i pairs = _mm512_loadu_si512(codes + 64 * j);
      _mm512_store_si512(out + 64 * j, _mm512_permutexvar_epi8(pairs, table));
      _mm512_store_si512(out + 64 * (j + 4),
                         _mm512_permutexvar_epi8(_mm512_srli_epi16(pairs, 4), table));
    }
  } else {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      prefetch(codes + 64 * j + ahead);
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
  const std::byte* half_sums;
  int planes;
  int rows;

  int bytes() const { return rows * (planes * kInputGroup + 12); }
  const float* scales(int group) const {
    return reinterpret_cast<const float*>(at + group * bytes() + planes * rows * kInputGroup);
  }
  const float* sums(int group, int halves, int half) const {
    if (halves == 1) return scales(group) + 2 * rows;
    return reinterpret_cast<const float*>(half_sums + group * 16 * rows + 8 * rows) + half * rows;
  }
};

/// One product of tiles: 16 rows of one group of activations times its codes.
struct Product {
  const std::byte* activations;
  const std::uint8_t* codes;
  std::int32_t (*sums)[kLanes];
};

/// Independent products are interleaved: one takes some 50 cycles, but the next may start after 16.
inline void multiply_four(const Product* p) {
  _tile_loadd(2, p[0].codes, 64);
  _tile_loadd(0, p[0].activations, kInputGroup);
  _tile_zero(4);
  _tile_dpbssd(4, 0, 2);
  _tile_loadd(3, p[1].codes, 64);
  _tile_loadd(1, p[1].activations, kInputGroup);
  _tile_zero(5);
  _tile_dpbssd(5, 1, 3);
  _tile_loadd(2, p[2].codes, 64);
  _tile_loadd(0, p[2].activations, kInputGroup);
  _tile_zero(6);
  _tile_dpbssd(6, 0, 2);
  _tile_loadd(3, p[3].codes, 64);
  _tile_loadd(1, p[3].activations, kInputGroup);
  _tile_zero(7);
  _tile_dpbssd(7, 1, 3);
  _tile_stored(4, p[0].sums, 64);
  _tile_stored(5, p[1].sums, 64);
  _tile_stored(6, p[2].sums, 64);
  _tile_stored(7, p[3].sums, 64);
}

inline void multiply_one(const Product& p) {
  _tile_loadd(2, p.codes, 64);
  _tile_loadd(0, p.activations, kInputGroup);
  _tile_zero(4);
  _tile_dpbssd(4, 0, 2);
  _tile_stored(4, p.sums, 64);
}

/// Integer sums of 16 rows from `row` on, for the groups of a chunk.
template <int kHalves, int kPlanes>
inline void multiply_tiles(const Records& records, int row, int groups, Memory& memory) {
  Product products[kPlanes * 2 * kChunk];
  int count = 0;
  for (int g = 0; g < groups; ++g) {
    const std::byte* a = records.at + g * records.bytes() + row * kInputGroup;
    for (int half = 0; half < kHalves; ++half) {
      for (int plane = 0; plane < kPlanes; ++plane) {
        products[count++] = {a + plane * records.rows * kInputGroup + half * 16,
                             memory.codes[g] + half * 4 * 64,
                             memory.sums[plane][g * kHalves + half]};
      }
    }
  }
  int i = 0;
  for (; i + 4 <= count; i += 4) multiply_four(products + i);
  for (; i < count; ++i) multiply_one(products[i]);
}

/// Adds a chunk's sums times scales to the totals of kRows rows; the first is row `row` of the
/// block and `row % 16` of the tile.
template <bool kMinimum, int kHalves, int kPlanes, int kRows>
inline void add_scaled(const Records& records, int row, int groups, Memory& memory) {
  Floats total[kRows];
  const int tile_row = row % kTileRows;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) total[i] = load(memory.total[row + i]);
  for (int g = 0; g < groups; ++g) {
    const float* scales = records.scales(g) + row;
    for (int half = 0; half < kHalves; ++half) {
      const int index = g * kHalves + half;
      const Floats weight_scale = load(memory.scale[index]);
      Floats weight_minimum{};
      const float* sums = nullptr;
      if constexpr (kMinimum) {
        weight_minimum = load(memory.minimum[index]);
        sums = records.sums(g, kHalves, half) + row;
      }
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        Ints sum{_mm512_load_si512(memory.sums[0][index][tile_row + i])};
        if constexpr (kPlanes == 2) {
          sum = join_planes(sum, {_mm512_load_si512(memory.sums[1][index][tile_row + i])});
        }
        total[i] = fma(to_floats(sum), multiply(weight_scale, broadcast(scales[i])), total[i]);
        if constexpr (kMinimum) total[i] = fma(weight_minimum, broadcast(sums[i]), total[i]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) store(memory.total[row + i], total[i]);
}

template <bool kMinimum, int kHalves, int kPlanes>
inline void add_scaled_rows(const Records& records, int row, int count, int groups,
                            Memory& memory) {
  if (count == kTileRows) {
    return add_scaled<kMinimum, kHalves, kPlanes, 16>(records, row, groups, memory);
  }
  int i = 0;
  for (; i + 4 <= count; i += 4) {
    add_scaled<kMinimum, kHalves, kPlanes, 4>(records, row + i, groups, memory);
  }
  for (; i < count; ++i) {
    add_scaled<kMinimum, kHalves, kPlanes, 1>(records, row + i, groups, memory);
  }
}

template <TileKind kKind, int kPlanes>
void multiply_tile(const MultiplyCall& call, const std::byte* tile, __m512i table, Memory& memory) {
  constexpr Geometry kGeometry = geometry_of(kKind);
  constexpr bool kMinimum = kGeometry.shape.minimum;
  constexpr int kUnitBytes = kGeometry.scale_bytes + kGeometry.groups32 * kGeometry.group_bytes;
  constexpr int kChunkUnits = kChunk / kGeometry.groups32;
  for (int row = 0; row < call.rows; ++row) store(memory.total[row], zero_floats());
  Records records{call.input, call.sums16, kPlanes, call.rows};
  for (int first = 0; first < call.units; first += kChunkUnits) {
    const int units = call.units - first < kChunkUnits ? call.units - first : kChunkUnits;
    const int groups = units * kGeometry.groups32;
    for (int u = 0; u < units; ++u) {
      const std::byte* unit = tile + (first + u) * kUnitBytes;
      const int scale_index = u * kGeometry.groups32 * kGeometry.halves;
      unpack_scales<kKind>(call, unit, 0, kGeometry.groups32 * kGeometry.halves,
                           memory.scale + scale_index, memory.minimum + scale_index);
      for (int i = 0; i < kGeometry.scale_bytes; i += 64) prefetch(unit + i + call.prefetch);
      for (int g = 0; g < kGeometry.groups32; ++g) {
        unpack_codes<kKind>(unit + kGeometry.scale_bytes + g * kGeometry.group_bytes, table,
                            memory.codes[u * kGeometry.groups32 + g], call.prefetch);
      }
    }
    for (int row = 0; row < call.rows; row += kTileRows) {
      const int count = call.rows - row < kTileRows ? call.rows - row : kTileRows;
      multiply_tiles<kGeometry.halves, kPlanes>(records, row, groups, memory);
      add_scaled_rows<kMinimum, kGeometry.halves, kPlanes>(records, row, count, groups, memory);
    }
    records.at += groups * records.bytes();
    if (kGeometry.halves == 2) records.half_sums += groups * 16 * call.rows;
  }
}

template <TileKind kKind, int kPlanes>
void multiply_all(const MultiplyCall& call) {
  constexpr Geometry kGeometry = geometry_of(kKind);
  Memory memory;
  const __m512i bias = _mm512_set1_epi8(kGeometry.shape.minimum ? 0 : -128);
  const __m512i table = _mm512_xor_si512(load_table<true>(call.table).v, bias);
  configure_tiles(kGeometry.shape.group);
  const std::byte* tile = call.tiles;
  for (int t = 0; t < call.tile_count; ++t, tile += call.tile_bytes) {
    const int first = t * kLanes;
    const int n = call.outputs - first;
    for (int row = 0; row < call.rows; ++row) {
      prefetch_for_write(call.out + row * call.out_stride + first);
    }
    multiply_tile<kKind, kPlanes>(call, tile, table, memory);
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
