#include "runtime/heads.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "draft/registry.h"
#include "runtime/catalogue.h"

namespace talon {
namespace {

std::optional<std::filesystem::path> shipped_head(const std::string& folder) {
  std::error_code problem;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", problem).parent_path();
  for (const auto& place : {std::filesystem::path("models"), program.parent_path() / "models",
                            program.parent_path() / "share" / "talon" / "models"}) {
    if (std::filesystem::exists(place / folder / "config.json", problem)) return place / folder;
  }
  return std::nullopt;
}

/// One head serves EAGLE's static and dynamic trees.
std::string_view head_kind(std::string_view drafter) {
  return drafter == "eagle" ? "eagle2" : drafter;
}

std::string with_head(std::string_view part, const std::string& model) {
  const std::size_t colon = std::min(part.find(':'), part.size());
  const std::string_view name = part.substr(0, colon), options = part.substr(colon);
  const auto all = drafters();
  const bool needs_head = std::any_of(all.begin(), all.end(), [&](const DrafterEntry& entry) {
    return entry.name == name && entry.needs_head;
  });
  std::string text(part);
  if (!needs_head || options.starts_with(":head=") || options.find(",head=") != options.npos)
    return text;
  const auto head = shipped_head(model + "-" + std::string(head_kind(name)));
  if (!head) return text;
  return text + (options.empty() ? ":head=" : ",head=") + head->string();
}

}  // namespace

std::string with_shipped_heads(const std::string& drafters, const std::string& model) {
  if (!find_in_catalogue(model)) return drafters;
  std::string all;
  for (const std::string_view part : split_drafters(drafters)) {
    if (!all.empty()) all += '+';
    all += with_head(part, model);
  }
  return all;
}

}  // namespace talon
