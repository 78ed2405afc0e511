#pragma once

#include <cstdint>
#include <string_view>

#include "backend/cpu/cpu.h"

namespace talon {

/// bf16: products of pairs with float32 sums, where there are instructions for it, else as f32.
enum class Arithmetic { int8, bf16, f32 };

/// How fast this machine multiplies and adds, in 10^9 multiply-accumulates a second over all
/// `threads` (0: all processors this process may use), with the instructions that `kernels` have
/// for it. The best of several short runs of independent accumulations from registers: an upper
/// bound that no matrix product reaches.
struct MultiplyRate {
  double gmac_s = 0;
  std::string_view instruction;  // "amx int8", "avx512 bf16", "avx2", "portable", ...
};
MultiplyRate measure_multiply_rate(int threads, Arithmetic arithmetic = Arithmetic::int8,
                                   CpuKernels kernels = CpuKernels::best);

/// A loop of multiply-accumulates in one instruction set; returns something that depends on all of
/// them.
using MultiplyLoop = std::int32_t (*)(long iterations);
struct MultiplyKernel {
  MultiplyLoop loop = nullptr;
  double macs_per_iteration = 0;
  std::string_view instruction;
};
/// For processors that have the instructions; empty (null loop) where the build lacks them.
MultiplyKernel amx_multiply_kernel();  // int8
MultiplyKernel avx512_multiply_kernel(Arithmetic arithmetic);
MultiplyKernel avx2_multiply_kernel(Arithmetic arithmetic);

}  // namespace talon
