#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "core/scratch_folder.h"

namespace talon::test {

/// A folder that looks like the root of a machine: what cgroup_folders() calls `root`.
class FakeRoot : public ScratchFolder {
 public:
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((path() / file).parent_path());
    std::ofstream(path() / file) << text;
  }
};

}  // namespace talon::test
