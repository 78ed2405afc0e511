#include <immintrin.h>

#include "backend/cpu/kernels/amx_tiles.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/lanes_avx512.h"
#include "backend/cpu/kernels/loops_output.h"
#include "backend/cpu/kernels/loops_second.h"

// For many rows: AMX tiles multiply up to 16 rows by 16 outputs and one group of inputs at a time;
// the exact integer sums are then combined with the scales like in loops_multiply.h, operation by
// operation. Everything else is avx512_bf16_kernels().
//
// Tiles of weights that follow each other are one stream of slots, one tile product each. A turn of
// the loop unpacks the codes of a slot, multiplies an earlier one and scales the sums of a still
// earlier one, because a tile product takes long to finish (52 cycles) and what a tile load reads
// should have reached the cache.
namespace talon::cpu {
namespace {

constexpr int kTileRows = 16;
constexpr int kMostRows = 64;
constexpr int kLeastRows = 7;                 // fewer are done sooner by avx512_bf16_kernels()
constexpr int kMostSteps = kMostInputs / 16;  // of a row; a step: the inputs that share a scale
/// Of weights that are multiplied by one tile of rows after the other.
constexpr std::size_t kPanelBytes = std::size_t{128} << 10;

constexpr unsigned kTurns = 4;        // slots of one round of the loop
constexpr unsigned kUnpackAhead = 4;  // slots, before they are multiplied
constexpr unsigned kStoredAfter = 4;  // as many tiles hold sums
constexpr unsigned kScaledAfter = 8;
constexpr unsigned kCodeRing = 8;  // slots from unpacking to multiplying, and more
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
  Floats totals[kTileRows];
  RowTerms terms[kMostSteps];
  FineGroups fine;
};

/// The tile instructions take literal numbers only. Tiles 0 and 1: inputs [rows][group]; 2 and 3:
/// codes [group / 4][16 outputs][4]; 4 to 7: sums [rows][16 outputs].
inline void configure_tiles(int group, int rows) {
  AmxTileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.rows[i] = static_cast<std::uint8_t>(i == 2 || i == 3 ? group / 4 : rows);
    config.column_bytes[i] = i < 2 ? static_cast<std::uint16_t>(group) : 64;
  }
  _tile_loadconfig(&config);
}

/// Steps of a unit, and the bytes that each has its share of.
template <TileKind kKind>
struct Steps {
  static constexpr unsigned kUnit = Layout<kKind>::kGroups;
  static constexpr unsigned kGroup = Layout<kKind>::kHalves;
  static constexpr unsigned kBytes = Layout<kKind>::kUnitBytes / kUnit;
};

/// Codes of one group as signed bytes. `table`: of signed values.
template <TileKind kKind>
[[gnu::always_inline]] inline void unpack_signed(const std::byte* codes, Table table,
                                                 std::uint8_t* out) {
  constexpr bool kFlip = Layout<kKind>::kBiased && Layout<kKind>::kShape.bits == 8;
  Codes vectors[8];
  unpack<kKind>(codes, table, vectors);
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {
    const __m512i bias = _mm512_set1_epi8(kFlip ? -128 : 0);
    _mm512_store_si512(out + 64 * j, _mm512_xor_si512(vectors[j].v, bias));
  }
}

/// Codes of the group of inputs that begins with `slot`.
template <TileKind kKind>
[[gnu::always_inline]] inline void unpack_slot(const std::byte* weights, unsigned slot, Table table,
                                               Memory& memory) {
  using L = Layout<kKind>;
  const unsigned group = slot / Steps<kKind>::kGroup;
  const std::byte* unit = weights + group / L::kGroups32 * L::kUnitBytes;
  unpack_signed<kKind>(unit + L::kScaleBytes + group % L::kGroups32 * L::kGroupBytes, table,
                       memory.codes[slot % kCodeRing]);
}

/// Rows [first, first + count) of a block: those of one tile.
struct RowTile {
  int first;
  int count;
};

