#pragma once

#include <memory>
#include <string_view>

#include "backend/backend.h"

namespace talon {

/// How the CPU rounds the inputs of int8 and int4 weights, in groups of 32 that share a scale: to 8
/// bits; to 16, nearly float32 at two products in place of one; or to 16 only in the few groups of
/// a row whose values are far larger than the others', since those make most of the error. With 8
/// bits and mixed, inputs of bf16 weights are rounded to bf16; with 16, all float weights have
/// float32 inputs.
enum class Activations { bits8, mixed, bits16 };
/// "8", "mixed" or "16".
std::string_view name_of(Activations activations);

enum class CpuKernels { best, portable, avx2, avx512_vnni, avx512_bf16, amx };
struct CpuOptions {
  int threads = 0;  // 0: as many as worker_count() (core/machine/processors.h) finds worth having
  CpuKernels kernels = CpuKernels::best;
  Activations activations = Activations::bits8;
  bool pin = true;
  bool adapt = true;  // works on fewer while others need the processors (core/worker_choice.h)
};
/// Throws UsageError if this machine lacks the kernels asked for.
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options);

}  // namespace talon
