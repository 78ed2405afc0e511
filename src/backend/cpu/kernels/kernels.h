#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/input_transform.h"

/// What every instruction set implements, as a table of function pointers, and the memory layouts
/// they agree on. Units of one instruction set include this file, the lanes_*.h of their set and
/// the shared loops (loops_*.h), which live in unnamed namespaces: nothing compiled with special
/// flags may be seen by the linker as a common inline function.
///
/// All sets do the same float operations in the same order (fused multiply-adds, 16 lanes, fixed
/// reduction trees), so their results are equal to the byte; the integer sums are exact.
namespace talon::cpu {

inline constexpr int kLanes = 16;             // outputs of a weight tile, keys of a cache block
inline constexpr int kInputGroup = 32;        // inputs that share one activation scale
inline constexpr int kLongestSegment = 1024;  // inputs that are quantised together
inline constexpr int kMostInputs = 65536;     // of a matrix of weights

/// How one tile (16 outputs, all inputs) is laid out: a sequence of units.
///
/// Codes: 64-byte vectors [16 outputs][4 inputs]; vector j of a group of 32 inputs holds inputs 4j
/// .. 4j+3. With 4 bits, byte vector j < 4 holds vector j in its low nibbles and vector j + 4 in
/// its high ones; a 16-entry table gives the value, of kinds with a minimum the nibble itself.
/// Signed values are stored plus 128 (kinds without a minimum), unsigned ones as they are (kinds
/// with a minimum).
///   direct kinds, unit of 64 inputs:  f16 scale[2][16], f16 minimum[2][16] if any, codes
///   super kinds, unit of 256 inputs:  f16 d[16], f16 dmin[16], i8 scale[groups][16], i8
///   minimum[groups][16] if any, codes
///                                     scale = (d * pre_scale) * i8, minimum = dmin * i8
///   float kinds, unit of 16 inputs:   [16 inputs][16 outputs]; bf16: [8 input pairs][16
///   outputs][2]
/// value = scale * code (+ minimum)
enum class TileKind : std::uint8_t {
  nibble,
  nibble_min,
  nibble_super,
  nibble_super_min,
  nibble_super16,
  nibble_super16_min,
  byte,
  byte_min,
  byte_super_min,
  byte_super16,
  f32,
  f16,
  bf16,
};

struct TileShape {
  int bits;   // of a code
  int group;  // inputs that share a scale
  bool super;
  bool minimum;
  int unit_inputs;
};

inline constexpr TileShape kTileShapes[] = {
    {4, 32, false, false, 64}, {4, 32, false, true, 64},  {4, 32, true, false, 256},
    {4, 32, true, true, 256},  {4, 16, true, false, 256}, {4, 16, true, true, 256},
    {8, 32, false, false, 64}, {8, 32, false, true, 64},  {8, 32, true, true, 256},
    {8, 16, true, false, 256}, {32, 0, false, false, 16}, {16, 0, false, false, 16},
    {16, 0, false, false, 16},
};

/// The codes that a kind of tiles holds, as stored: of nibbles 0 .. 15; of bytes with a minimum
/// those of Q5_1 and Q5_K, of bytes with scales of 16 those of Q6_K.
struct CodeRange {
  int least;
  int largest;
};
constexpr CodeRange code_range(TileKind kind) {
  const TileShape& shape = kTileShapes[static_cast<int>(kind)];
  if (shape.bits == 4) return {0, 15};
  if (shape.minimum) return {0, 31};
  return kind == TileKind::byte_super16 ? CodeRange{128 - 32, 128 + 31} : CodeRange{0, 255};
}

/// Quantised activations of a block of `rows` rows, x = scale * a, or with a second plane
/// x = scale * (a + b / 256), |a|, |b| <= 127. Per group of 32 inputs one record: i8 a[rows][32],
/// f32 scale[rows], f32 sum[rows] of the x as quantised, i32 zero[rows] = -128 * sum of a. Beside
/// the records, if wanted: for kinds with groups of 16 the same of both halves, f32 sum[2][rows],
/// i32 zero[2][rows]; and of the second plane i8 b[rows][32], i32 zero[2][rows] of both halves of
/// b, i32 fine[rows]: whether b counts, else it is 0. It counts where a group's largest value is
/// above `fine_above` times the mean of the groups' largest values. A product is that of the first
/// plane, summed over all groups, plus that of the second, summed over the groups where it counts.
/// A group that holds NaN or an infinity has codes of 0 and NaN as its scale and sums.
inline constexpr int kRecordBytes = kInputGroup + 12;  // of a row
inline constexpr int kHalfSumBytes = 16;
inline constexpr int kSecondBytes = kInputGroup + 12;
struct QuantizedRow {
  std::byte* records;
  std::byte* second;  // null: not wanted
  std::byte* sums16;  // null: not wanted
  float fine_above;   // 0: b counts in every group
  int rows;           // of the block
  int row;            // of this row in the block
};

/// Multiplies consecutive tiles by one block of rows.
struct MultiplyCall {
  TileKind kind;
  const std::byte* tiles;
  std::size_t tile_bytes;
  int tile_count;
  int units;                  // of a tile
  const std::uint8_t* table;  // of 16 values, for nibble kinds
  float pre_scale;
  const std::byte* input;   // records; for float kinds [inputs / 16][rows][16] of f32, or rounded
  const std::byte* second;  // null: there is none
  const std::byte* sums16;
  int rows;    // a number that block_rows() gave
  float* out;  // of the first tile's first output, first row
  std::ptrdiff_t out_stride;
  int outputs;        // in all tiles together; the last tile may have fewer than 16
  const float* bias;  // of the first output, or null
  bool accumulate;
  int prefetch;  // bytes ahead; 0: the tiles are in the cache
};

/// One query vector (a row's head) and the keys it sees in one block of kAttentionBlock logical
/// positions.
inline constexpr int kAttentionBlock = 128;
inline constexpr int kPartialHead = 16;  // floats before the values of a partial
struct AttentionQuery {
  const float* q;            // rotated and scaled, also by log2(e): weights are powers of two
  const std::byte* rounded;  // q as round() leaves it, for attend_pairs()
  float* partial;  // out: largest score, sum of powers of two, from kPartialHead on the padded_dim
                   // weighted values; aligned to 64 bytes
  int begin;       // visible positions within the block: [begin, end)
  int end;
  int contiguous;  // positions below lie in the block's pages, others in extra[position -
                   // contiguous]
  const std::int32_t* extra;
};

/// Cache of one layer and one KV head: page p at pages + p * page_stride holds keys as [4 blocks of
/// 16 slots][dim][16 slots] and, value_offset bytes later, values as [64 slots][padded_dim], both
/// f16 or both f32. Of attend_pairs(), both bf16: keys as [4 blocks of 16 slots][dim / 2][16
/// slots][2], values as [32 pairs of slots][padded_dim][2].
struct AttentionCall {
  const std::byte* pages;
  std::size_t page_stride;
  std::size_t value_offset;
  const std::int32_t* page_ids;  // pages of this block of positions: kAttentionBlock / 64
  bool half;
  int dim;
  int padded_dim;  // multiple of 16
  const AttentionQuery* queries;
  int query_count;
  int heads;       // consecutive queries of the same row; divides query_count
  float* scores;   // scratch [query_count][kAttentionBlock]
  float* floats;   // scratch [64][padded_dim] for a page's keys or values as floats, which pays for
                   // many queries; null: none
  float soft_cap;  // c: scores become c * tanh(score / c); 0: they stay
  bool uniform;    // all queries have the same begin and the same end of what lies in pages
  const std::byte* next[kAttentionBlock / 64];  // pages of the next call, fetched meanwhile; null:
                                                // none
};

/// The last `taps` inputs of `channels` channels, the oldest first, and a filter [taps][step].
struct Convolution {
  const float* const* inputs;
  const float* filter;
  std::ptrdiff_t step;
  const float* bias;  // null: none
  int taps;
  int channels;
  const float* gate = nullptr;  // of the channels; null: SiLU instead
};

/// A row of one value head of a layer with a state: see RecurrentArgs. `from` and `to` are
/// [key_dim, value_dim] and may be the same; to null: the state is not wanted; out null: S^T q is
/// not.
struct StateStep {
  const float* from;
  float* to;
  const float* q;
  const float* k;
  const float* v;
  float keep;
  float write;
  bool corrects;  // writes what v is beside S^T k, else v
  int key_dim;
  int value_dim;
  float* out;
};

struct Kernels {
  const char* name;

