#include <immintrin.h>

#include <bit>

#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes_avx512.h"

// For many rows: AMX tiles multiply up to 16 rows by 16 outputs and one group of inputs at a time;
// the exact integer sums are then combined with the scales like in loops_multiply.h, operation by
// operation. Everything else is avx512_kernels().
//
// Tiles of weights that follow each other are one stream of slots, one tile product each. A turn of
// the loop unpacks the codes of a slot, multiplies an earlier one and scales the sums of a still
// earlier one, because a tile product takes long to finish (52 cycles) and what a tile load reads
// should have reached the cache.
namespace talon::cpu {
namespace {

constexpr int kTileRows = 16;
constexpr int kMostRows = 64;
constexpr int kLeastRows = 7;                 // fewer are done sooner by avx512_kernels()
constexpr int kMostSteps = kMostInputs / 16;  // of a row; a step: the inputs that share a scale
/// Of weights that are multiplied by one tile of rows after the other.
constexpr std::size_t kPanelBytes = std::size_t{128} << 10;

constexpr unsigned kTurns = 4;        // slots of one round of the loop
constexpr unsigned kUnpackAhead = 4;  // slots, before they are multiplied
constexpr unsigned kStoredAfter = 4;  // as many tiles hold sums
constexpr unsigned kScaledAfter = 8;
constexpr unsigned kCodeRing = 16;  // slots from unpacking to scaling, and more
constexpr unsigned kSumRing = 8;

/// Row scales and sums of the inputs of a step, zero past the last row.
struct alignas(64) RowTerms {
  float scale[kTileRows];
  float sum[kTileRows];
};

struct alignas(64) Memory {
  std::int32_t sums[kSumRing][kTileRows][kLanes];
  // Signed; slots that share a group of inputs share the first one's.
  std::uint8_t codes[kCodeRing][kInputGroup * kLanes];
  float totals[kTileRows][kLanes];
  std::uint16_t fine[kMostSteps];  // rows that use the second plane, as bits
  RowTerms terms[kMostSteps];
};

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t column_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

/// The tile instructions take literal numbers only. Tiles 0 and 1: inputs [rows][group]; 2 and 3:
/// codes [group / 4][16 outputs][4]; 4 to 7: sums [rows][16 outputs].
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
  unsigned groups32;  // of a unit
  int halves;         // steps of a group of 32
  int scale_bytes;    // before the codes of a unit
  int group_bytes;    // codes of a group of 32
  int unit_bytes;
  int unit_steps;
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
  return g;
}

/// Codes of one group as signed bytes.
template <TileKind kKind>
[[gnu::always_inline]] inline void unpack_codes(const std::byte* codes, __m512i table,
                                                std::uint8_t* out) {
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

/// Codes of the group of inputs that begins with `slot`.
template <TileKind kKind, unsigned kGroupSlots>
[[gnu::always_inline]] inline void unpack_slot(const std::byte* weights, unsigned slot,
                                               __m512i table, Memory& memory) {
  constexpr Geometry kGeometry = geometry_of(kKind);
  const unsigned group = slot / kGroupSlots;
  const std::byte* unit = weights + group / kGeometry.groups32 * kGeometry.unit_bytes;
  unpack_codes<kKind>(
      unit + kGeometry.scale_bytes + group % kGeometry.groups32 * kGeometry.group_bytes, table,
      memory.codes[slot % kCodeRing]);
}

struct WeightScales {
  Floats scale;
  Floats minimum;
};

/// Of step `index` of a unit.
template <TileKind kKind>
[[gnu::always_inline]] inline WeightScales scales_of(const std::byte* unit, int index,
                                                     float pre_scale) {
  constexpr Geometry kGeometry = geometry_of(kKind);
  WeightScales scales{};
  if constexpr (kGeometry.shape.super) {
    const std::byte* codes = unit + 64 + kLanes * index;
    scales.scale = multiply(multiply(load_half(unit), broadcast(pre_scale)), load_int8(codes));
    if constexpr (kGeometry.shape.minimum) {
      scales.minimum =
          multiply(load_half(unit + 2 * kLanes), load_int8(codes + kLanes * kGeometry.unit_steps));
    }
  } else {
    scales.scale = load_half(unit + 2 * kLanes * index);
    if constexpr (kGeometry.shape.minimum) {
      scales.minimum = load_half(unit + 64 + 2 * kLanes * index);
    }
  }
  return scales;
}

struct Records {
  const std::byte* at;
  const std::byte* second;
  const std::byte* half_sums;
  int planes;
  int rows;

  std::ptrdiff_t group_bytes() const { return rows * record_bytes(planes); }
  std::ptrdiff_t second_bytes() const { return rows * kInputGroup; }
  const std::byte* scales(int group) const {
    return at + group * group_bytes() + rows * kInputGroup;
  }
  /// f32 sum[halves][rows], i32 zero[halves][planes][rows]
  const std::byte* sums(int group, int halves) const {
    return halves == 1
               ? scales(group) + 4 * rows
               : half_sums + static_cast<std::ptrdiff_t>(group) * half_sum_bytes(planes) * rows;
  }
  const std::byte* zeros(int group, int halves, int half) const {
    return sums(group, halves) + 4 * rows * (halves + half * planes);
  }
  /// i32 [rows]: not 0 where a row uses the second plane.
  const std::byte* fine(int group) const { return scales(group) + (8 + 4 * planes) * rows; }
};

inline __m512i load_first_ints(const std::byte* p, __mmask16 mask) {
  return _mm512_maskz_loadu_epi32(mask, p);
}

/// Rows [first, first + count) of a block: those of one tile.
struct RowTile {
  int first;
  int count;
};

/// Which planes of the inputs count: the first; beside it what rows use of the second, multiplied
/// row by row; or both, multiplied as tiles.
enum class Planes { first, few_of_second, both };

/// A row's scale counts for its joined sums where it uses the second plane, which are 256 times as
/// large.
template <TileKind kKind>
void gather_terms(const Records& records, RowTile rows, int steps, Planes planes, Memory& memory) {
  constexpr Geometry kGeometry = geometry_of(kKind);
  const __mmask16 mask = first_lanes(rows.count);
  for (int step = 0; step < steps; ++step) {
    const int group = step / kGeometry.halves;
    const int half = step % kGeometry.halves;
    RowTerms& terms = memory.terms[step];
    __m512 scale = _mm512_maskz_loadu_ps(mask, records.scales(group) + 4 * rows.first);
    if (planes != Planes::first) {
      const __m512i used = load_first_ints(records.fine(group) + 4 * rows.first, mask);
      __mmask16 fine = _mm512_test_epi32_mask(used, used);
      memory.fine[step] = fine;
      if (planes == Planes::both) fine = 0xFFFF;
      scale = _mm512_mask_mul_ps(scale, fine, scale, _mm512_set1_ps(1.0F / 256.0F));
    }
    _mm512_store_ps(terms.scale, scale);
    if constexpr (kGeometry.shape.minimum) {
      const std::byte* sums = records.sums(group, kGeometry.halves) + 4 * half * records.rows;
      _mm512_store_ps(terms.sum, _mm512_maskz_loadu_ps(mask, sums + 4 * rows.first));
    }
  }
}

/// Adds the second plane to the sums of the rows that use it.
template <TileKind kKind>
[[gnu::noinline]] void add_second_plane(const Records& records, RowTile rows, int step,
                                        const std::uint8_t* codes, unsigned fine,
                                        std::int32_t (*sums)[kLanes]) {
  constexpr Geometry kGeometry = geometry_of(kKind);
  constexpr bool kBiased = !kGeometry.shape.minimum;
  const int group = step / kGeometry.halves;
  const int half = step % kGeometry.halves;
  const std::byte* zeros =
      records.zeros(group, kGeometry.halves, half) + 4 * (records.rows + rows.first);
  const std::byte* second =
      records.second + group * records.second_bytes() + rows.first * kInputGroup + 16 * half;
  for (; fine != 0; fine &= fine - 1) {
    const int row = std::countr_zero(fine);
    const auto* b = reinterpret_cast<const std::int8_t*>(second + row * kInputGroup);
    Ints sum = start_sum<kBiased>(reinterpret_cast<const std::int32_t*>(zeros) + row);
#pragma GCC unroll 8
    for (int j = 0; j < 8 / kGeometry.halves; ++j) {
      __m512i code = _mm512_load_si512(codes + 256 * half + 64 * j);
      if (kBiased) code = _mm512_xor_si512(code, _mm512_set1_epi8(-128));
      sum = dot<kBiased>(sum, {code}, b + 4 * j);
    }
    _mm512_store_si512(sums[row], join_planes({_mm512_load_si512(sums[row])}, sum).v);
  }
}

/// Integers as floats. By additions, where their size allows it, since the unit of multiply-adds
/// and conversions is the one that everything here waits for.
template <bool kSmall>
[[gnu::always_inline]] inline Floats floats_of(Ints sum) {
  if constexpr (!kSmall) return to_floats(sum);
  const __m512i shifted = _mm512_add_epi32(sum.v, _mm512_set1_epi32(0x4B400000));  // 1.5 * 2^23
  return subtract({_mm512_castsi512_ps(shifted)}, broadcast(0x1.8p23F));
}

/// Adds the sums of a step times scales to the totals. kSlots: planes of the inputs to join.
/// `fetch`: memory of the weights ahead, of which a step's share is fetched line by line between
/// the rows, so that it is never idle nor flooded.
template <TileKind kKind, bool kSmall, unsigned kSlots, int kRows>
[[gnu::always_inline]] inline void scale_sums(const std::int32_t (*sums)[kTileRows][kLanes],
                                              WeightScales weight, const RowTerms& terms,
                                              const std::byte* fetch, Floats (&total)[kRows]) {
  constexpr Geometry kGeometry = geometry_of(kKind);
  constexpr int kStepLines = (kGeometry.unit_bytes / kGeometry.unit_steps + 63) / 64;
  constexpr int kEvery = kRows / kStepLines < 1 ? 1 : kRows / kStepLines;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    if (i % kEvery == 0 && i / kEvery < kStepLines) prefetch(fetch + i / kEvery * 64);
    Ints sum{_mm512_load_si512(sums[0][i])};
    if constexpr (kSlots == 2) sum = join_planes(sum, {_mm512_load_si512(sums[1][i])});
    const Floats product = multiply(weight.scale, broadcast(terms.scale[i]));
    total[i] = fma(floats_of<kSmall>(sum), product, total[i]);
    if constexpr (kGeometry.shape.minimum) {
      total[i] = fma(weight.minimum, broadcast(terms.sum[i]), total[i]);
    }
  }
}

void write_out(const MultiplyCall& call, RowTile rows, int tile, const float (*totals)[kLanes]) {
  const int first = tile * kLanes;
  const __mmask16 lanes = first_lanes(call.outputs - first);
  float* out = call.out + first + rows.first * call.out_stride;
  for (int i = 0; i < rows.count; ++i, out += call.out_stride) {
    Floats y = load(totals[i]);
    if (call.bias != nullptr) y = add(y, {_mm512_maskz_loadu_ps(lanes, call.bias + first)});
    if (call.accumulate) y = add({_mm512_maskz_loadu_ps(lanes, out)}, y);
    _mm512_mask_storeu_ps(out, lanes, y.v);
    prefetch_for_write(out + kLanes);
  }
}

/// Loads the tiles of a slot, stores the sums of the slot kStoredAfter before, and multiplies.
#define TALON_MULTIPLY(A, B, SUMS)    \
  _tile_loadd(A, input, kInputGroup); \
  _tile_loadd(B, codes, 64);          \
  _tile_stored(SUMS, sums, 64);       \
  _tile_zero(SUMS);                   \
  _tile_dpbssd(SUMS, A, B)
template <int kTurn>
[[gnu::always_inline]] inline void multiply_slot(const std::byte* input, const std::uint8_t* codes,
                                                 std::int32_t (*sums)[kLanes]) {
  if constexpr (kTurn == 0) {
    TALON_MULTIPLY(0, 2, 4);
  } else if constexpr (kTurn == 1) {
    TALON_MULTIPLY(1, 3, 5);
  } else if constexpr (kTurn == 2) {
    TALON_MULTIPLY(0, 2, 6);
  } else {
    TALON_MULTIPLY(1, 3, 7);
  }
}
#undef TALON_MULTIPLY

/// Tiles [first, end) of the weights times one tile of rows.
template <TileKind kKind, Planes kPlanes, int kRows>
void multiply_panel(const MultiplyCall& call, RowTile rows, int first, int end, Memory& memory) {
  static constexpr Geometry kGeometry = geometry_of(kKind);
  constexpr unsigned kPlaneSlots = kPlanes == Planes::both ? 2 : 1;  // of a step
  constexpr unsigned kGroupSlots = kPlaneSlots * kGeometry.halves;
  constexpr unsigned kUnitSlots = kPlaneSlots * kGeometry.unit_steps;
  const Records records{call.input, call.second, call.sums16, call.planes, call.rows};
  const int steps = call.units * kGeometry.unit_steps;
  const unsigned slots = static_cast<unsigned>((end - first) * steps) * kPlaneSlots;
  const std::byte* const weights = call.tiles + first * call.tile_bytes;
  const std::ptrdiff_t ahead = rows.first == 0 ? call.prefetch : 0;
  const float pre_scale = call.pre_scale;
  const __m512i bias = _mm512_set1_epi8(kGeometry.shape.minimum ? 0 : -128);
  const __m512i table = _mm512_xor_si512(load_table<true>(call.table).v, bias);
  gather_terms<kKind>(records, rows, steps, kPlanes, memory);

  // Inputs are multiplied round and round.
  const std::ptrdiff_t group_bytes = records.group_bytes();
  const std::ptrdiff_t second_bytes = records.second_bytes();
  const std::byte* const first_inputs = records.at + rows.first * kInputGroup;
  const std::byte* const first_second = records.second + rows.first * kInputGroup;
  const std::byte* const end_inputs = first_inputs + steps / kGeometry.halves * group_bytes;
  const std::byte* inputs = first_inputs;
  const std::byte* second = first_second;

  const RowTerms* terms = memory.terms;  // of the step to scale next
  int steps_left = steps;                // of its tile of weights
  int tile = first;
  Floats total[kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) total[i] = zero_floats();

  const auto turn = [&]<unsigned kTurn>(unsigned slot) __attribute__((always_inline)) {
    constexpr unsigned kInGroup = kTurn % kGroupSlots;
    constexpr unsigned kPlane = kTurn % kPlaneSlots;
    constexpr unsigned kHalf = kInGroup / kPlaneSlots;
    const unsigned old = slot - kScaledAfter;
    if (kPlane == kPlaneSlots - 1 && old < slots) {
      const std::byte* unit = weights + old / kUnitSlots * kGeometry.unit_bytes;
      const WeightScales scales = scales_of<kKind>(unit, old % kUnitSlots / kPlaneSlots, pre_scale);
      const std::byte* fetch = weights + old * (kGeometry.unit_bytes / kUnitSlots) + ahead;
      auto* sums = memory.sums + (old - kPlane) % kSumRing;
      unsigned fine = 0;
      if constexpr (kPlanes == Planes::few_of_second) {
        const auto step = static_cast<int>(terms - memory.terms);
        fine = memory.fine[step];
        if (fine != 0) {
          add_second_plane<kKind>(records, rows, step, memory.codes[(old - kInGroup) % kCodeRing],
                                  fine, *sums);
        }
      }
      if (kPlaneSlots == 1 && fine == 0) {
        scale_sums<kKind, true, kPlaneSlots>(sums, scales, *terms, fetch, total);
      } else {
        scale_sums<kKind, false, kPlaneSlots>(sums, scales, *terms, fetch, total);
      }
      ++terms;
      if (--steps_left == 0) {
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
          store(memory.totals[i], total[i]);
          total[i] = zero_floats();
        }
        write_out(call, rows, tile++, memory.totals);
        terms = memory.terms;
        steps_left = steps;
      }
    }
    multiply_slot<kTurn>((kPlane == 0 ? inputs : second) + 16 * kHalf,
                         memory.codes[(slot - kInGroup) % kCodeRing] + 256 * kHalf,
                         memory.sums[(slot - kStoredAfter) % kSumRing]);
    if constexpr (kInGroup == kGroupSlots - 1) {
      inputs += group_bytes;
      if constexpr (kPlaneSlots == 2) second += second_bytes;
      if (inputs == end_inputs) {
        inputs = first_inputs;
        second = first_second;
      }
    }
    if (kInGroup == 0 && slot + kUnpackAhead < slots) {
      unpack_slot<kKind, kGroupSlots>(weights, slot + kUnpackAhead, table, memory);
    }
  };
  for (unsigned slot = 0; slot < kUnpackAhead && slot < slots; slot += kGroupSlots) {
    unpack_slot<kKind, kGroupSlots>(weights, slot, table, memory);
  }
  // Past the end the tiles multiply what nobody scales.
#pragma GCC unroll 1
  for (unsigned slot = 0; slot < slots + kScaledAfter; slot += kTurns) {
    turn.template operator()<0>(slot);
    turn.template operator()<1>(slot + 1);
    turn.template operator()<2>(slot + 2);
    turn.template operator()<3>(slot + 3);
  }
}

