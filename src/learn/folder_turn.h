#pragma once

#include <filesystem>

#include "io/file_lock.h"

namespace talon {

/// A folder of one process at a time, for as long as this lives.
class FolderTurn {
 public:
  /// Makes the folder if it is missing. Throws Error if that fails, or another process has it.
  explicit FolderTurn(const std::filesystem::path& folder);

 private:
  FileLock lock_;
};

}  // namespace talon
