#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>

namespace talon {

/// Bytes that this process may still take before the system or a control group of its own, version
/// 1 or 2, ends it: the least of what they leave, where memory that only caches files counts as
/// left. Nothing if the system does not tell. `root`: as of cgroup_folders().
std::optional<std::size_t> available_memory(const std::filesystem::path& root = "/");

/// For what takes its memory page by page, so that without this a budget that is not there ends the
/// process in the middle of an answer. Throws Error if `bytes` are more than available_memory()
/// without what is `promised` to others; `doing`: what for, "open cache".
void require_available(std::size_t bytes, std::string_view doing, std::size_t promised = 0);

}  // namespace talon