/// Rows of a tile: as even a division of a block as the sizes allow.
int tile_rows_of(int rows) {
  const int tiles = (rows + kTileRows - 1) / kTileRows;
  const int each = (rows + tiles - 1) / tiles;
  if (each <= 8) return 8;
  return each <= 12 ? 12 : kTileRows;
}

template <TileKind kKind, Planes kPlanes, int kRows>
void multiply_all(const MultiplyCall& call) {
  Memory memory;
  configure_tiles(geometry_of(kKind).shape.group, kRows);
  const auto fitting = static_cast<int>(kPanelBytes / call.tile_bytes);
  const int panel = call.rows <= kRows ? call.tile_count : (fitting < 1 ? 1 : fitting);
  for (int first = 0; first < call.tile_count; first += panel) {
    const int end = first + panel < call.tile_count ? first + panel : call.tile_count;
    for (int row = 0; row < call.rows; row += kRows) {
      const int count = call.rows - row < kRows ? call.rows - row : kRows;
      multiply_panel<kKind, kPlanes, kRows>(call, {row, count}, first, end, memory);
    }
  }
  _tile_release();
}

template <TileKind kKind, Planes kPlanes>
void multiply_all(const MultiplyCall& call) {
  switch (tile_rows_of(call.rows)) {
    case 8:
      return multiply_all<kKind, kPlanes, 8>(call);
    case 12:
      return multiply_all<kKind, kPlanes, 12>(call);
    default:
      return multiply_all<kKind, kPlanes, 16>(call);
  }
}

/// Whether so many rows use the second plane that it pays to multiply all.
bool are_many_fine(const MultiplyCall& call, int groups) {
  const Records records{call.input, call.second, call.sums16, call.planes, call.rows};
  int fine = 0;
  for (int group = 0; group < groups; ++group) {
    for (int row = 0; row < call.rows; row += kLanes) {
      const __m512i used =
          load_first_ints(records.fine(group) + 4 * row, first_lanes(call.rows - row));
      fine += std::popcount(static_cast<unsigned>(_mm512_test_epi32_mask(used, used)));
    }
  }
  return fine * 4 > groups * call.rows;
}

template <TileKind kKind>
void multiply_all(const MultiplyCall& call) {
  if (call.planes == 1) return multiply_all<kKind, Planes::first>(call);
  if (are_many_fine(call, call.units * static_cast<int>(geometry_of(kKind).groups32))) {
    return multiply_all<kKind, Planes::both, kTileRows>(call);
  }
  return multiply_all<kKind, Planes::few_of_second>(call);
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
