#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "core/types.h"

namespace talon {

/// Lookahead's pool (arXiv:2402.02057): what followed a token, `length` - 1 tokens at a time, the
/// newest last.
class NgramPool {
 public:
  using Entry = std::vector<TokenId>;
  /// length: of n-grams, at least 2. entries: kept of each first token; -1: all.
  NgramPool(int length, int entries) : length_(length), entries_(entries) {}

  int length() const { return length_; }
  /// What followed `first`, oldest first.
  std::span<const Entry> after(TokenId first) const;
  /// One seen again becomes the newest. REQUIRES: length() - 1 tokens.
  void add(TokenId first, Entry following);
  /// Every n-gram of a text.
  void add_all(std::span<const TokenId> text);

 private:
  int length_;
  int entries_;
  std::unordered_map<TokenId, std::vector<Entry>> pool_;
};

}  // namespace talon
