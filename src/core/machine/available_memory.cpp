#include "core/machine/available_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "core/error.h"
#include "core/machine/cgroup.h"

namespace talon {
namespace {

namespace fs = std::filesystem;
using Bytes = std::optional<std::size_t>;

/// The number after `name` in a file of names and numbers.
Bytes field(const fs::path& file, std::string_view name) {
  std::ifstream stream(file);
  for (std::string word; stream >> word;) {
    std::size_t value = 0;
    if (word == name && stream >> value) return value;
  }
  return std::nullopt;
}

/// None for "max" and files that are not there.
Bytes number_in(const fs::path& file) {
  std::size_t value = 0;
  return std::ifstream(file) >> value ? Bytes(value) : std::nullopt;
}

Bytes least(Bytes a, Bytes b) { return a && b ? std::min(*a, *b) : (a ? a : b); }

Bytes left_in(const CgroupFolder& group) {
  const fs::path& folder = group.path;
  const auto limit =
      group.is_v2 ? least(number_in(folder / "memory.max"), number_in(folder / "memory.high"))
                  : number_in(folder / "memory.limit_in_bytes");
  const auto used = number_in(folder / (group.is_v2 ? "memory.current" : "memory.usage_in_bytes"));
  if (!limit || !used) return std::nullopt;
  const std::size_t of_files =
      field(folder / "memory.stat", group.is_v2 ? "inactive_file" : "total_inactive_file")
          .value_or(0);
  const std::size_t held = *used - std::min(*used, of_files);
  return *limit - std::min(*limit, held);
}

}  // namespace

std::optional<std::size_t> available_memory(const fs::path& root) {
  Bytes left = field(root / "proc/meminfo", "MemAvailable:");
  if (left) *left *= 1024;
  for (const CgroupFolder& group : cgroup_folders("memory", root)) {
    left = least(left, left_in(group));
  }
  return left;
}

void require_available(std::size_t bytes, std::string_view doing, std::size_t promised) {
  const auto available = available_memory();
  if (!available) return;
  const std::size_t left = *available - std::min(*available, promised);
  if (bytes <= left) return;
  fail("{}: expected at most {} MiB, the memory that is available, found {} MiB", doing, left >> 20,
       bytes >> 20);
}

}  // namespace talon
