#include "bench/multiply.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace talon {

#if defined(__x86_64__)
namespace {

constexpr int kAccumulators = 8;

__attribute__((target("avx2"))) std::int32_t loop(long iterations) {
  __m256i sums[kAccumulators];
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  __m256i a = _mm256_set1_epi8(3);
  __m256i b = _mm256_set1_epi8(2);
  const __m256i ones = _mm256_set1_epi16(1);
  for (long n = 0; n < iterations; ++n) {
#pragma GCC unroll 8
    for (int i = 0; i < kAccumulators; ++i) {
      asm volatile("" : "+x"(a), "+x"(b));  // else the compiler sees that every product is the same
      sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
    }
  }
  std::int32_t all = 0;
  for (const __m256i sum : sums) {
    alignas(32) std::int32_t lanes[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sum);
    for (const std::int32_t lane : lanes) all += lane;
  }
  return all;
}

}  // namespace

MultiplyKernel avx2_multiply_kernel() {
  if (!__builtin_cpu_supports("avx2")) return {};
  return {loop, 32.0 * kAccumulators, "avx2"};
}
#else
MultiplyKernel avx2_multiply_kernel() { return {}; }
#endif

}  // namespace talon
