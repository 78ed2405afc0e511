#include "bench/provenance.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <fstream>
#include <utility>

#include "core/processor_caches.h"
#include "core/thread_pool.h"

#ifndef TALON_COMMIT
#define TALON_COMMIT "unknown"
#endif

namespace talon {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

double tenth(double value) { return std::round(value * 10) / 10; }

}  // namespace

std::string_view build_commit() { return TALON_COMMIT; }

Machine describe_machine() {
  Machine machine;
  machine.processor = processor_name();
  machine.processors = available_processors();
  const double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  machine.memory_gib = tenth(static_cast<double>(sysconf(_SC_PHYS_PAGES)) * page / (1 << 30));
  machine.last_level_cache_mib = tenth(static_cast<double>(cache_bytes(3)) / (1 << 20));
  return machine;
}

Json to_json(const Machine& machine) {
  return {{"processor", machine.processor},
          {"processors", machine.processors},
          {"memory_gib", machine.memory_gib},
          {"last_level_cache_mib", machine.last_level_cache_mib}};
}

Json provenance(Json settings) {
  return {{"commit", build_commit()},
          {"date", fmt::format("{:%Y-%m-%dT%H:%MZ}", fmt::gmtime(std::time(nullptr)))},
          {"machine", to_json(describe_machine())},
          {"settings", std::move(settings)}};
}

}  // namespace talon
