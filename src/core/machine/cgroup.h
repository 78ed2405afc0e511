#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace talon {

/// A control group that limits this process.
struct CgroupFolder {
  std::filesystem::path path;
  bool is_v2 = false;  // else version 1: other file names
};

/// The groups of this process that have `controller` ("cpu", "memory"), from its own to the
/// outermost that can be seen. `root`: where /proc and the mount points that /proc/self/mountinfo
/// names are found.
std::vector<CgroupFolder> cgroup_folders(std::string_view controller,
                                         const std::filesystem::path& root = "/");

}  // namespace talon