/// Scales and sums of the first plane of a tile's rows.
template <TileKind kKind>
void gather_terms(const MultiplyCall& call, RowTile rows, int steps, Memory& memory) {
  using L = Layout<kKind>;
  const __mmask16 mask = first_lanes(rows.count);
  for (int step = 0; step < steps; ++step) {
    const std::ptrdiff_t group = step / L::kHalves * static_cast<std::ptrdiff_t>(call.rows);
    const std::byte* scales =
        call.input + group * kRecordBytes + call.rows * kInputGroup + 4 * rows.first;
    const std::byte* sums = L::kHalves == 1 ? scales + 4 * call.rows
                                            : call.sums16 + group * kHalfSumBytes +
                                                  4 * (step % L::kHalves * call.rows + rows.first);
    RowTerms& terms = memory.terms[step];
    _mm512_store_ps(terms.scale, _mm512_maskz_loadu_ps(mask, scales));
    if constexpr (L::kShape.minimum) {
      _mm512_store_ps(terms.sum, _mm512_maskz_loadu_ps(mask, sums));
    }
  }
}

/// Integers below 2^22 in size as floats. By additions, since the unit of multiply-adds and
/// conversions is the one that everything here waits for.
[[gnu::always_inline]] inline Floats floats_of(const std::int32_t* sums) {
  const __m512i shifted =
      _mm512_add_epi32(_mm512_load_si512(sums), _mm512_set1_epi32(0x4B400000));  // 1.5 * 2^23
  return subtract({_mm512_castsi512_ps(shifted)}, broadcast(0x1.8p23F));
}

/// Adds the sums of a step times scales to the totals. `fetch`: memory of the weights ahead, of
/// which a step's share is fetched line by line between the rows, so that it is never idle nor
/// flooded.
template <TileKind kKind, int kRows>
[[gnu::always_inline]] inline void scale_sums(const std::int32_t (*sums)[kLanes],
                                              Scales<Layout<kKind>::kShape.minimum> weight,
                                              const RowTerms& terms, const std::byte* fetch,
                                              Floats (&total)[kRows]) {
  constexpr int kStepLines = (Steps<kKind>::kBytes + 63) / 64;
  constexpr int kEvery = kRows / kStepLines < 1 ? 1 : kRows / kStepLines;
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    if (i % kEvery == 0 && i / kEvery < kStepLines) prefetch(fetch + i / kEvery * 64);
    const Floats product = multiply(weight.scale, broadcast(terms.scale[i]));
    total[i] = fma(floats_of(sums[i]), product, total[i]);
    if constexpr (Layout<kKind>::kShape.minimum) {
      total[i] = fma(weight.minimum, broadcast(terms.sum[i]), total[i]);
    }
  }
}

