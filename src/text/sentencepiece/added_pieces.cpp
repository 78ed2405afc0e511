#include "text/sentencepiece/added_pieces.h"

#include <algorithm>

namespace talon {
namespace {

constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";

}  // namespace

AddedPieces::AddedPieces(std::vector<AddedPiece> pieces) : pieces_(std::move(pieces)) {
  std::erase_if(pieces_, [](const AddedPiece& piece) { return piece.text.empty(); });
  std::stable_sort(pieces_.begin(), pieces_.end(), [](const AddedPiece& a, const AddedPiece& b) {
    return a.text.size() > b.text.size();
  });
  for (const AddedPiece& piece : pieces_) {
    begins_piece_[static_cast<unsigned char>(piece.text[0])] = true;
  }
}

std::optional<AddedPieces::Match> AddedPieces::find(std::string_view text, std::size_t from,
                                                    std::span<const TextRange> own) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_piece_[static_cast<unsigned char>(text[begin])]) continue;
    const std::string_view rest = text.substr(begin);
    for (const AddedPiece& piece : pieces_) {
      if (!rest.starts_with(piece.text)) continue;
      if (piece.special && touches({begin, begin + piece.text.size()}, own)) continue;
      std::size_t end = begin + piece.text.size();
      if (piece.takes_spaces) end = std::min(text.find_first_not_of(kWhiteSpace, end), text.size());
      return Match{begin, end - begin, piece.id};
    }
  }
  return std::nullopt;
}

}  // namespace talon
