#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "io/json.h"
#include "text/sentencepiece/sentencepiece_model.h"

namespace talon {

/// A byte-level BPE as tiktoken has it (https://github.com/openai/tiktoken): tokens with ranks, and
/// no merges. A piece of a text that is a token is taken whole. In any other, of all neighbours
/// whose bytes together are a token, those of the lowest rank are joined, of several the leftmost,
/// until there are none.
struct RankedBpe {
  std::vector<std::string> tokens;  // the bytes of each, by rank
  TokenId first = 0;                // the id of rank 0; the others follow it
  std::vector<AddedPiece> added;    // with ids that `tokens` leaves
  Json pipeline;                    // "normalizer" and "pre_tokenizer" as in a tokenizer.json
};

/// The tokenizer.json that gives the same ids for every text, whatever the ranks. Joins inside of
/// what becomes one token come in the order in which they come where its bytes stand alone: until
/// it is one, none crosses its borders, and the best of all is the best of those inside. So a token
/// is always joined of the same two parts, the last two of its bytes alone. This is its one merge,
/// and merges stand in the order of the ranks. A token whose bytes alone do not come down to two
/// parts has none: it is found as a whole piece only (`ignore_merges`).
/// Throws Error, beginning with `doing`, for a token that is there twice, has no byte or over 1024
/// (the work is quadratic in them), for a byte without a token, and for an added token whose id or
/// text another token has.
Json tokenizer_json_of(const RankedBpe& bpe, std::string_view doing);

/// The bytes of a token in base64 with its padding; nothing for what is none.
std::optional<std::string> token_of_base64(std::string_view text);

/// A pipeline that cuts text at each match of an expression.
Json cutting_pipeline(std::string_view pattern);

}  // namespace talon
