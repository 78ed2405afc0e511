#include "text/sentencepiece/added_pieces.h"

#include <algorithm>

namespace talon {
namespace {

constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";

/// How many bytes both texts begin with.
std::size_t common_bytes(std::string_view a, std::string_view b) {
  constexpr std::size_t kBlock = 512;  // compared at once
  const std::size_t most = std::min(a.size(), b.size());
  std::size_t size = 0;
  while (size + kBlock <= most && a.substr(size, kBlock) == b.substr(size, kBlock)) size += kBlock;
  while (size < most && a[size] == b[size]) ++size;
  return size;
}

}  // namespace

AddedPieces::AddedPieces(std::vector<AddedPiece> pieces) : pieces_(std::move(pieces)) {
  std::erase_if(pieces_, [](const AddedPiece& piece) { return piece.text.empty(); });
  std::reverse(pieces_.begin(), pieces_.end());
  std::stable_sort(pieces_.begin(), pieces_.end(),
                   [](const AddedPiece& a, const AddedPiece& b) { return a.text < b.text; });
  next_.reserve(pieces_.size());
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const std::string& text = pieces_[i].text;
    // All that stands between a text and what it begins with begins with that too.
    std::size_t other = i == 0 ? kNone : i - 1;
    while (other != kNone && !text.starts_with(pieces_[other].text)) other = next_[other];
    next_.push_back(other);
    begins_piece_[static_cast<unsigned char>(text[0])] = true;
  }
}

std::optional<AddedPieces::Match> AddedPieces::find(std::string_view text, std::size_t from,
                                                    std::span<const TextRange> own) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_piece_[static_cast<unsigned char>(text[begin])]) continue;
    const std::string_view rest = text.substr(begin);
    const auto behind = std::upper_bound(
        pieces_.begin(), pieces_.end(), rest,
        [](std::string_view one, const AddedPiece& piece) { return one < piece.text; });
    if (behind == pieces_.begin()) continue;
    // The last that does not come after `rest` begins with all pieces that `rest` begins with.
    const auto last = static_cast<std::size_t>(behind - pieces_.begin()) - 1;
    const std::size_t common = common_bytes(pieces_[last].text, rest);
    for (std::size_t i = last; i != kNone; i = next_[i]) {
      const AddedPiece& piece = pieces_[i];
      const std::size_t size = piece.text.size();
      if (size > common) continue;
      if (piece.special && touches({begin, begin + size}, own)) continue;
      std::size_t end = begin + size;
      if (piece.takes_spaces) end = std::min(text.find_first_not_of(kWhiteSpace, end), text.size());
      return Match{begin, end - begin, piece.id};
    }
  }
  return std::nullopt;
}

}  // namespace talon
