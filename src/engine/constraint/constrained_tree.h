#pragma once

#include <cstdint>
#include <span>

#include "engine/constraint/round_constraint.h"
#include "tree/draft_tree.h"

namespace talon {

/// Drops nodes that no answer can hold, and what is below them: a drafter that copies from the
/// prompt of a picture may propose tokens that are no codes, and a broken one anything. Throws Bug
/// if one of them is drawn.
void drop_unknown_tokens(DraftTree& tree, int vocabulary);

/// Drops the nodes that `constraint` does not let follow `answer`, whose last token is the root,
/// and what is below them. What drawn children are drawn from is left to the tokens that are
/// allowed: among these it is the same law, so a lossless rule stays one. What may follow their
/// parents is promised to the check. Nodes that there is no work left to ask about are dropped as
/// well, and drawn children that cannot be told about.
void drop_forbidden(DraftTree& tree, RoundConstraint& constraint, std::span<const TokenId> answer);

/// Room for forced tokens.
struct ForcedRoom {
  int nodes = 0;               // most draft nodes of the tree
  int levels = 0;              // most levels
  int vocabulary = INT32_MAX;  // what is no token of it, and all behind, is left out
};

/// Adds below the nodes of a tree what must follow them, as likely as they are, the likeliest
/// first, as far as there is work left to ask. source: noted with the nodes that it adds.
void add_forced(DraftTree& tree, RoundConstraint& constraint, std::span<const TokenId> answer,
                ForcedRoom room, std::uint32_t source);

/// The same for the root alone: tokens that must come next are worth a row whatever else is.
void add_forced_at_root(DraftTree& tree, TokenConstraint& constraint,
                        std::span<const TokenId> answer, ForcedRoom room, std::uint32_t source);

}  // namespace talon
