#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace talon {

/// Finds texts that share words with questions kept out of training, so that what is measured on
/// these was not trained on: 13 equal words in a row (letter case, spaces and punctuation apart;
/// the length that arXiv:2005.14165, appendix C, uses), or all words of a shorter question.
class Overlap {
 public:
  void hold_out(std::string_view question);
  bool touches(std::string_view text) const;

 private:
  std::unordered_set<std::uint64_t> runs_;    // of 13 words
  std::unordered_set<std::uint64_t> shorts_;  // whole questions of fewer
};

}  // namespace talon
