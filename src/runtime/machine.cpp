#include "runtime/machine.h"

#include <unistd.h>

#include <cmath>
#include <fstream>

#include "core/machine/processors.h"
#include "core/processor_caches.h"

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

}  // namespace talon
