#include "draft/model/vocabulary_map.h"

#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "io/sha256.h"
#include "text/sentencepiece/added_pieces.h"

namespace talon {
namespace {

constexpr double kLeastShared = 0.5;
constexpr TokenId kNone = -1;

std::size_t at(TokenId token) { return static_cast<std::size_t>(token); }

/// Start and end tokens have texts of their own in every vocabulary.
void map_marks(const Tokenizer& draft, const Tokenizer& target, std::vector<TokenId>& found) {
  const auto set = [&](TokenId token, TokenId of_draft) {
    if (at(token) < found.size() && found[at(token)] == kNone) found[at(token)] = of_draft;
  };
  if (!draft.end_tokens().empty()) {
    for (const TokenId end : target.end_tokens()) set(end, draft.end_tokens().front());
  }
  if (draft.start_token() && target.start_token()) {
    set(*target.start_token(), *draft.start_token());
  }
}

using ByBytes = std::unordered_map<std::string, TokenId>;

/// Of each target token the draft token with its bytes: that with the same id rather than another.
/// Sizes: how many tokens have rows.
std::vector<TokenId> matches(const ByBytes& by_bytes, const Tokenizer& draft, int draft_size,
                             const Tokenizer& target, int target_size) {
  std::vector<TokenId> found(at(target_size), kNone);
  for (TokenId id = 0; id < target_size; ++id) {
    const std::string bytes = target.bytes_of(id);
    if (bytes.empty()) continue;
    const bool in_place = id < draft_size && draft.bytes_of(id) == bytes;
    const auto known = by_bytes.find(bytes);
    if (known != by_bytes.end()) found[at(id)] = in_place ? id : known->second;
  }
  map_marks(draft, target, found);
  return found;
}

/// Draft tokens with the bytes of a token that the draft model lacks. Its tokenizer is asked first,
/// but may put a space before a text, and reads bytes that are no whole characters as others: then
/// they are cut into the longest tokens there are.
std::vector<TokenId> pieces_of(const std::string& bytes, const Tokenizer& draft,
                               const AddedPieces& tokens) {
  std::vector<TokenId> pieces = draft.encode(bytes, {.parse_special = false});
  std::string joined;
  for (const TokenId piece : pieces) joined += draft.bytes_of(piece);
  if (joined == bytes) return pieces;
  pieces.clear();
  for (std::size_t begin = 0; const auto token = tokens.find(bytes, begin);) {
    pieces.push_back(token->id);
    begin = token->begin + token->size;
  }
  return pieces;
}

}  // namespace

void VocabularyMap::append(TokenId token, std::vector<TokenId>& text) const {
  if (same) {
    text.push_back(token);
  } else if (at(token) < draft_of.size()) {
    const auto& pieces = draft_of[at(token)];
    text.insert(text.end(), pieces.begin(), pieces.end());
  }
}

std::string vocabulary_fingerprint(const Tokenizer& tokenizer) {
  std::string all;
  for (TokenId id = 0; id < tokenizer.vocabulary_size(); ++id) {
    all += tokenizer.is_special(id) ? '!' : '.';
    all += tokenizer.bytes_of(id);
    all += '\0';
  }
  return sha256_of(std::as_bytes(std::span(all))).substr(0, 16);
}

VocabularyMap map_vocabularies(const Tokenizer& draft, int draft_rows, const Tokenizer& target,
                               int target_rows, const std::string& doing) {
  const std::string ours = vocabulary_fingerprint(draft), theirs = vocabulary_fingerprint(target);
  const int draft_size = std::min(draft.vocabulary_size(), draft_rows);
  if (ours == theirs && draft_rows <= target_rows && draft_size == draft.vocabulary_size())
    return {};
  VocabularyMap map;
  map.same = false;
  for (TokenId id = 0; id < draft_rows; ++id) map.target_of.push_back(target_rows + id);
  ByBytes by_bytes;
  std::vector<AddedPiece> texts;
  for (TokenId id = 0; id < draft_size; ++id) {
    texts.push_back({id, draft.bytes_of(id), false});
    by_bytes.emplace(texts.back().text, id);
  }
  const AddedPieces tokens(std::move(texts));
  const std::vector<TokenId> found =
      matches(by_bytes, draft, draft_size, target, std::min(target.vocabulary_size(), target_rows));
  map.draft_of.resize(found.size());
  int shared = 0;
  for (TokenId id = 0; id < static_cast<TokenId>(found.size()); ++id) {
    const TokenId of_draft = found[at(id)];
    if (of_draft != kNone && of_draft < draft_rows) {
      map.draft_of[at(id)] = {of_draft};
      TokenId& of_target = map.target_of[at(of_draft)];
      shared += of_target >= target_rows ? 1 : 0;
      if (of_target >= target_rows) of_target = id;
    } else {
      map.draft_of[at(id)] = pieces_of(target.bytes_of(id), draft, tokens);
      std::erase_if(map.draft_of[at(id)], [&](TokenId token) { return token >= draft_rows; });
    }
  }
  // Where several ends of the target are one of the draft model, this guesses the first of them.
  if (const auto& ends = target.end_tokens(); !ends.empty() && at(ends.front()) < found.size()) {
    const TokenId of_draft = found[at(ends.front())];
    if (of_draft != kNone && of_draft < draft_rows) map.target_of[at(of_draft)] = ends.front();
  }
  map.shared = static_cast<double>(shared) / std::max(1, draft.vocabulary_size());
  if (map.shared < kLeastShared) {
    fail(
        "{}: expected a vocabulary of which the target has at least half: {} ({} tokens), found {} "
        "({} tokens), of which it has {:.0f} %",
        doing, theirs, target.vocabulary_size(), ours, draft.vocabulary_size(), 100 * map.shared);
  }
  return map;
}

}  // namespace talon
