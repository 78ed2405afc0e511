#include "backend/cpu/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "core/error.h"

namespace talon::cpu {
namespace {

// __builtin_cpu_supports asks XGETBV too: it says no where the system does not save the registers.
bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}

bool has_avx512_vnni() {
#if defined(__x86_64__)
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi");
#else
  return false;
#endif
}

/// Beside AVX-512 with VNNI, products of bf16 pairs.
bool has_avx512_bf16() {
#if defined(__x86_64__)
  return has_avx512_vnni() && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

/// AMX tiles are large: beside the processor, the system must be asked for leave to use them, once
/// per process.
bool has_amx() {
#if defined(__x86_64__)
  constexpr unsigned kAmxTile = 1U << 24;
  constexpr unsigned kAmxInt8 = 1U << 25;
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return has_avx512_bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAmxTile) != 0 &&
         (d & kAmxInt8) != 0 && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

std::string_view name_of(CpuKernels kernels) {
  switch (kernels) {
    case CpuKernels::best:
      return "best";
    case CpuKernels::portable:
      return "portable";
    case CpuKernels::avx2:
      return "avx2";
    case CpuKernels::avx512_vnni:
      return "avx512_vnni";
    case CpuKernels::avx512_bf16:
      return "avx512_bf16";
    case CpuKernels::amx:
      return "amx";
  }
  return "unknown";
}

bool supported(CpuKernels kernels) {
  switch (kernels) {
    case CpuKernels::avx2:
      return has_avx2();
    case CpuKernels::avx512_vnni:
      return has_avx512_vnni();
    case CpuKernels::avx512_bf16:
      return has_avx512_bf16();
    case CpuKernels::amx:
      return has_amx();
    case CpuKernels::best:
    case CpuKernels::portable:
      return true;
  }
  return false;
}

const Kernels& choose_kernels(CpuKernels wanted) {
  if (!supported(wanted)) {
    throw UsageError(
        fmt::format("choose CPU kernels: expected ones this processor and system run, got \"{}\"",
                    name_of(wanted)));
  }
#if defined(__x86_64__)
  const bool best = wanted == CpuKernels::best;
  if (wanted == CpuKernels::amx || (best && has_amx())) return amx_kernels();
  if (wanted == CpuKernels::avx512_bf16 || (best && has_avx512_bf16()))
    return avx512_bf16_kernels();
  if (wanted == CpuKernels::avx512_vnni || (best && has_avx512_vnni())) return avx512_kernels();
  if (wanted == CpuKernels::avx2 || (best && has_avx2())) return avx2_kernels();
#endif
  return portable_kernels();
}

const Kernels& choose_attention_kernels(CpuKernels wanted) {
#if defined(__x86_64__)
  if (wanted == CpuKernels::best && has_avx512_bf16() && !bf16_pairs_are_fast())
    return avx512_kernels();
#endif
  return choose_kernels(wanted);
}

}  // namespace talon::cpu
