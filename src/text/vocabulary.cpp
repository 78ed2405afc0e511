#include "text/vocabulary.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace talon {

void Vocabulary::add(std::string_view piece, std::string_view bytes, Kind kind) {
  constexpr std::size_t kMaxSize = std::numeric_limits<std::uint32_t>::max();
  expects(piece.size() <= kMaxSize && bytes.size() <= kMaxSize, "a token fits 32 bits");
  if (kind == Kind::special) special_.push_back(size());
  entries_.push_back({text_.size(), static_cast<std::uint32_t>(piece.size()),
                      static_cast<std::uint32_t>(bytes.size()), kind});
  text_.append(piece).append(bytes);
  longest_ = std::max(longest_, bytes.size());
}

std::string_view Vocabulary::piece(TokenId id) const {
  expects(contains(id), "id is in the vocabulary");
  const Entry& entry = entries_[static_cast<std::size_t>(id)];
  return std::string_view(text_).substr(entry.begin, entry.piece_size);
}

std::string_view Vocabulary::bytes(TokenId id) const {
  expects(contains(id), "id is in the vocabulary");
  const Entry& entry = entries_[static_cast<std::size_t>(id)];
  return std::string_view(text_).substr(entry.begin + entry.piece_size, entry.bytes_size);
}

Vocabulary::Kind Vocabulary::kind(TokenId id) const {
  expects(contains(id), "id is in the vocabulary");
  return entries_[static_cast<std::size_t>(id)].kind;
}

bool Vocabulary::contains(TokenId id) const { return id >= 0 && id < size(); }

std::optional<TokenId> Vocabulary::find_special(std::string_view text) const {
  for (const TokenId id : special_) {
    if (bytes(id) == text) return id;
  }
  return std::nullopt;
}

std::optional<TokenId> Vocabulary::find_piece(std::string_view text) const {
  for (TokenId id = 0; id < size(); ++id) {
    if (piece(id) == text && kind(id) != Kind::absent) return id;
  }
  return std::nullopt;
}

}  // namespace talon
