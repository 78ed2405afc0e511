#include "cli/pull/hub_listing.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <span>
#include <utility>

#include "cli/pull/hub.h"
#include "core/error.h"
#include "io/atomic_file.h"
#include "io/json_text.h"
#include "io/quote.h"

namespace talon {
namespace {

constexpr std::size_t kMostFiles = 10000;

bool is_sha256(const std::string& text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c); });
}

/// One part of an address, and of no path.
bool is_commit(const Json& text) {
  if (!text.is_string()) return false;
  const std::string commit = text.get<std::string>();
  return is_safe_path(commit) && commit.find('/') == std::string::npos;
}

std::optional<std::uint64_t> bytes_in(const Json& entry) {
  const auto size = entry.find("size");
  if (size == entry.end() || !size->is_number_unsigned()) return {};
  return size->get<std::uint64_t>();
}

HubFile read_file(const Json& entry, const std::string& doing) {
  HubFile file;
  const auto name = entry.find("rfilename");
  if (name == entry.end() || !name->is_string()) {
    fail("{}: expected files with names (\"rfilename\"), found {}", doing, quote(entry.dump()));
  }
  file.path = name->get<std::string>();
  file.bytes = bytes_in(entry);
  const auto large = entry.find("lfs");
  if (large == entry.end() || !large->is_object()) return file;
  if (!file.bytes) file.bytes = bytes_in(*large);
  for (const char* key : {"sha256", "oid"}) {
    const auto sum = large->find(key);
    if (sum != large->end() && sum->is_string() && is_sha256(sum->get<std::string>())) {
      file.sha256 = sum->get<std::string>();
    }
  }
  std::ranges::transform(file.sha256, file.sha256.begin(),
                         [](unsigned char c) { return std::tolower(c); });
  return file;
}

void keep_first_of_each_path(std::vector<HubFile>& files) {
  std::ranges::stable_sort(files, {}, &HubFile::path);
  const auto repeated = std::ranges::unique(files, {}, &HubFile::path);
  files.erase(repeated.begin(), repeated.end());
}

std::string text_of_listing(const HubListing& listing) {
  Json json;
  json["sha"] = listing.commit;
  json["siblings"] = Json::array();
  for (const HubFile& file : listing.files) {
    Json entry;
    entry["rfilename"] = file.path;
    if (file.bytes) entry["size"] = *file.bytes;
    if (!file.sha256.empty()) entry["lfs"]["sha256"] = file.sha256;
    json["siblings"].push_back(std::move(entry));
  }
  return json.dump(2) + "\n";
}

/// All that is in the file; empty: nothing, or there is none.
std::string text_of_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

HubListing read_listing(std::string_view text, const std::string& doing) {
  const Json json = parse_json(text, doing);
  HubListing listing;
  const auto commit = json.is_object() ? json.find("sha") : json.end();
  const auto files = json.is_object() ? json.find("siblings") : json.end();
  if (commit == json.end() || !is_commit(*commit) || files == json.end() || !files->is_array() ||
      files->size() > kMostFiles) {
    fail("{}: expected \"sha\" and at most {} files as \"siblings\"", doing, kMostFiles);
  }
  listing.commit = commit->get<std::string>();
  for (const Json& entry : *files) {
    if (entry.is_object()) listing.files.push_back(read_file(entry, doing));
  }
  keep_first_of_each_path(listing.files);
  return listing;
}

void keep_listing(const std::filesystem::path& folder, const HubListing& listing) {
  const std::filesystem::path file = folder / kListingFile;
  const std::string text = text_of_listing(listing);
  if (text_of_file(file) != text) write_file(file, std::as_bytes(std::span(text)));
}

std::optional<HubListing> kept_listing(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kListingFile;
  const std::string text = text_of_file(file);
  if (text.empty()) return {};
  return read_listing(text, fmt::format("read {}", quote(file.string())));
}

}  // namespace talon