  /// How many of the rows that are left are multiplied together next: the rows of a call are cut
  /// into such blocks from the first on.
  int (*block_rows)(int rows_left, bool float_weights);
  /// From so many rows on a call is better long: it does work before and after the multiplying.
  int wide_rows;
  void (*multiply)(const MultiplyCall& call);
  /// Of bf16 weights with inputs rounded to bf16: two products in the time of one, on processors
  /// that have instructions for it.
  void (*multiply_rounded)(const MultiplyCall& call);
  /// Rounds `n` inputs, and writes `rounded_bytes` for each: bf16, or the same value as f32.
  void (*round)(const float* x, int n, std::byte* out);
  int rounded_bytes;
  /// Quantises `cols` floats, and zeros up to `groups` * 32 <= kLongestSegment.
  void (*quantize)(const float* x, int cols, int groups, const QuantizedRow& out);

  /// out = x / sqrt(mean(x^2) + epsilon) * weight. out may be x.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int n, float* out);
  /// out = gate / (1 + exp(-gate)) * up.
  void (*silu_gate)(const float* gate, const float* up, int n, float* out);
  /// out = x / (1 + exp(-x)). out may be x.
  void (*silu)(const float* x, int n, float* out);
  /// out = 1 / (1 + exp(-x)). out may be x.
  void (*sigmoid)(const float* x, int n, float* out);
  /// out = (x - mean) / sqrt(variance + epsilon) * weight + bias. out may be x; bias may be null.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float epsilon, int n,
                     float* out);
  /// One of the functions of linear()'s inputs that are not above; b: the second half of a gate's
  /// input, else null. xielu: of that function. out may be a.
  void (*transform)(InputTransform transform, const Xielu& xielu, const float* a, const float* b,
                    int n, float* out);
  /// out = cap * tanh(x / cap). out may be x.
  void (*soft_cap)(const float* x, float cap, int n, float* out);
  /// out = a + factor * b. out may be a or b.
  void (*add_scaled)(const float* a, const float* b, float factor, int n, float* out);
  void (*add)(const float* a, const float* b, int n, float* out);
  void (*softmax)(const float* x, float temperature, int n, float* out);
  /// The smallest index of the largest value, NaN never chosen; 0 if all are NaN. top: that value,
  /// or NaN if there is one.
  int (*argmax)(const float* x, int n, float* top);
  /// The first index in [begin, n) with x[i] > limit, n if none.
  int (*find_above)(const float* x, int begin, int n, float limit);

