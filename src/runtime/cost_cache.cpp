#include "runtime/cost_cache.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/machine.h"

namespace talon {

CostCache cost_cache(const LoadedModel& loaded, KvType cache_type, std::filesystem::path folder) {
  const Machine machine = describe_machine();
  std::error_code ignored;
  const std::string model = std::filesystem::weakly_canonical(loaded.path, ignored).string();
  return {
      std::move(folder),
      fmt::format("{}, {} processors; talon {}; {}, {} bytes of weights, {}; {} threads, {}, "
                  "{} inputs, cache {}",
                  machine.processor, machine.processors, build_commit(), model,
                  loaded.model.weight_bytes, name_of(loaded.weights), loaded.threads,
                  loaded.backend->description(), name_of(loaded.activations), name_of(cache_type))};
}

}  // namespace talon
