#pragma once

#include <filesystem>

namespace talon {

/// A new folder that is nobody else's, removed at the end with all that is in it.
class ScratchFolder {
 public:
  /// Its path is `start` and six characters more. Throws Error where it cannot be made.
  explicit ScratchFolder(
      const std::filesystem::path& start = std::filesystem::temp_directory_path() / "talon-");
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace talon
