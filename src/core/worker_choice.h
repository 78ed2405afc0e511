#pragma once

#include <array>
#include <chrono>

namespace talon {

/// Chooses how many workers share the parallel regions of a computation on a machine that others
/// use, too. A worker that has lost its processor makes all others wait, so that beside a busy
/// neighbour, or under a quota of processor time, fewer workers may be faster. Regions that take
/// several times as long as usual show it; then fewer are tried for a few tenths of a second, and
/// kept if the same work takes less time. When fewer than all are at work, more are tried again,
/// after pauses that grow while nothing is gained. Steps double while they pay, and downwards also
/// while they do not, since the last worker without a processor of its own costs as much as the
/// first. On a quiet machine nothing is tried: fewer workers can gain at most what such regions
/// lose. Knows nothing of threads and clocks: times are its input.
class WorkerChoice {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  explicit WorkerChoice(int most) : most_(most), settled_(most) {}

  /// For the next region.
  int workers() const { return trial_ > 0 ? trial_ : settled_; }
  /// A region of `work` > 0 units, by workers(). Times do not decrease.
  void learn(double work, Time begin, Time end);
  /// Whether fewer workers than all are chosen, or the last regions lost time.
  bool is_disturbed() const { return workers() < most_ || lost_share_ > kDisturbed; }

 private:
  static constexpr double kDisturbed = 0.05;  // of the time, lost in regions that took too long
  static constexpr double kShortestPauseMs = 250;  // between trials; of regions, not of idle time

  /// Regions whose work is equal up to a factor of two.
  struct Regions {
    double work = 0;
    double ms = 0;
  };
  struct Window {
    std::array<Regions, 64> by_size;
    double ms = 0;
    double lost_ms = 0;
  };

  void watch_settled();
  void watch_trial();
  void begin_trial();
  void end_trial(bool pays);
  double slowdown() const;

  int most_;
  int settled_;
  int trial_ = 0;              // workers that are tried; 0: none are
  bool trial_counts_ = false;  // what the settled workers left behind is over
  bool prefers_down_ = true;   // the direction that paid last, or that did not fail last
  int step_down_ = 1, step_up_ = 1;
  double pause_ms_ = kShortestPauseMs;
  double waited_ms_ = kShortestPauseMs;  // since the last trial
  Time last_end_{};
  std::array<double, 64> usual_{};  // ms per unit of work of the settled workers, by size
  std::array<Regions, 64> known_;   // of the settled workers, older ones with less weight
  Window window_;
  double lost_share_ = 0;  // of the last whole window
};

}  // namespace talon
