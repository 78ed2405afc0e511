#include "bench/machine/multiply.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace talon {

#if defined(__x86_64__)
namespace {

constexpr int kInt8Accumulators = 8;
constexpr int kF32Accumulators = 10;

__attribute__((target("avx2"))) std::int32_t int8_loop(long iterations) {
  __m256i sums[kInt8Accumulators];
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  __m256i a = _mm256_set1_epi8(3);
  __m256i b = _mm256_set1_epi8(2);
  const __m256i ones = _mm256_set1_epi16(1);
  for (long n = 0; n < iterations; ++n) {
#pragma GCC unroll 8
    for (int i = 0; i < kInt8Accumulators; ++i) {
      asm volatile("" : "+x"(a), "+x"(b));  // else the compiler sees that every product is the same
      sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
    }
  }
  __m256i all = sums[0];
  for (const __m256i sum : sums) all = _mm256_xor_si256(all, sum);
  return _mm256_movemask_epi8(all);
}

__attribute__((target("avx2,fma"))) std::int32_t f32_loop(long iterations) {
  __m256 sums[kF32Accumulators];
  for (auto& sum : sums) sum = _mm256_setzero_ps();
  __m256 a = _mm256_set1_ps(3);
  __m256 b = _mm256_set1_ps(2);
  for (long n = 0; n < iterations; ++n) {
    asm volatile("" : "+x"(a), "+x"(b));
#pragma GCC unroll 10
    for (int i = 0; i < kF32Accumulators; ++i) sums[i] = _mm256_fmadd_ps(a, b, sums[i]);
  }
  __m256 all = sums[0];
  for (const __m256 sum : sums) all = _mm256_xor_ps(all, sum);
  return _mm256_movemask_ps(all);
}

}  // namespace

MultiplyKernel avx2_multiply_kernel(Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::f32) return {f32_loop, 8.0 * kF32Accumulators, "avx2 f32"};
  return {int8_loop, 32.0 * kInt8Accumulators, "avx2"};
}
#else
MultiplyKernel avx2_multiply_kernel(Arithmetic) { return {}; }
#endif

}  // namespace talon
