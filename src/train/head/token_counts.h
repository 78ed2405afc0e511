#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/types.h"
#include "train/data/dataset.h"

namespace talon {

/// How often each token was seen in responses.
using TokenCounts = std::vector<std::int64_t>;

/// Of the responses of these conversations.
TokenCounts count_responses(const Dataset& data, std::span<const std::size_t> conversations,
                            int vocabulary);
/// The `size` most frequent tokens, ascending; those never seen come last, by id, which is a good
/// prior for byte-pair vocabularies (docs/methods.md 7.6).
std::vector<TokenId> frequent_tokens(const TokenCounts& counts, std::size_t size);
/// The counts as if each of `tokens`, which another head drafts, had been seen kSeenBefore times
/// more: its list comes of more texts than a run that goes on from it reads. Ids that are none are
/// passed over.
TokenCounts seen_before(TokenCounts counts, std::span<const TokenId> tokens);
inline constexpr std::int64_t kSeenBefore = 100;
/// The share of the counted tokens that `tokens` (ascending) cover; 0 if nothing was counted.
double coverage(const TokenCounts& counts, std::span<const TokenId> tokens);
/// `frequent` and the tokens of a batch, ascending, each once, and the lowest other ids below
/// `vocabulary` until their number is a multiple of `multiple`, if there are enough.
std::vector<TokenId> union_of(std::span<const TokenId> frequent, std::span<const TokenId> batch,
                              std::size_t multiple, int vocabulary);

}  // namespace talon
