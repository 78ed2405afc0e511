#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace talon {

/// What every token id is spelled as and stands for. Ids are given out in order by add().
class Vocabulary {
 public:
  enum class Kind : std::uint8_t { ordinary, special, absent };

  /// `piece`: as the model's files spell it. `bytes`: what it adds to a text. `absent`: an id that
  /// no token has.
  void add(std::string_view piece, std::string_view bytes, Kind kind);

  int size() const { return static_cast<int>(entries_.size()); }
  /// REQUIRES of the three below: 0 <= id < size().
  std::string_view piece(TokenId id) const;
  std::string_view bytes(TokenId id) const;
  Kind kind(TokenId id) const;
  bool contains(TokenId id) const;
  const std::vector<TokenId>& special() const { return special_; }
  /// Bytes of the token that stands for most.
  std::size_t longest() const { return longest_; }

  /// The special token whose text is `text`.
  std::optional<TokenId> find_special(std::string_view text) const;
  /// Any token spelled `piece`; reads the whole vocabulary.
  std::optional<TokenId> find_piece(std::string_view piece) const;

 private:
  struct Entry {
    std::size_t begin;  // of the piece in text_; the bytes follow it
    std::uint32_t piece_size;
    std::uint32_t bytes_size;
    Kind kind;
  };
  std::string text_;
  std::vector<Entry> entries_;
  std::vector<TokenId> special_;
  std::size_t longest_ = 0;
};

}  // namespace talon
