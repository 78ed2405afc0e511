#include "core/machine/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/machine/cgroup.h"

namespace talon {
namespace {

/// Microseconds per microseconds; none for "max", -1 and files that are not there.
std::optional<double> quota_of(const CgroupFolder& group) {
  double quota = -1, period = 0;
  if (group.is_v2) {
    std::ifstream(group.path / "cpu.max") >> quota >> period;
  } else {
    std::ifstream(group.path / "cpu.cfs_quota_us") >> quota;
    std::ifstream(group.path / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

}  // namespace

std::optional<double> cpu_quota(const std::filesystem::path& root) {
  std::optional<double> least;
  for (const CgroupFolder& group : cgroup_folders("cpu", root)) {
    const auto quota = quota_of(group);
    if (quota) least = std::min(least.value_or(*quota), *quota);
  }
  return least;
}

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> allowed;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (CPU_ISSET(processor, &set)) allowed.push_back(processor);
    }
  }
  if (allowed.empty()) allowed.push_back(0);
  return allowed;
}

int available_processors() {
  const auto allowed = static_cast<int>(allowed_processors().size());
  const auto quota = cpu_quota();
  if (!quota || *quota >= allowed) return allowed;
  return std::max(1, static_cast<int>(std::ceil(*quota)));
}

int worker_count(int asked) {
  if (asked <= 0) return available_processors();
  return std::min(asked, static_cast<int>(allowed_processors().size()));
}

}  // namespace talon
