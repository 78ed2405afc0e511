#include "bench/machine/multiply.h"

#include <algorithm>
#include <atomic>

#include "backend/cpu/cpu_features.h"
#include "core/machine/processors.h"
#include "core/stopwatch.h"
#include "core/thread_pool.h"

namespace talon {
namespace {

constexpr int kRuns = 5;
constexpr double kRunMs = 15;

template <typename Value, typename Sum>
std::int32_t portable_loop(long iterations) {
  Value a[64];
  Value b[64];
  Sum sums[64] = {};
  for (int i = 0; i < 64; ++i) {
    a[i] = static_cast<Value>(i);
    b[i] = static_cast<Value>(64 - i);
  }
  for (long n = 0; n < iterations; ++n) {
    for (int i = 0; i < 64; ++i) sums[i] += static_cast<Sum>(a[i] * b[i]);
    asm volatile("" : : "r"(sums), "r"(a), "r"(b) : "memory");
  }
  bool any = false;
  for (const Sum sum : sums) any |= sum != 0;
  return any;
}

MultiplyKernel portable_multiply_kernel(Arithmetic arithmetic) {
  if (arithmetic != Arithmetic::int8) return {portable_loop<float, float>, 64, "portable f32"};
  return {portable_loop<std::int8_t, std::uint32_t>, 64, "portable"};
}

MultiplyKernel kernel_for(Arithmetic arithmetic, CpuKernels kernels) {
  const auto usable = [&](CpuKernels wanted) {
    return (kernels == CpuKernels::best || kernels == wanted) && cpu::supported(wanted);
  };
  if (usable(CpuKernels::amx)) {
    return arithmetic == Arithmetic::int8 ? amx_multiply_kernel()
                                          : avx512_multiply_kernel(arithmetic);
  }
  if (usable(CpuKernels::avx512_bf16)) return avx512_multiply_kernel(arithmetic);
  if (arithmetic == Arithmetic::bf16) return kernel_for(Arithmetic::f32, kernels);
  if (usable(CpuKernels::avx512_vnni)) return avx512_multiply_kernel(arithmetic);
  if (usable(CpuKernels::avx2)) return avx2_multiply_kernel(arithmetic);
  return portable_multiply_kernel(arithmetic);
}

double ms_of(ThreadPool& pool, const MultiplyKernel& kernel, long iterations) {
  std::atomic<std::int32_t> sink{0};
  const Stopwatch watch;
  pool.run([&](int) { sink += kernel.loop(iterations); });
  return watch.ms();
}

}  // namespace

MultiplyRate measure_multiply_rate(int threads, Arithmetic arithmetic, CpuKernels kernels) {
  ThreadPool pool(worker_count(threads));
  const MultiplyKernel kernel = kernel_for(arithmetic, kernels);
  long iterations = 1000;
  while (ms_of(pool, kernel, iterations) < kRunMs) iterations *= 2;
  double best_ms = ms_of(pool, kernel, iterations);
  for (int run = 1; run < kRuns; ++run)
    best_ms = std::min(best_ms, ms_of(pool, kernel, iterations));
  const double macs = kernel.macs_per_iteration * static_cast<double>(iterations) * pool.threads();
  return {macs / best_ms / 1e6, kernel.instruction};
}

}  // namespace talon
