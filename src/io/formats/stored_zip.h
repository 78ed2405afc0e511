#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace talon {

/// One file of a zip archive that is stored as it is. `bytes` borrows from the archive.
struct ZipEntry {
  std::string name;
  std::span<const std::byte> bytes;
};

/// Lists a zip archive (PKWARE APPNOTE 6.3, zip64 included) whose entries are neither compressed
/// nor encrypted, as torch writes them. Goes by the central directory; every entry must lie before
/// it, and no two entries may overlap or have the same name. Checksums are not computed. Throws
/// Error, beginning with `doing`.
std::vector<ZipEntry> read_stored_zip(std::span<const std::byte> archive, const std::string& doing);

}  // namespace talon
