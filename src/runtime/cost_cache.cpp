#include "runtime/cost_cache.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/machine.h"

namespace talon {
namespace {

namespace fs = std::filesystem;

fs::path whole_path(const fs::path& path) {
  std::error_code ignored;
  return fs::weakly_canonical(path, ignored);
}

/// Of a file, or of those that lie in a folder; 0 where that cannot be told.
std::uintmax_t bytes_of(const fs::path& path) {
  std::error_code problem;
  std::uintmax_t bytes = fs::is_directory(path, problem) ? 0 : fs::file_size(path, problem);
  if (problem) return 0;
  for (fs::directory_iterator entry(path, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    std::error_code other;
    const std::uintmax_t of_file = entry->is_regular_file(other) ? entry->file_size(other) : 0;
    if (!other) bytes += of_file;
  }
  return bytes;
}

}  // namespace

CostCache cost_cache(const LoadedModel& loaded, KvType cache_type, std::filesystem::path folder) {
  const Machine machine = describe_machine();
  const std::string model = whole_path(loaded.path).string();
  return {
      std::move(folder),
      fmt::format("{}, {} processors; talon {}; {}, {} bytes of weights, {}; {} threads, {}, "
                  "{} inputs, cache {}",
                  machine.processor, machine.processors, build_commit(), model,
                  loaded.model.weight_bytes, name_of(loaded.weights), loaded.threads,
                  loaded.backend->description(), name_of(loaded.activations), name_of(cache_type))};
}

std::string costs_name(const std::string& drafter, const DrafterTraits& traits) {
  std::string name = drafter;
  for (const fs::path& weights : traits.weight_files) {
    name += fmt::format("; {}, {} bytes", whole_path(weights).string(), bytes_of(weights));
  }
  return name;
}

}  // namespace talon