/// A finished tile, whose totals of the first plane are in `memory`.
template <TileKind kKind>
void write_out(const MultiplyCall& call, RowTile rows, int tile, Memory& memory) {
  Floats second[kTileRows];
  for (Floats& sum : second) sum = zero_floats();
  if (memory.fine.count > 0) {
    add_second_plane<kKind>(call, memory.fine, call.tiles + tile * call.tile_bytes, second);
  }
  const int output = tile * kLanes;
  for (int i = 0; i < rows.count; ++i) {
    const int row = rows.first + i;
    const Floats first = memory.totals[i];
    write_row(call, row, output, call.second != nullptr ? add(first, second[i]) : first);
    prefetch_for_write(call.out + row * call.out_stride + output + kLanes);
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

/// Tiles [first, end) of the weights times one tile of rows. A slot is a step.
template <TileKind kKind, int kRows>
void multiply_panel(const MultiplyCall& call, RowTile rows, int first, int end, Memory& memory) {
  using L = Layout<kKind>;
  constexpr unsigned kGroupSlots = Steps<kKind>::kGroup;
  constexpr unsigned kUnitSlots = Steps<kKind>::kUnit;
  const int steps = call.units * static_cast<int>(kUnitSlots);
  const unsigned slots = static_cast<unsigned>((end - first) * steps);
  const std::byte* const weights = call.tiles + first * call.tile_bytes;
  const std::ptrdiff_t ahead = rows.first == 0 ? call.prefetch : 0;
  const Floats pre_scale = broadcast(call.pre_scale);
  const __m512i bias = _mm512_set1_epi8(L::kBiased ? -128 : 0);
  const Table table{_mm512_xor_si512(load_table<L::kBiased>(call.table).v, bias)};
  gather_terms<kKind>(call, rows, steps, memory);
  memory.fine.gather<kKind>(call, rows.first, rows.count);

  // Inputs are multiplied round and round.
  const std::ptrdiff_t group_bytes = call.rows * kRecordBytes;
  const std::byte* const first_inputs = call.input + rows.first * kInputGroup;
  const std::byte* const end_inputs = first_inputs + steps / L::kHalves * group_bytes;
  const std::byte* inputs = first_inputs;

  const RowTerms* terms = memory.terms;  // of the step to scale next
  int steps_left = steps;                // of its tile of weights
  int tile = first;
  Floats total[kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) total[i] = zero_floats();

  const auto turn = [&]<unsigned kTurn>(unsigned slot) __attribute__((always_inline)) {
    constexpr unsigned kHalf = kTurn % kGroupSlots;
    const unsigned old = slot - kScaledAfter;
    if (old < slots) {
      const std::byte* unit = weights + old / kUnitSlots * L::kUnitBytes;
      Floats d = zero_floats(), dmin = zero_floats();
      if constexpr (L::kShape.super) d = multiply(load_half(unit), pre_scale);
      if constexpr (L::kShape.super && L::kShape.minimum) dmin = load_half(unit + 2 * kLanes);
      const auto scales = scales_of<L::kShape.super, L::kShape.minimum>(
          unit, static_cast<int>(old % kUnitSlots), L::kGroups, d, dmin);
      scale_sums<kKind>(memory.sums[old % kSumRing], scales, *terms,
                        weights + old * Steps<kKind>::kBytes + ahead, total);
      ++terms;
      if (--steps_left == 0) {
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
          memory.totals[i] = total[i];
          total[i] = zero_floats();
        }
        write_out<kKind>(call, rows, tile++, memory);
        terms = memory.terms;
        steps_left = steps;
      }
    }
    multiply_slot<kTurn>(inputs + 16 * kHalf,
                         memory.codes[(slot - kHalf) % kCodeRing] + 256 * kHalf,
                         memory.sums[(slot - kStoredAfter) % kSumRing]);
    if constexpr (kHalf == kGroupSlots - 1) {
      inputs += group_bytes;
      if (inputs == end_inputs) inputs = first_inputs;
    }
    if (kHalf == 0 && slot + kUnpackAhead < slots) {
      unpack_slot<kKind>(weights, slot + kUnpackAhead, table, memory);
    }
  };
  for (unsigned slot = 0; slot < kUnpackAhead && slot < slots; slot += kGroupSlots) {
    unpack_slot<kKind>(weights, slot, table, memory);
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

template <TileKind kKind, int kRows>
void multiply_all(const MultiplyCall& call) {
  Memory memory;
  configure_tiles(Layout<kKind>::kShape.group, kRows);
  const auto fitting = static_cast<int>(kPanelBytes / call.tile_bytes);
  const int panel = call.rows <= kRows ? call.tile_count : (fitting < 1 ? 1 : fitting);
  for (int first = 0; first < call.tile_count; first += panel) {
    const int end = first + panel < call.tile_count ? first + panel : call.tile_count;
    for (int row = 0; row < call.rows; row += kRows) {
      const int count = call.rows - row < kRows ? call.rows - row : kRows;
      multiply_panel<kKind, kRows>(call, {row, count}, first, end, memory);
    }
  }
  _tile_release();
}

template <TileKind kKind>
void multiply_all(const MultiplyCall& call) {
  switch (tile_rows_of(call.rows)) {
    case 8:
      return multiply_all<kKind, 8>(call);
    case 12:
      return multiply_all<kKind, 12>(call);
    default:
      return multiply_all<kKind, kTileRows>(call);
  }
}

void multiply_call(const MultiplyCall& call) {
  if (call.rows < kLeastRows) return avx512_bf16_kernels().multiply(call);
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
      return avx512_bf16_kernels().multiply(call);
  }
}

int block_rows(int rows_left, bool float_weights) {
  if (float_weights || rows_left < kLeastRows) {
    return avx512_bf16_kernels().block_rows(rows_left, float_weights);
  }
  return rows_left < kMostRows ? rows_left : kMostRows;
}

Kernels make_table() {
  Kernels table = avx512_bf16_kernels();
  table.name = "amx_int8 and avx512_bf16";
  table.block_rows = block_rows;
  table.wide_rows = kLeastRows;
  table.multiply = multiply_call;
  return table;
}

}  // namespace

const Kernels& amx_kernels() {
  static const Kernels kTable = make_table();
  return kTable;
}

}  // namespace talon::cpu
