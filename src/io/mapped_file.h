#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

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
  const std::filesystem::path& path() const { return path_; }

  /// Gives back the memory of what has been read so far; reading it again fetches it anew.
  void forget_pages() const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace talon
