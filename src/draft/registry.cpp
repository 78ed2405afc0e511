#include "draft/registry.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "core/error.h"
#include "draft/drafters.h"

namespace talon {
namespace {

constexpr std::array kDrafters = {
    DrafterEntry{"none", "plain decoding: proposes nothing", "", make_none_drafter},
    DrafterEntry{"ngram",
                 "continues the text as it went on after earlier places with the same last tokens "
                 "(prompt lookup, several places merged into one tree)",
                 "nodes=32 most draft nodes; levels=16 most levels; ngram=6 longest suffix matched; "
                 "matches=6 places looked at",
                 make_ngram_drafter},
    DrafterEntry{"eagle",
                 "EAGLE-1 (arXiv:2401.15077): a head drafts a tree of fixed shape from the target's last features",
                 "tree=FILE paths of ranks as JSON (default: the official 25 nodes); topk= most children per node; "
                 "levels= most levels; nodes= most draft nodes; " "head=PATH the draft head; "
                 "weights=int8 how it is kept: int8, int4, bf16, f32 or as_stored",
                 make_eagle1_drafter, /*needs_head=*/true},
    DrafterEntry{"eagle2",
                 "EAGLE-2 (arXiv:2406.16858): an EAGLE-1 head drafts a tree that follows its confidence",
                 "topk=10 nodes expanded per level and children of each; levels=6 tree levels below the root; nodes=59 "
                 "draft nodes, root excluded; tree=FILE a fixed tree instead; "
                 "head=PATH the draft head; "
                 "weights=int8 how it is kept: int8, int4, bf16, f32 or as_stored", make_eagle2_drafter, /*needs_head=*/true},
    DrafterEntry{"eagle3",
                 "EAGLE-3 (arXiv:2503.01840): a head that fuses features of several layers drafts such a tree",
                 "topk=10 nodes expanded per level and children of each; levels=8 tree levels below the root; nodes=59 "
                 "draft nodes, root excluded; tree=FILE a fixed tree instead; "
                 "head=PATH the draft head; "
                 "weights=int8 how it is kept: int8, int4, bf16, f32 or as_stored", make_eagle3_drafter, /*needs_head=*/true},
};

}  // namespace

std::span<const DrafterEntry> drafters() { return kDrafters; }

std::unique_ptr<Drafter> make_drafter(std::string_view text, const DrafterContext& context) {
  OptionText options(text);
  std::string names;
  for (const DrafterEntry& entry : kDrafters) {
    if (entry.name == options.name()) {
      auto drafter = entry.make(options, context);
      options.finish();
      return drafter;
    }
    names += names.empty() ? "" : ", ";
    names += entry.name;
  }
  throw UsageError(fmt::format("drafter: expected one of {}, found \"{}\"", names, options.name()));
}

}  // namespace talon
