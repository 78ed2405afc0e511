#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace talon {

struct HubFile {
  std::string path;
  std::optional<std::uint64_t> bytes = {};  // none: the hub does not say
  std::string sha256 = {};                  // in lower case; empty: the hub does not say
};
/// The files of a repository at one commit, sorted by path and each once.
struct HubListing {
  std::string commit;
  std::vector<HubFile> files;
};

/// What a hub's answer lists. Throws Error, beginning with `doing`, for text that is no listing.
/// Paths may be anything.
HubListing read_listing(std::string_view text, const std::string& doing);

/// The file in which a folder keeps the listing that it was last pulled whole by, as a hub has it.
inline constexpr std::string_view kListingFile = "talon.listing.json";
/// Keeps it in `folder`. Throws Error if that cannot be written.
void keep_listing(const std::filesystem::path& folder, const HubListing& listing);
/// What keep_listing() kept; none: nothing. Throws Error for a file that is no listing.
std::optional<HubListing> kept_listing(const std::filesystem::path& folder);

}  // namespace talon
