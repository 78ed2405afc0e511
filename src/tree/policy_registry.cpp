#include "tree/policy_registry.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "core/error.h"
#include "tree/policies/policies.h"

namespace talon {
namespace {

constexpr std::array kPolicies = {
    PolicyEntry{
        "throughput",
        "buys draft nodes while they gain more time than they cost on this machine (default)",
        "width=10 most nodes expanded per level; margin=1.2 gain that is asked, in multiples of "
        "the cost",
        make_throughput_policy},
    PolicyEntry{"fixed", "always the whole tree that the drafter's own options describe", "",
                make_fixed_policy},
    PolicyEntry{"static",
                "one shape of tree, as EAGLE-1 (arXiv:2401.15077) and Medusa (arXiv:2401.10774) "
                "have it",
                "children=4/2/1/1/1 children of each node, level by level", make_static_policy},
    PolicyEntry{"eagle2",
                "EAGLE-2 (arXiv:2406.16858): the same depth, width and number of nodes every "
                "round",
                "topk=10 nodes expanded per level; levels=6 tree levels below the root; nodes=59 "
                "draft nodes, root excluded",
                make_eagle2_policy},
    PolicyEntry{"ddd",
                "Dynamic Depth Decoding (arXiv:2409.00142): an EAGLE-2 tree that ends when the "
                "beam's probability is low",
                "threshold=-0.3 its logarithm; after=5/7/9 draft calls after which it is looked "
                "at; topk=10; levels=11 most draft calls; nodes=59",
                make_ddd_policy},
    PolicyEntry{"ada_eagle",
                "AdaEAGLE (arXiv:2412.18910): a predictor says how deep to draft, from the "
                "target's state",
                "predictor=PATH, made by talon train policy; hybrid=0 1: go on while the draft "
                "is likely, too; threshold=-0.6 how likely; least=0 chance that a level must "
                "have (ordinal predictors; 0: from the costs); topk=1; levels=8; nodes=59",
                make_ada_eagle_policy, "predictor"},
    PolicyEntry{"radar",
                "RADAR (arXiv:2512.14069): a network that sees the beam says stop or go on "
                "before each level",
                "weights=PATH the network, made by talon train policy; draw=1 decisions are drawn, "
                "0: the likelier one; "
                "seed=1; topk=10; levels=8; nodes=59",
                make_radar_policy, "weights"},
    PolicyEntry{"adjacency",
                "ADT-Tree (arXiv:2512.21857): depth and width follow what was accepted at an "
                "adjacent token",
                "grid=0 tokens of a row of the image, 0: text; neighbour=left left, above, both "
                "or none; beta=0.5 accepted share of the depth that counts as well; levels=5 and "
                "topk=10 at first; least_levels=1; most_levels=8; least_topk=2; most_topk=16; "
                "nodes=59",
                make_adjacency_policy},
};

const PolicyEntry* find_entry(std::string_view name) {
  for (const PolicyEntry& entry : kPolicies) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace

std::span<const PolicyEntry> policies() { return kPolicies; }

std::unique_ptr<TreePolicy> make_policy(std::string_view text, const PolicyContext& context) {
  OptionText options(text);
  if (const PolicyEntry* entry = find_entry(options.name())) {
    auto policy = entry->make(options, context);
    options.finish();
    return policy;
  }
  std::string names;
  for (const PolicyEntry& entry : kPolicies) {
    names += names.empty() ? "" : ", ";
    names += entry.name;
  }
  throw UsageError(fmt::format("policy: expected one of {}, found \"{}\"", names, options.name()));
}

std::vector<FeatureTap> policy_taps(std::string_view text) { return make_policy(text)->taps(); }

bool policy_uses_costs(std::string_view text) { return make_policy(text)->traits().uses_costs; }

}  // namespace talon
