#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
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

/// Codes as tokens, nearest first.
struct NearestCodes {
  std::span<const std::uint16_t> codes = {};
  TokenId first = 0;  // the token of code 0

  std::size_t size() const { return codes.size(); }
  bool empty() const { return codes.empty(); }
  TokenId operator[](std::size_t place) const { return first + codes[place]; }
};

/// Of each code of an image tokenizer, the codes that look most like it: nearest first, of equals
/// the one with the smaller number, itself left out. Making it takes seconds.
class NeighbourTable {
 public:
  static constexpr int kMostCodes = 1 << 16;

  /// Keeps `most` neighbours of each, or all there are if they are fewer. first: the token of code
  /// 0. Throws Error if memory for it is not available. REQUIRES: at most kMostCodes.
  NeighbourTable(const CodeVectors& vectors, int most, TokenId first);

  /// Those of a token; none for a token that is no code.
  NearestCodes of(TokenId token) const;

  int codes() const { return codes_; }
  std::size_t bytes() const { return neighbours_.size() * sizeof(neighbours_[0]); }

 private:
  void add_nearest(std::size_t code, std::span<const double> distances);

  TokenId first_;
  int codes_;
  std::size_t kept_ = 0;
  std::vector<std::uint16_t> neighbours_;  // [codes, kept]
};

/// The tables of rules for one model. One serves all rules that compare the same codes and ask for
/// no more neighbours.
class NeighbourTables {
 public:
  /// With `most` neighbours of each code or more; it stays as long as somebody has it. Throws as
  /// NeighbourTable does.
  std::shared_ptr<const NeighbourTable> get(const CodeVectors& vectors, int most, TokenId first);

 private:
  struct Known {
    std::string codes;  // by which they are known
    TokenId first = 0;
    int most = 0;
    std::weak_ptr<const NeighbourTable> table = {};
  };
  std::vector<Known> known_;
};

}  // namespace talon
