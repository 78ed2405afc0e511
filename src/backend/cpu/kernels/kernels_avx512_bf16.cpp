// avx512_kernels() with the processor's own products of bf16 pairs.
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

}  // namespace

const Kernels& avx512_bf16_kernels() {
  static const Kernels kTable = make_table();
  return kTable;
}

}  // namespace talon::cpu
