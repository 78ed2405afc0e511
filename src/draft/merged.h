#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "draft/drafter.h"

namespace talon {

constexpr std::size_t kMostMergedParts = 16;

/// One part of a merged drafter.
struct MergedPart {
  std::string name;  // for messages
  std::unique_ptr<Drafter> drafter;
};

/// Several drafters as one: their branches become one tree, shared prefixes once, and
/// DraftTree::sources says who proposed a node (bit i: parts[i]). Drafters that extend trees grow
/// last, from the branches of the others, in their order.
///
/// One score for all: what a part believes of a node given its parent is corrected by how often
/// nodes with such a belief, from the same parts, at the same depth, became text; of parts that
/// agree the largest belief counts, and the children of one node share at most 1. Throws UsageError
/// for a part that draws its children. REQUIRES: 2 to kMostMergedParts parts.
std::unique_ptr<Drafter> make_merged_drafter(std::vector<MergedPart> parts);

}  // namespace talon
