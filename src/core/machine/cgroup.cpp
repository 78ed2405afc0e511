#include "core/machine/cgroup.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace talon {
namespace {

namespace fs = std::filesystem;

/// One tree of groups.
struct Hierarchy {
  bool is_v2 = false;
  std::string root;  // the group that is seen at the mount point
  fs::path mount;
};

bool has_item(std::string_view list, std::string_view item) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (list.substr(begin, end - begin) == item) return true;
    begin = end + 1;
  }
  return false;
}

/// "31 23 0:28 ROOT MOUNT OPTIONS [FIELD...] - TYPE SOURCE OPTIONS" (proc(5)).
std::optional<Hierarchy> parse_mount(const std::string& line, std::string_view controller,
                                     const fs::path& root) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string::npos) return std::nullopt;
  std::istringstream before(line.substr(0, dash)), after(line.substr(dash + 3));
  std::string skipped, group, mount, type, options;
  before >> skipped >> skipped >> skipped >> group >> mount;
  after >> type >> skipped >> options;
  const bool is_v2 = type == "cgroup2";
  if (!is_v2 && !(type == "cgroup" && has_item(options, controller))) return std::nullopt;
  return Hierarchy{is_v2, group, root / fs::path(mount).relative_path()};
}

std::vector<Hierarchy> hierarchies(std::string_view controller, const fs::path& root) {
  std::vector<Hierarchy> found;
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    if (auto hierarchy = parse_mount(line, controller, root))
      found.push_back(*std::move(hierarchy));
  }
  return found;
}

/// The group of this process: "0::GROUP" in version 2, "NUMBER:CONTROLLER,...:GROUP" in version 1.
std::string own_group(const Hierarchy& hierarchy, std::string_view controller,
                      const fs::path& root) {
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view controllers =
        std::string_view(line).substr(first + 1, second - first - 1);
    if (hierarchy.is_v2 ? line.starts_with("0::") : has_item(controllers, controller)) {
      return line.substr(second + 1);
    }
  }
  return "/";
}

/// Where the group lies under the mount point; empty if it cannot be seen there.
fs::path below_mount(const std::string& group, const Hierarchy& hierarchy) {
  const fs::path path = fs::path(group).lexically_relative(hierarchy.root);
  return path.empty() || *path.begin() == ".." || path == "." ? fs::path() : path;
}

}  // namespace

std::vector<CgroupFolder> cgroup_folders(std::string_view controller, const fs::path& root) {
  std::vector<CgroupFolder> folders;
  for (const Hierarchy& hierarchy : hierarchies(controller, root)) {
    fs::path group = below_mount(own_group(hierarchy, controller, root), hierarchy);
    folders.push_back({hierarchy.mount / group, hierarchy.is_v2});
    while (!group.empty()) {
      group = group.parent_path();
      folders.push_back({hierarchy.mount / group, hierarchy.is_v2});
    }
  }
  return folders;
}

}  // namespace talon
