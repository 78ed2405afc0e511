// avx512_kernels() with the processor's own products of bf16 pairs.
#include <chrono>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/lanes_avx512.h"
#include "backend/cpu/kernels/loops_attention_pairs.h"
#include "backend/cpu/kernels/loops_rounded.h"

namespace talon::cpu {
namespace {

/// 16 pairs of weights, inputs as bf16.
struct Bf16Pairs {
  static constexpr int kInputBytes = 2;
  __m512i weights;

  Bf16Pairs() = default;
  explicit Bf16Pairs(const std::byte* p) : weights(_mm512_loadu_si512(p)) {}
  Floats dot(Floats sum, const std::byte* x) const {
    std::int32_t pair;
    __builtin_memcpy(&pair, x, 4);
    return {_mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(weights),
                             reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair)))};
  }
  template <int kRows>
  static void add_dots(const std::byte* weights, const std::byte* x, int stride,
                       Floats (&sum)[kRows]) {
    const Bf16Pairs pairs(weights);
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) sum[row] = pairs.dot(sum[row], x + row * stride);
  }
  Bf16Pairs only(int half) const {
    Bf16Pairs result = *this;
    const __mmask32 kept = half == 0 ? 0x55555555 : 0xAAAAAAAA;
    result.weights = _mm512_maskz_mov_epi16(kept, weights);
    return result;
  }
  static void round_two_vectors(const float* x, std::byte* out) {
    const __m512bh pairs = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + kLanes), _mm512_loadu_ps(x));
    _mm512_storeu_si512(out, reinterpret_cast<__m512i>(pairs));
  }
};

Kernels make_table() {
  Kernels table = avx512_kernels();
  table.name = "avx512_bf16";
  table.rounded_bytes = Bf16Pairs::kInputBytes;
  table.round = round_row<Bf16Pairs>;
  table.store_bf16 = [](const float* x, int n, std::uint16_t* out) {
    round_row<Bf16Pairs>(x, n, reinterpret_cast<std::byte*>(out));
  };
  table.multiply_rounded = multiply_rounded<Bf16Pairs>;
  table.attend_pairs = attend_pairs<Bf16Pairs>;
  return table;
}

/// Of some thousand steps of chains that do not wait for each other: 3 to 10 microseconds.
template <typename Step>
std::chrono::steady_clock::duration time_of(Step&& step) {
  constexpr int kChains = 12, kSteps = 500;
  __m512 sums[kChains] = {};
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kSteps; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : sums) {
      sum = step(sum);
      asm volatile("" : "+v"(sum));
    }
  }
  return std::chrono::steady_clock::now() - begin;
}

}  // namespace

const Kernels& avx512_bf16_kernels() {
  static const Kernels kTable = make_table();
  return kTable;
}

bool bf16_pairs_are_fast() {
  static const bool kAreFast = [] {
    constexpr int kTurns = 51;
    const __m512 x = _mm512_set1_ps(0.5F);
    const auto pairs = reinterpret_cast<__m512bh>(x);
    int faster = 0;
    for (int turn = 0; turn < kTurns; ++turn) {
      const auto of_pairs =
          time_of([&](__m512 sum) { return _mm512_dpbf16_ps(sum, pairs, pairs); });
      const auto of_floats =
          time_of([&](__m512 sum) { return _mm512_fmadd_ps(x, x, _mm512_fmadd_ps(x, x, sum)); });
      if (of_pairs < of_floats) ++faster;
    }
    return faster > kTurns / 2;
  }();
  return kAreFast;
}

}  // namespace talon::cpu
