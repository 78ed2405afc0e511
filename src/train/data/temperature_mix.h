#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace talon {

/// Of an answer: a higher one is refused as a mistake.
inline constexpr double kMostTemperature = 100;

/// How hot answers are sampled: parts, each a range of temperatures and a weight.
class TemperatureMix {
 public:
  /// `0:0.5,0.7-1:0.5`: half of the answers greedy, half at a temperature drawn evenly from 0.7
  /// to 1. A weight left out is 1. Throws UsageError saying which part cannot be meant.
  explicit TemperatureMix(std::string_view text);

  /// The temperature at a place in [0, 1) of the mix.
  double at(double place) const;
  const std::string& text() const { return text_; }

 private:
  struct Part {
    double least, most, weight;
  };
  std::string text_;
  std::vector<Part> parts_;  // weights sum to 1
};

}  // namespace talon
