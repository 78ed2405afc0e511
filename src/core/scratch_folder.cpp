#include "core/scratch_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/error.h"

namespace talon {

ScratchFolder::ScratchFolder(const std::filesystem::path& start) {
  std::string name = start.string() + "XXXXXX";
  if (::mkdtemp(name.data()) == nullptr)
    fail("make a folder in {}: {}", start.parent_path().string(), std::strerror(errno));
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace talon
