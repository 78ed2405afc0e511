#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "core/types.h"

namespace talon {

/// The codes of an image tokenizer as vectors, row after row.
struct CodeVectors {
  /// codebook: [codes, row_width]. unit: rows are divided by their norms, as tokenizers of
  /// LlamaGen's kind use them. Throws Error for rows that are not finite, or of norm zero.
  CodeVectors(std::span<const float> codebook, int row_width, bool unit);
  std::size_t codes() const { return rows.size() / width; }

  std::size_t width;
  std::vector<double> rows;
};
/// Of the codebook of a tokenizer (vq_names.h) in a file, or in a folder as Janus's. unit: none: as
/// the tokenizer uses its rows. Throws Error naming the file.
CodeVectors read_code_vectors(const std::filesystem::path& file, std::optional<bool> unit);

/// Of each code of an image tokenizer, the codes that look most like it: nearest first, of equals
/// the one with the smaller number, itself left out. Making it takes seconds.
class NeighbourTable {
 public:
  /// Keeps `most` neighbours of each, or all there are if they are fewer. first: the token of code
  /// 0.
  NeighbourTable(const CodeVectors& vectors, int most, TokenId first);

  /// Those of a token; none for a token that is no code.
  std::span<const TokenId> of(TokenId token) const;

  int codes() const { return codes_; }

 private:
  void add_nearest(std::size_t code, std::span<const double> distances);

  TokenId first_;
  int codes_;
  std::size_t kept_ = 0;
  std::vector<TokenId> neighbours_;  // [codes, kept]
};

}  // namespace talon
