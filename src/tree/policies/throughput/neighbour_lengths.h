#pragma once

#include <cstddef>
#include <vector>

namespace talon {

/// How many levels of a draft the text followed where each token of the answer was drawn. Of a
/// picture that is drawn row by row, what happened at the cells on the left and above tells
/// something of the next one (ADT-Tree, arXiv:2512.21857).
class NeighbourLengths {
 public:
  /// row: tokens of a row of the picture; 0: a text, where the token before is the neighbour.
  explicit NeighbourLengths(int row) : row_(static_cast<std::size_t>(row)) {}

  /// Makes room for an answer of so many tokens.
  void reserve(std::size_t tokens) { lengths_.reserve(tokens); }
  /// Which of DrafterEstimates::calibrations is that of drafts for the token at `place` of the
  /// answer: 0 where no neighbour was drafted for, then by the mean length there.
  std::size_t neighbourhood(std::size_t place) const;
  /// `tokens` became text from `place` on in a round whose draft the text followed for `length`
  /// levels; -1: nothing was drafted.
  void learn(std::size_t place, std::size_t tokens, int length);

 private:
  int length_at(std::size_t place) const {
    return place < lengths_.size() ? lengths_[place] : kUnknown;
  }

  static constexpr int kUnknown = -1;
  std::size_t row_;
  std::vector<int> lengths_;  // by place in the answer
};

}  // namespace talon
