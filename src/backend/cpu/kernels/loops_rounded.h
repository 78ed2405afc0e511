#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "backend/cpu/kernels/loops_output.h"

// Products of bf16 weights and inputs rounded to bf16, in terms of the lanes_*.h of one instruction
// set, which the including unit has included before. They are defined by what VDPBF16PS does: of a
// pair of products the second is added first, each sum is rounded once to float32, and numbers
// below the normal ones count as 0.
namespace talon::cpu {
namespace {

/// Numbers below the normal ones count as 0 while it lives, as operands and as results.
class FlushSubnormals {
 public:
#if defined(__SSE__)
  FlushSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero | kOperandsToo); }
  ~FlushSubnormals() { _mm_setcsr(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kOperandsToo = 0x0040;
  unsigned before_;
#endif
};

/// The nearest bf16 value, of two the even one, in the upper half. Numbers below the normal ones
/// become 0.
inline std::uint32_t rounded_bits(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  const std::uint32_t nearest = bits + 0x7FFF + ((bits >> 16) & 1);
  const std::uint32_t number = magnitude > 0x7F800000 ? bits | 0x400000 : nearest;
  return (magnitude < 0x00800000 ? bits & 0x80000000 : number) & 0xFFFF0000;
}

/// For instruction sets without products of bf16 pairs: 16 pairs of weights as floats, inputs as
/// floats of the rounded values.
struct FloatPairs {
  static constexpr int kInputBytes = 4;
  Floats first, second;

  FloatPairs() = default;
  explicit FloatPairs(const std::byte* weights)
      : first(load_bf16(weights, 0)), second(load_bf16(weights, 1)) {}
  /// sum + weights * the pair of inputs at x.
  Floats dot(Floats sum, const std::byte* x) const {
    const auto* pair = reinterpret_cast<const float*>(x);
    return fma(first, broadcast(pair[0]), fma(second, broadcast(pair[1]), sum));
  }
  /// sum[row] + weights * the pair of inputs at x + row * stride, for all rows. One half of the
  /// weights at a time, so that few registers hold weights.
  template <int kRows>
  static void add_dots(const std::byte* weights, const std::byte* x, int stride,
                       Floats (&sum)[kRows]) {
#pragma GCC unroll 2
    for (int half = 1; half >= 0; --half) {
      const Floats some = load_bf16(weights, half);
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row) {
        const auto* pair = reinterpret_cast<const float*>(x + row * stride);
        sum[row] = fma(some, broadcast(pair[half]), sum[row]);
      }
    }
  }
  /// These pairs with `half` of each alone; the other is 0.
  FloatPairs only(int half) const {
    FloatPairs result = *this;
    (half == 0 ? result.second : result.first) = zero_floats();
    return result;
  }
  /// Of 32 numbers. `out` may be where they lie.
  static void round_two_vectors(const float* x, std::byte* out) {
    for (int i = 0; i < 2 * kLanes; ++i) {
      const std::uint32_t bits = rounded_bits(x[i]);
      __builtin_memcpy(out + i * kInputBytes, &bits, kInputBytes);
    }
  }
};

/// Adds one tile times all rows to `total`. Even and odd pairs are summed apart, so that the
/// additions do not wait for each other.
template <typename Pairs, int kRows>
inline void multiply_rounded_tile(const MultiplyCall& call, const std::byte* tile,
                                  Floats (&total)[kRows]) {
  constexpr int kPairs = kLanes / 2;  // of inputs in a unit
  constexpr int kVectorBytes = 64;    // 16 outputs of a pair
  constexpr int kPairBytes = 2 * Pairs::kInputBytes;
  constexpr int kRowBytes = kPairs * kPairBytes;
  Floats odd[kRows];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) odd[row] = zero_floats();
  const std::byte* x = call.input;
  for (int u = 0; u < call.units; ++u, tile += kPairs * kVectorBytes, x += kRows * kRowBytes) {
#pragma GCC unroll 4
    for (int i = 0; i < kPairs; i += 2) {
      const std::byte* vectors = tile + kVectorBytes * i;
      prefetch(vectors + call.prefetch);
      prefetch(vectors + kVectorBytes + call.prefetch);
      const std::byte* pair = x + i * kPairBytes;
      Pairs::add_dots(vectors, pair, kRowBytes, total);
      Pairs::add_dots(vectors + kVectorBytes, pair + kPairBytes, kRowBytes, odd);
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) total[row] = add(total[row], odd[row]);
}

template <typename Pairs, int kRows = kMaxFloatRows>
void multiply_rounded(const MultiplyCall& call) {
  if constexpr (kRows > 1) {
    if (call.rows < kRows) return multiply_rounded<Pairs, kRows - 1>(call);
  }
  const FlushSubnormals flush;
  for (int t = 0; t < call.tile_count; ++t) {
    Floats total[kRows];
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) total[row] = zero_floats();
    prefetch_rows<kRows>(call, t * kLanes);
    multiply_rounded_tile<Pairs>(call, call.tiles + static_cast<std::size_t>(t) * call.tile_bytes,
                                 total);
    write_rows(call, t * kLanes, total);
  }
}

template <typename Pairs>
void round_row(const float* x, int n, std::byte* out) {
  constexpr int kStep = 2 * kLanes;
  int i = 0;
  for (; i + kStep <= n; i += kStep) Pairs::round_two_vectors(x + i, out + i * Pairs::kInputBytes);
  if (i == n) return;
  float rest[kStep] = {};
  std::byte rounded[kStep * Pairs::kInputBytes];
  __builtin_memcpy(rest, x + i, static_cast<std::size_t>(n - i) * sizeof(float));
  Pairs::round_two_vectors(rest, rounded);
  __builtin_memcpy(out + i * Pairs::kInputBytes, rounded,
                   static_cast<std::size_t>((n - i) * Pairs::kInputBytes));
}

inline void store_bf16_row(const float* x, int n, std::uint16_t* out) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) {
      out[i + j] = static_cast<std::uint16_t>(rounded_bits(x[i + j]) >> 16);
    }
  }
  for (; i < n; ++i) out[i] = static_cast<std::uint16_t>(rounded_bits(x[i]) >> 16);
}

}  // namespace
}  // namespace talon::cpu
