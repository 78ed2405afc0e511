#pragma once

#include <span>

#include "draft/coupling/coupling.h"

namespace talon {

/// Ranks the likeliest tokens of a draft head for a place whose request's cuts leave few: those
/// that the cuts leave of the head's own law race as DraftPlace says, the others, which the
/// target's law may leave, follow by likelihood. values: the head's logits, descending; comes back
/// as chances, descending, 0 for what is no number. tokens: of the target, rearranged alike.
/// REQUIRES: place.cut.any(), one token at least.
void race_after_cut(const DraftPlace& place, const Coupling& coupling, std::span<TokenId> tokens,
                    std::span<float> values);

}  // namespace talon
