#pragma once

#include <string_view>

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/kernels.h"

namespace talon::cpu {

/// The fastest first.
inline constexpr CpuKernels kAllKernels[] = {CpuKernels::amx, CpuKernels::avx512_bf16,
                                             CpuKernels::avx512_vnni, CpuKernels::avx2,
                                             CpuKernels::portable};

std::string_view name_of(CpuKernels kernels);

/// Whether processor and operating system run these kernels.
bool supported(CpuKernels kernels);

/// The kernels asked for, or the best this machine runs. Throws UsageError if it lacks them.
const Kernels& choose_kernels(CpuKernels wanted);

/// Those for attention: as choose_kernels(), but the best are those without products of bf16 pairs
/// where these take longer than float32, which gives the same bytes.
const Kernels& choose_attention_kernels(CpuKernels wanted);

}  // namespace talon::cpu