  /// Rotates one head in place by cos[dim / 2], sin[dim / 2] (pairs i, i + dim / 2), then
  /// multiplies by `scale`.
  void (*rotate)(float* x, const float* cos_sin, float scale, int dim);
  void (*store_half)(const float* x, int n, std::uint16_t* out);
  /// The nearest bf16 values; numbers below the normal ones become 0.
  void (*store_bf16)(const float* x, int n, std::uint16_t* out);
  void (*attend)(const AttentionCall& call);
  /// Of a bf16 cache, with queries and weights rounded to bf16.
  void (*attend_pairs)(const AttentionCall& call);
  /// Joins `count` partials at `next` to those at `totals` (largest score, sum, values), in the
  /// order of positions; each is `size` floats long.
  void (*join)(float* totals, const float* next, int count, int size);
  /// out = values / sum.
  void (*finish)(const float* total, int dim, float* out);

  /// out = silu(bias + sum of filter * inputs), or gate times the sum, which begins with the oldest
  /// input.
  void (*convolve)(const Convolution& c, float* out);
  void (*state_step)(const StateStep& step);
};

const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const Kernels& avx512_bf16_kernels();
const Kernels& amx_kernels();

/// Whether products of 16 bf16 pairs take less time than the two float32 products each that give
/// the same, which is not so on every processor. Measured once, in half a millisecond. REQUIRES:
/// supported(CpuKernels::avx512_bf16).
bool bf16_pairs_are_fast();

}  // namespace talon::cpu
