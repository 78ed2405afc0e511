#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace talon {

/// A file that appears under its name only when it is whole: bytes go to a file beside it (its
/// name, the process and a number, `.tmp`), which commit() flushes to the disk and renames.
/// Destroyed before that, it leaves nothing behind. A link is followed; a device, a pipe and a
/// folder are refused. Every failure (no such folder, disk full, ...) throws Error with the path
/// and the system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);

  /// Replaces an older file of that name, if any. REQUIRES: not called before.
  void commit();

 private:
  void give_up();

  std::filesystem::path path_;
  std::filesystem::path aside_;
  int descriptor_ = -1;
  int noted_ = -1;  // where remove_files_aside() finds it; -1: nowhere
};

/// Removes what all AtomicFiles of the process have written beside their files so far; none may be
/// used afterwards. For a signal handler that ends the process. Of very many at once, or of very
/// long names, some stay.
void remove_files_aside() noexcept;

/// The whole of it in one call.
void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace talon
