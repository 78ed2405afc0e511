#pragma once

#include <algorithm>

namespace talon {

/// Whether something that costs time is worth doing in a round, from what it brought before. While
/// it pays it is done every round, and otherwise once after pauses that double, so that it can come
/// back.
class Trial {
 public:
  /// expected: the gain that others found, in tokens per round.
  explicit Trial(double expected = 0) : value_(expected) {}

  /// Asked once per round.
  bool wants() {
    if (pause_left_ == 0) return true;
    --pause_left_;
    return false;
  }

  /// It was done, and brought `gain` tokens net of its time.
  void learn(double gain) {
    value_ += std::max(kLeastWeight, 1 / (kPriorTrials + ++trials_)) * (gain - value_);
    pause_ = value_ > 0 ? 0 : std::clamp(2 * pause_, kShortestPause, kLongestPause);
    pause_left_ = pause_;
  }
  double value() const { return value_; }

 private:
  static constexpr double kLeastWeight = 0.05;
  static constexpr double kPriorTrials = 4;
  static constexpr int kShortestPause = 2;
  static constexpr int kLongestPause = 64;

  double value_;
  double trials_ = 0;
  int pause_ = 0;
  int pause_left_ = 0;
};

}  // namespace talon
