#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace talon {

/// The processors that this process may run on, by number; at least one.
std::vector<int> allowed_processors();

/// How many processors' worth of time the cgroups of this process, version 1 or 2, allow it: the
/// least quota over its period from its own group up to the outermost one that can be seen. Nothing
/// without a quota. `root`: as in cgroup.h.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

/// How many processors' worth of time this process may use: those it may run on, or fewer where a
/// cgroup has a quota. A part of one counts as one.
int available_processors();

/// How many workers to start where a user asks for `asked` threads; 0 leaves it to the machine:
/// available_processors(). Never more than there are processors, since workers that take turns on
/// one wait for each other.
int worker_count(int asked);

}  // namespace talon
