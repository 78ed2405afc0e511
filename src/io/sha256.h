#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace talon {

/// SHA-256 (FIPS 180-4) of bytes that come in pieces. Move-only.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  /// 64 lower-case hexadecimal digits. REQUIRES: called once, last.
  std::string finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256_of(std::span<const std::byte> bytes);
/// Throws Error if the file cannot be read. `read` is told how many bytes have been read so far;
/// what it throws ends the work.
std::string sha256_of_file(const std::filesystem::path& file,
                           const std::function<void(std::uint64_t bytes)>& read = {});

}  // namespace talon
