#include "bench/provenance.h"

#include <fmt/chrono.h>

#include <ctime>
#include <utility>

namespace talon {

Json to_json(const Machine& machine) {
  return {{"processor", machine.processor},
          {"processors", machine.processors},
          {"memory_gib", machine.memory_gib},
          {"last_level_cache_mib", machine.last_level_cache_mib}};
}

std::string date_text() {
  return fmt::format("{:%Y-%m-%dT%H:%MZ}", fmt::gmtime(std::time(nullptr)));
}

Json provenance(Json settings) {
  return {{"commit", build_commit()},
          {"date", date_text()},
          {"machine", to_json(describe_machine())},
          {"settings", std::move(settings)}};
}

}  // namespace talon
