#pragma once

#include <algorithm>

namespace talon {

/// What drafting may still lose in one sequence, in tokens' worth of time: a little at the start,
/// some more for each token, and all that it has gained. So the worst case is a known fraction of
/// plain decoding.
class LossBudget {
 public:
  /// most_tokens: that the answer may get. has_paid: drafts did in other answers; then a long one
  /// may lose more, since a bad start should not end what is good on the whole.
  void begin(int most_tokens, bool has_paid) {
    tokens_ = kStart;
    if (has_paid) tokens_ = std::clamp(kShare * most_tokens, kStart, kMostStart);
  }
  double tokens() const { return tokens_; }
  /// A round brought `emitted` tokens, drafting `gain` of them net of its time.
  void learn(int emitted, double gain) { tokens_ += kPerToken * emitted + gain; }

 private:
  static constexpr double kStart = 1;
  static constexpr double kMostStart = 2.5;
  static constexpr double kShare = 0.014;  // of the answer at most
  static constexpr double kPerToken = 0.006;

  double tokens_ = kStart;
};

}  // namespace talon
