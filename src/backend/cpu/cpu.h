#pragma once

#include <memory>
#include <span>
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
  int threads = 0;  // 0: all processors this process may use
  CpuKernels kernels = CpuKernels::best;
  Activations activations = Activations::bits8;
  bool pin = true;
};
/// Throws UsageError if this machine lacks the kernels asked for.
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options);

/// weights[i] = e^((logits[i] - largest) / temperature) with a relative error below 1e-15, exactly
/// 1 for the largest logit and 0 where the exponent is below -708: what a token is drawn by. On the
/// host, with the best instructions it has; the same bytes on every one. REQUIRES: no NaN,
/// `largest` finite, temperature > 0, as many weights as logits.
void token_weights(std::span<const float> logits, float largest, double temperature,
                   std::span<double> weights);

}  // namespace talon
