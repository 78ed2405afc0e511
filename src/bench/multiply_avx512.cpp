#include "bench/multiply.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace talon {

#if defined(__x86_64__)
namespace {

constexpr int kAccumulators = 20;  // independent, to cover the latency of two ports

__attribute__((target("avx512f,avx512vnni"))) std::int32_t loop(long iterations) {
  __m512i sums[kAccumulators];
  for (auto& sum : sums) sum = _mm512_setzero_si512();
  __m512i a = _mm512_set1_epi8(3);
  __m512i b = _mm512_set1_epi8(2);
  for (long n = 0; n < iterations; ++n) {
    asm volatile("" : "+v"(a), "+v"(b));  // else the compiler sees that every product is the same
#pragma GCC unroll 20
    for (int i = 0; i < kAccumulators; ++i) sums[i] = _mm512_dpbusd_epi32(sums[i], a, b);
  }
  std::int32_t all = 0;
  for (const __m512i sum : sums) {
    alignas(64) std::int32_t lanes[16];
    _mm512_store_si512(lanes, sum);
    for (const std::int32_t lane : lanes) all += lane;
  }
  return all;
}

}  // namespace

MultiplyKernel avx512_multiply_kernel() {
  if (!__builtin_cpu_supports("avx512vnni")) return {};
  return {loop, 64.0 * kAccumulators, "avx512 vnni"};
}
#else
MultiplyKernel avx512_multiply_kernel() { return {}; }
#endif

}  // namespace talon
