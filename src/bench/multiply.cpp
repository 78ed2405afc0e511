#include "bench/multiply.h"

#include <algorithm>
#include <atomic>

#include "core/thread_pool.h"
#include "engine/stopwatch.h"

namespace talon {
namespace {

constexpr int kRuns = 5;
constexpr double kRunMs = 15;

std::int32_t portable_loop(long iterations) {
  std::int8_t a[64];
  std::int8_t b[64];
  std::int32_t sums[64] = {};
  for (int i = 0; i < 64; ++i) {
    a[i] = static_cast<std::int8_t>(i);
    b[i] = static_cast<std::int8_t>(64 - i);
  }
  for (long n = 0; n < iterations; ++n) {
    for (int i = 0; i < 64; ++i) sums[i] += a[i] * b[i];
    asm volatile("" : : "r"(sums), "r"(a), "r"(b) : "memory");
  }
  std::int32_t all = 0;
  for (const std::int32_t sum : sums) all += sum;
  return all;
}

MultiplyKernel best_kernel() {
  if (const MultiplyKernel kernel = avx512_multiply_kernel(); kernel.loop) return kernel;
  if (const MultiplyKernel kernel = avx2_multiply_kernel(); kernel.loop) return kernel;
  return {portable_loop, 64, "portable"};
}

double ms_of(ThreadPool& pool, const MultiplyKernel& kernel, long iterations) {
  std::atomic<std::int32_t> sink{0};
  const Stopwatch watch;
  pool.run([&](int) { sink += kernel.loop(iterations); });
  return watch.ms();
}

}  // namespace

MultiplyRate measure_multiply_rate(int threads) {
  ThreadPool pool(threads > 0 ? threads : available_processors());
  const MultiplyKernel kernel = best_kernel();
  long iterations = 1000;
  while (ms_of(pool, kernel, iterations) < kRunMs) iterations *= 2;
  double best_ms = ms_of(pool, kernel, iterations);
  for (int run = 1; run < kRuns; ++run)
    best_ms = std::min(best_ms, ms_of(pool, kernel, iterations));
  const double macs = kernel.macs_per_iteration * static_cast<double>(iterations) * pool.threads();
  return {macs / best_ms / 1e6, kernel.instruction};
}

}  // namespace talon
