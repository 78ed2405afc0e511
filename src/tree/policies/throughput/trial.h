#pragma once

#include <algorithm>

namespace talon {

/// Whether something that costs time is worth doing in a round, from what it brought before. While
/// it pays it is done every round, and otherwise once after pauses that double, so that it can come
/// back.
class Trial {
 public:
  /// expected: the gain that others found, in tokens per round. of_many: gains are means of many,
  /// so that a single good one says something, and shortens the next pause.
  explicit Trial(double expected = 0, bool of_many = false) : of_many_(of_many), value_(expected) {}

  /// Asked once per round.
  bool wants() {
    if (pause_left_ == 0) return true;
    --pause_left_;
    return false;
  }

  /// It was done, and brought `gain` tokens net of its time.
  void learn(double gain) {
    value_ += std::max(kLeastWeight, 1 / (kPriorTrials + ++trials_)) * (gain - value_);
    const int next_pause = of_many_ && gain > 0 ? pause_ / 2 : 2 * pause_;
    pause_ = value_ > 0 ? 0 : std::clamp(next_pause, kShortestPause, kLongestPause);
    pause_left_ = pause_;
  }
  double value() const { return value_; }
  /// It did not pay for so long that pauses grow no further.
  bool is_given_up() const { return pause_ == kLongestPause; }

 private:
  static constexpr double kLeastWeight = 0.05;
  static constexpr double kPriorTrials = 4;
  static constexpr int kShortestPause = 2;
  static constexpr int kLongestPause = 64;

  bool of_many_;
  double value_;
  double trials_ = 0;
  int pause_ = 0;
  int pause_left_ = 0;
};

}  // namespace talon
