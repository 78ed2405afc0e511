#pragma once

#include <cstdint>
#include <string_view>

namespace talon {

/// How fast this machine multiplies and adds 8-bit integers, in 10^9 multiply-accumulates a second
/// over all `threads` (0: all processors this process may use). The best of several short runs of
/// independent accumulations from registers: an upper bound that no matrix product reaches.
struct MultiplyRate {
  double gmac_s = 0;
  std::string_view instruction;  // "avx512 vnni", "avx2", "portable"
};
MultiplyRate measure_multiply_rate(int threads);

/// A loop of 8-bit dot products in one instruction set; returns something that depends on all of
/// them.
using MultiplyLoop = std::int32_t (*)(long iterations);
struct MultiplyKernel {
  MultiplyLoop loop = nullptr;
  double macs_per_iteration = 0;
  std::string_view instruction;
};
/// An empty kernel (null loop) where the processor or the build lacks the instructions.
MultiplyKernel avx512_multiply_kernel();
MultiplyKernel avx2_multiply_kernel();

}  // namespace talon
