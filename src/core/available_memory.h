#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace talon {

/// Bytes that this process may still take before the system or a control group of its own, version
/// 1 or 2, ends it: the least of what they leave, where memory that only caches files counts as
/// left. Nothing if the system does not tell. `root`: as of cgroup_folders().
std::optional<std::size_t> available_memory(const std::filesystem::path& root = "/");

}  // namespace talon
