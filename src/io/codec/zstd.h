#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace talon {

/// The contents of a .zst file, decompressed. Throws Error if it cannot be read, is damaged or cut
/// off, or holds more than `most_bytes`.
std::string read_zstd(const std::filesystem::path& file,
                      std::size_t most_bytes = std::size_t{1} << 30);

}  // namespace talon
