#pragma once

#include <string>
#include <vector>

#include "core/types.h"
#include "text/tokenizer.h"

namespace talon {

/// How the tokens of a draft model and its target correspond.
struct VocabularyMap {
  bool same = true;  // ids mean the same text; then the lists are empty
  /// Of each draft id; `target rows + id` for one that the target does not have.
  std::vector<TokenId> target_of;
  /// Of each target id: one draft token, or several whose text is the same.
  std::vector<std::vector<TokenId>> draft_of;
  double shared = 1;  // of the draft model's tokens, those that the target has

  /// Adds what `token` of the target is to the draft model.
  void append(TokenId token, std::vector<TokenId>& text) const;
};

/// A hash of all pieces in order, by which equal vocabularies are told: 16 hexadecimal digits.
std::string vocabulary_fingerprint(const Tokenizer& tokenizer);

/// Tokens correspond if they stand for the same bytes, start and end tokens by what they are.
/// rows: of the models' embeddings. Throws Error if the target lacks more than half of the draft
/// model's tokens, with both fingerprints.
VocabularyMap map_vocabularies(const Tokenizer& draft, int draft_rows, const Tokenizer& target,
                               int target_rows, const std::string& doing);

}  // namespace talon
