#pragma once

#include <filesystem>

namespace talon {

/// A folder of one process at a time, for as long as this lives.
class FolderTurn {
 public:
  /// Makes the folder if it is missing. Throws Error if that fails, or another process has it.
  explicit FolderTurn(const std::filesystem::path& folder);
  ~FolderTurn();
  FolderTurn(const FolderTurn&) = delete;
  FolderTurn& operator=(const FolderTurn&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace talon
