#include "backend/cpu/cpu.h"
#include "bench/machine/bandwidth.h"
#include "bench/machine/multiply.h"
#include "bench/provenance.h"
#include "cli/inspect_report.h"
#include "cli/options/session.h"
#include "core/error.h"

namespace talon {
namespace {

/// Whether this processor can run the kernels.
bool available(CpuKernels kernels) {
  try {
    CpuOptions options;
    options.threads = 1;
    options.kernels = kernels;
    make_cpu_backend(options);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

}  // namespace

Json inspect_machine(const ModelOptions& options) {
  const MultiplyRate multiply = measure_multiply_rate(options.threads);
  Json json = to_json(describe_machine());
  json["kernels"] = {{"portable", available(CpuKernels::portable)},
                     {"avx2", available(CpuKernels::avx2)},
                     {"avx512_vnni", available(CpuKernels::avx512_vnni)},
                     {"avx512_bf16", available(CpuKernels::avx512_bf16)},
                     {"amx", available(CpuKernels::amx)}};
  json["backend"] = make_backend(options)->description();
  json["threads"] = thread_count(options);
  json["bandwidth_gb_s"] = read_bandwidth_gb_s(options.threads, kProbeBytes);
  json["multiply_gmac_s"] = multiply.gmac_s;
  json["multiply_instruction"] = multiply.instruction;
  json["commit"] = build_commit();
  return json;
}

std::string machine_text(const Json& report) {
  std::string kernels;
  for (const auto& [name, here] : report["kernels"].items()) {
    if (here.get<bool>()) kernels += (kernels.empty() ? "" : ", ") + name;
  }
  return fmt::format(
      "processor   {}, {} processors, {} GiB memory, {} MiB last-level cache\n"
      "kernels     {}\n"
      "chosen      {}\n"
      "bandwidth   {:.1f} GB/s read by {} threads\n"
      "multiply    {:.0f} GMAC/s of 8-bit integers ({})\n",
      report["processor"].get<std::string>(), report["processors"].get<int>(),
      report["memory_gib"].get<double>(), report["last_level_cache_mib"].get<double>(), kernels,
      report["backend"].get<std::string>(), report["bandwidth_gb_s"].get<double>(),
      report["threads"].get<int>(), report["multiply_gmac_s"].get<double>(),
      report["multiply_instruction"].get<std::string>());
}

}  // namespace talon
