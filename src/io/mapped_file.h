#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "io/shrink_guard.h"

namespace talon {

/// A whole file, read-only, mapped into memory. Move-only. Opening throws Error for a directory, an
/// unreadable or an empty file, naming the path and the system's reason.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::filesystem::path& path() const { return path_; }

  /// Throws Error if bytes that were read are no longer in the file: another program made it
  /// shorter, and they read as zeros. Whoever has read asks before using what they said.
  void check_whole() const;

  /// Gives back the memory of what has been read so far; reading it again fetches it anew.
  void forget_pages() const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  ShrinkGuard guard_;
};

}  // namespace talon
