#include "draft/registry.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "draft/drafters.h"
#include "draft/merged.h"

namespace talon {

std::string DrafterContext::find_head(std::string_view kind) const {
  if (!head.empty() || !heads) return head;
  return heads(kind);
}

std::span<const DrafterEntry> drafters() {
  static const std::vector<DrafterEntry> kDrafters = {
      none_drafter(),      ngram_drafter(),  suffix_drafter(), grid_drafter(),   jacobi_drafter(),
      lookahead_drafter(), eagle1_drafter(), eagle2_drafter(), eagle3_drafter(), medusa_drafter(),
      mtp_drafter(),       model_drafter(),  dflash_drafter(), dspark_drafter(), peagle_drafter(),
  };
  return kDrafters;
}

std::vector<std::string_view> split_drafters(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (std::size_t plus = text.find('+'); plus != std::string_view::npos;
       plus = text.find('+', plus + 1)) {
    const std::string_view rest = text.substr(plus + 1);
    const bool has_options = text.substr(begin, plus - begin).find(':') != std::string_view::npos;
    if (has_options && !find_row(drafters(), rest.substr(0, rest.find_first_of(":+")))) continue;
    parts.push_back(text.substr(begin, plus - begin));
    begin = plus + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::unique_ptr<Drafter> make_drafter(std::string_view text, const DrafterContext& context) {
  const std::vector<std::string_view> names = split_drafters(text);
  if (names.size() > kMostMergedParts) {
    throw UsageError(fmt::format("drafter: expected at most {} joined with +, found {}",
                                 kMostMergedParts, names.size()));
  }
  std::vector<MergedPart> parts;
  for (const std::string_view part : names) {
    parts.push_back({std::string(part), make_from("drafter", drafters(), part, context)});
  }
  if (parts.size() == 1) return std::move(parts.front().drafter);
  return make_merged_drafter(std::move(parts));
}

}  // namespace talon
