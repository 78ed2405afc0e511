#pragma once

#include <chrono>

namespace talon {

/// A problem that may come again and again: it is said once, until it has stayed away for a while.
class RepeatedProblem {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::minutes kWhile{10};

  /// It came. Whether that is to be said.
  bool came(Clock::time_point now = Clock::now()) {
    const bool is_news = is_over(now);
    last_ = now;
    is_on_ = true;
    return is_news;
  }
  /// Whether it has not come for a while.
  bool is_over(Clock::time_point now = Clock::now()) const {
    return !is_on_ || now - last_ >= kWhile;
  }

 private:
  bool is_on_ = false;
  Clock::time_point last_;
};

}  // namespace talon
