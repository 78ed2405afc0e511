#include "bench/spec/run_files.h"

#include <algorithm>

#include "io/sha256.h"

namespace talon {
namespace {

namespace fs = std::filesystem;
constexpr std::uintmax_t kMostHashed = std::uintmax_t{1} << 30;

Json contents_of_file(const fs::path& file) {
  const std::uintmax_t bytes = fs::file_size(file);
  if (bytes <= kMostHashed) return sha256_of_file(file);
  return {bytes, fs::last_write_time(file).time_since_epoch().count()};
}

/// The longest beginning of `text` that is there, since paths may hold what ends other values.
std::string file_before(std::string_view text) {
  std::error_code ignored;
  while (!text.empty() && !fs::exists(text, ignored)) {
    const std::size_t end = text.find_last_of(",+@");
    text = text.substr(0, end == text.npos ? 0 : end);
  }
  return std::string(text);
}

}  // namespace

Json contents_of(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return contents_of_file(path);
  if (!fs::is_directory(path, ignored)) return nullptr;
  Json files = Json::object();
  for (const auto& entry : fs::directory_iterator(path)) {
    if (!entry.is_regular_file(ignored)) continue;
    files[entry.path().filename().string()] = contents_of_file(entry.path());
  }
  return files;
}

std::set<std::string> files_named(std::string_view text) {
  std::set<std::string> files;
  for (std::size_t at = text.find('='); at != text.npos; at = text.find('=', at + 1)) {
    const std::string file = file_before(text.substr(at + 1));
    if (!file.empty()) files.insert(file);
  }
  return files;
}

std::set<std::string> heads_found(std::string_view drafter, const HeadFinder& heads) {
  std::set<std::string> found;
  for (const std::string_view part : split_drafters(drafter)) {
    const OptionText text(part);
    const DrafterEntry* entry = find_row(drafters(), text.name);
    const bool names_one = std::ranges::any_of(
        text.items, [](const OptionText::Item& item) { return item.key == "head"; });
    if (entry == nullptr || !entry->needs_head || names_one || !heads) continue;
    const std::string path = heads(text.name == "eagle" ? "eagle2" : text.name);
    if (!path.empty()) found.insert(path);
  }
  return found;
}

}  // namespace talon
