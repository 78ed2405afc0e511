#include "draft/registry.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "core/error.h"
#include "draft/drafters.h"
#include "draft/merged.h"

namespace talon {
namespace {

constexpr std::array kDrafters = {
    DrafterEntry{"none", "plain decoding: proposes nothing", "", make_none_drafter},
    DrafterEntry{
        "ngram",
        "continues the text as it went on after earlier places with the same last tokens "
        "(prompt lookup, several places merged into one tree)",
        "nodes=32 most draft nodes; levels=16 most levels; ngram=6 longest suffix matched; "
        "matches=6 places looked at",
        make_ngram_drafter},
    DrafterEntry{
        "suffix",
        "continues the text, and earlier ones if asked, from the longest suffixes seen before, by "
        "counts "
        "(suffix automaton: arXiv:2411.10666, arXiv:2411.04975); grows other drafters' branches",
        "nodes=32 most draft nodes; levels=16 most levels; least=0.01 chance below which no path "
        "is drafted; "
        "history=0 tokens of earlier conversations remembered",
        make_suffix_drafter},
    DrafterEntry{"eagle",
                 "EAGLE-1 (arXiv:2401.15077): a head drafts a tree of fixed shape from the "
                 "target's last features",
                 "tree=FILE paths of ranks as JSON (default: the official 25 nodes); topk= most "
                 "children per node; "
                 "levels= most levels; nodes= most draft nodes; "
                 "head=PATH the draft head; "
                 "weights=int8 how it is kept: int8, int4, bf16, f32 or stored",
                 make_eagle1_drafter, /*needs_head=*/true},
    DrafterEntry{
        "eagle2",
        "EAGLE-2 (arXiv:2406.16858): an EAGLE-1 head drafts a tree that follows its confidence",
        "topk=10 nodes expanded per level and children of each; levels=6 tree levels below the "
        "root; nodes=59 "
        "draft nodes, root excluded; tree=FILE a fixed tree instead; "
        "head=PATH the draft head; "
        "weights=int8 how it is kept: int8, int4, bf16, f32 or stored",
        make_eagle2_drafter, /*needs_head=*/true},
    DrafterEntry{"eagle3",
                 "EAGLE-3 (arXiv:2503.01840): a head that fuses features of several layers drafts "
                 "such a tree",
                 "topk=10 nodes expanded per level and children of each; levels=8 tree levels "
                 "below the root; nodes=59 "
                 "draft nodes, root excluded; tree=FILE a fixed tree instead; "
                 "taps=1/8/14 target layers whose inputs it reads (default: as the head says); "
                 "head=PATH the draft head; "
                 "weights=int8 how it is kept: int8, int4, bf16, f32 or stored",
                 make_eagle3_drafter, /*needs_head=*/true},
    DrafterEntry{"medusa",
                 "Medusa (arXiv:2401.10774): independent heads guess the next places at once, and "
                 "the likeliest products are checked",
                 "topk=10 guesses of each head; levels= heads used; nodes=63 draft nodes, root "
                 "excluded; tree=FILE paths of ranks as JSON instead (medusa_choices); "
                 "head=PATH the heads; "
                 "weights=int8 how they are kept: int8, int4, bf16, f32 or stored",
                 make_medusa_drafter, /*needs_head=*/true},
};

constexpr std::size_t kMostParts = 16;

const DrafterEntry* find_entry(std::string_view name) {
  for (const DrafterEntry& entry : kDrafters) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::unique_ptr<Drafter> make_one(std::string_view text, const DrafterContext& context) {
  OptionText options(text);
  if (const DrafterEntry* entry = find_entry(options.name())) {
    auto drafter = entry->make(options, context);
    options.finish();
    return drafter;
  }
  std::string names;
  for (const DrafterEntry& entry : kDrafters) {
    names += names.empty() ? "" : ", ";
    names += entry.name;
  }
  throw UsageError(fmt::format("drafter: expected one of {}, found \"{}\"", names, options.name()));
}

}  // namespace

std::string DrafterContext::find_head(std::string_view kind) const {
  if (!head.empty() || !heads) return head;
  return heads(kind);
}

std::span<const DrafterEntry> drafters() { return kDrafters; }

std::vector<std::string_view> split_drafters(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (std::size_t plus = text.find('+'); plus != std::string_view::npos;
       plus = text.find('+', plus + 1)) {
    const std::string_view rest = text.substr(plus + 1);
    const bool has_options = text.substr(begin, plus - begin).find(':') != std::string_view::npos;
    if (has_options && !find_entry(rest.substr(0, rest.find_first_of(":+")))) continue;
    parts.push_back(text.substr(begin, plus - begin));
    begin = plus + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::unique_ptr<Drafter> make_drafter(std::string_view text, const DrafterContext& context) {
  std::vector<MergedPart> parts;
  for (const std::string_view part : split_drafters(text)) {
    parts.push_back({std::string(part), make_one(part, context)});
  }
  if (parts.size() == 1) return std::move(parts.front().drafter);
  if (parts.size() > kMostParts) {
    throw UsageError(fmt::format("drafter: expected at most {} joined with +, found {}", kMostParts,
                                 parts.size()));
  }
  return make_merged_drafter(std::move(parts));
}

}  // namespace talon
