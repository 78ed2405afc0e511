#pragma once

#include <array>

namespace talon {

/// How often a text goes on as it did at earlier places with the same last tokens, by how many
/// tokens are the same and how many places there are. Begins with a guess and learns from every
/// token of the text.
class RepeatOdds {
 public:
  RepeatOdds();
  /// length: tokens that are the same, at least 1. places: where they occurred, at least 1.
  double chance(int length, int places) const;
  void observe(int length, int places, bool repeated);
  /// What another text should start from: the same chances, believed less.
  RepeatOdds aged() const;

 private:
  static constexpr int kLengths = 8;  // 1, 2, 3, 4, 5-6, 7-9, 10-15, 16 and more
  static constexpr int kPlaces = 4;   // 1, 2, 3-5, 6 and more
  struct Counts {
    double repeated = 0;
    double trials = 0;
  };
  static std::size_t index(int length, int places);

  std::array<Counts, static_cast<std::size_t>(kLengths) * kPlaces> counts_;
};

}  // namespace talon
