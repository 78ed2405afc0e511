#include <ranges>

#include "backend/cpu/cpu_features.h"
#include "bench/machine/bandwidth.h"
#include "bench/machine/multiply.h"
#include "bench/provenance.h"
#include "cli/inspect_report.h"
#include "cli/options/opened_model.h"

namespace talon {

Json inspect_machine(const ModelOptions& options) {
  const MultiplyRate multiply = measure_multiply_rate(options.threads);
  Json json = to_json(describe_machine());
  for (const CpuKernels kernels : std::views::reverse(cpu::kAllKernels))
    json["kernels"][std::string(cpu::name_of(kernels))] = cpu::supported(kernels);
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
