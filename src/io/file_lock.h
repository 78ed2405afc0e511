#pragma once

#include <filesystem>
#include <string>

namespace talon {

/// Keeps a file for one process at a time, as long as this lives: the system lets go of it when the
/// process ends in any way.
class FileLock {
 public:
  /// A file that is missing is made, empty. Throws Error that begins with `doing`: it cannot be
  /// opened for writing, or another process keeps it, which `taken` tells.
  FileLock(const std::filesystem::path& path, const std::string& doing, const std::string& taken);
  /// Likewise, but waits while another keeps it: for files that are kept for a moment.
  FileLock(const std::filesystem::path& path, const std::string& doing);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace talon
