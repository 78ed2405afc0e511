#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/types.h"

namespace talon {

/// The text so far, with for each position and each n <= max_n the last earlier position where the
/// same n tokens end. Appending a token and following a chain of earlier places take constant time.
/// Memory: about 12 bytes per token and n.
class NgramIndex {
 public:
  /// REQUIRES: max_n >= 1.
  explicit NgramIndex(int max_n);
  void append(TokenId token);

  const std::vector<TokenId>& tokens() const { return tokens_; }
  int max_n() const { return static_cast<int>(levels_.size()); }
  /// The last position before `position` where the n tokens ending there equal the n tokens ending
  /// at `position`; -1: none.
  int previous(int n, int position) const;

 private:
  struct Level {
    /// An n-gram, as its (n-1)-gram's class and its last token, to where it ended last.
    std::unordered_map<std::uint64_t, std::int32_t> last;
    std::vector<std::int32_t> previous;  // by end position
    std::vector<std::int32_t> first;  // by end position: where this n-gram ended first, its class
  };
  std::vector<TokenId> tokens_;
  std::vector<Level> levels_;
};

}  // namespace talon
