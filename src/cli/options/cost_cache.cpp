#include "cli/options/cost_cache.h"

#include <fmt/format.h>

#include <cstdlib>

#include "bench/provenance.h"

namespace talon {
namespace {

std::filesystem::path cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache) return std::filesystem::path(cache) / "talon" / "costs";
  const char* home = std::getenv("HOME");
  if (home && *home) return std::filesystem::path(home) / ".cache" / "talon" / "costs";
  return {};
}

}  // namespace

CostCache cost_cache(const Session& session, const ModelOptions& options) {
  const Machine machine = describe_machine();
  std::error_code ignored;
  const std::string model = std::filesystem::weakly_canonical(session.path, ignored).string();
  return {cache_folder(),
          fmt::format("{}, {} processors; talon {}; {}, {} bytes of weights, {}; {} threads, {}, "
                      "{} inputs, cache {}",
                      machine.processor, machine.processors, build_commit(), model,
                      session.model.weight_bytes, name_of(options.weights), thread_count(options),
                      session.backend->description(), name_of(session.activations),
                      options.kv == KvType::f16 ? "f16" : "f32")};
}

}  // namespace talon
