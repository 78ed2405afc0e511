#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "core/types.h"

namespace talon {

/// Of each code of an image tokenizer, the codes that look most like it: nearest first, of equals
/// the one with the smaller number, itself left out.
class NeighbourTable {
 public:
  /// codebook: [codes, width]. Keeps `most` neighbours of each, or all there are if they are fewer.
  /// unit: rows are divided by their norms first, as tokenizers of LlamaGen's kind use them.
  /// first: the token of code 0. Throws Error for rows that are not finite, or of norm zero.
  NeighbourTable(std::span<const float> codebook, int width, int most, bool unit, TokenId first);

  /// Those of a token; none for a token that is no code.
  std::span<const TokenId> of(TokenId token) const;

  int codes() const { return codes_; }

 private:
  TokenId first_;
  int codes_;
  std::size_t kept_;
  std::vector<TokenId> neighbours_;  // [codes, kept]
};

/// Of the codebook of a tokenizer (vq_names.h) in a file, or in a folder as Janus's. unit: none: as
/// the tokenizer uses its rows. Throws Error naming the file.
NeighbourTable read_neighbour_table(const std::filesystem::path& file, int most,
                                    std::optional<bool> unit, TokenId first);

}  // namespace talon
