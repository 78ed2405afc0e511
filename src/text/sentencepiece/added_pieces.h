#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/sentencepiece/sentencepiece_model.h"
#include "text/text_range.h"

namespace talon {

/// Finds the text of added tokens in a text: the leftmost, and of those that begin there the
/// longest. Value type.
class AddedPieces {
 public:
  explicit AddedPieces(std::vector<AddedPiece> pieces);

  struct Match {
    std::size_t begin;
    std::size_t size;  // with the white space behind that a piece takes
    TokenId id;
  };
  /// The first match at or after `from`; no special piece that touches one of `own`.
  std::optional<Match> find(std::string_view text, std::size_t from,
                            std::span<const TextRange> own = {}) const;

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::vector<AddedPiece> pieces_;        // by text, those of the same text last first
  std::vector<std::size_t> next_;         // of each piece the next best that its text begins with
  std::array<bool, 256> begins_piece_{};  // by first byte
};

}  // namespace talon
