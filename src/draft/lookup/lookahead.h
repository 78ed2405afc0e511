#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "draft/drafter.h"

namespace talon {

struct LookaheadOptions {
  int window = 7;         // columns
  int ngram = 5;          // at least 3
  int guesses = 7;        // n-grams of one first token that are kept, and drafted
  bool from_text = true;  // n-grams of the text itself are kept, too
  /// Round by round as the official code, for comparisons: guesses wait for a full window and end
  /// before the last token of an n-gram, which it never accepts, in the n-grams of the text all
  /// tokens of a round are the round's last, and `guesses` of -1 keep all and draft none.
  bool official = false;
  std::vector<TokenId> first_window = {};  // empty: of the text
  TokenId vocabulary = INT32_MAX;  // of the target; tokens from here on are those of prompts alone
};

/// Lookahead decoding (docs/methods.md 4).
std::unique_ptr<Drafter> make_lookahead_drafter(const LookaheadOptions& options);

}  // namespace talon
