#include "bench/machine/multiply.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace talon {

#if defined(__x86_64__)
namespace {

constexpr int kAccumulators = 12;  // independent, to cover the latency of two ports

__attribute__((target("avx512f,avx512vnni"))) std::int32_t int8_loop(long iterations) {
  __m512i sums[kAccumulators];
  for (auto& sum : sums) sum = _mm512_setzero_si512();
  __m512i a = _mm512_set1_epi8(3);
  __m512i b = _mm512_set1_epi8(2);
  for (long n = 0; n < iterations; ++n) {
    asm volatile("" : "+v"(a), "+v"(b));  // else the compiler sees that every product is the same
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) sums[i] = _mm512_dpbusd_epi32(sums[i], a, b);
  }
  __m512i all = sums[0];
  for (const __m512i sum : sums) all = _mm512_xor_si512(all, sum);
  return static_cast<std::int32_t>(_mm512_test_epi32_mask(all, all));
}

/// Something that depends on all sums.
__attribute__((target("avx512f"))) std::int32_t any_of(const __m512 (&sums)[kAccumulators]) {
  __m512i all = _mm512_castps_si512(sums[0]);
  for (const __m512 sum : sums) all = _mm512_xor_si512(all, _mm512_castps_si512(sum));
  return static_cast<std::int32_t>(_mm512_test_epi32_mask(all, all));
}

__attribute__((target("avx512f"))) std::int32_t f32_loop(long iterations) {
  __m512 sums[kAccumulators];
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  __m512 a = _mm512_set1_ps(3);
  __m512 b = _mm512_set1_ps(2);
  for (long n = 0; n < iterations; ++n) {
    asm volatile("" : "+v"(a), "+v"(b));
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) sums[i] = _mm512_fmadd_ps(a, b, sums[i]);
  }
  return any_of(sums);
}

__attribute__((target("avx512f,avx512bf16"))) std::int32_t bf16_loop(long iterations) {
  __m512 sums[kAccumulators];
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  __m512i a = _mm512_set1_epi16(0x4040);
  __m512i b = _mm512_set1_epi16(0x4000);
  for (long n = 0; n < iterations; ++n) {
    asm volatile("" : "+v"(a), "+v"(b));
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) {
      sums[i] =
          _mm512_dpbf16_ps(sums[i], reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
    }
  }
  return any_of(sums);
}

}  // namespace

MultiplyKernel avx512_multiply_kernel(Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::f32) return {f32_loop, 16.0 * kAccumulators, "avx512 f32"};
  if (arithmetic == Arithmetic::bf16) return {bf16_loop, 32.0 * kAccumulators, "avx512 bf16"};
  return {int8_loop, 64.0 * kAccumulators, "avx512 vnni"};
}
#else
MultiplyKernel avx512_multiply_kernel(Arithmetic) { return {}; }
#endif

}  // namespace talon
