#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <vector>

namespace talon {

/// The mean of the middle of the last `memory` numbers: a rare outlier changes nothing, and a
/// lasting change is followed. middle: how many of the sorted numbers count, 1 for the median.
template <int memory, int middle>
class RecentMiddle {
 public:
  static constexpr int kMemory = memory;
  void add(double value) {
    values_[static_cast<std::size_t>(next_)] = value;
    next_ = (next_ + 1) % memory;
    count_ = std::min(count_ + 1, memory);
    std::array<double, memory> sorted = values_;
    const auto end = sorted.begin() + count_;
    std::sort(sorted.begin(), end);
    const int kept = std::max(1, count_ * middle / memory);
    const auto first = sorted.begin() + (count_ - kept) / 2;
    value_ = std::accumulate(first, first + kept, 0.0) / kept;
  }
  /// As if `value` had been added often enough to be all that counts.
  void fill(double value) {
    values_.fill(value);
    count_ = memory;
    value_ = value;
  }
  int count() const { return count_; }
  double value() const { return value_; }  // 0 before the first

 private:
  std::array<double, memory> values_{};
  int next_ = 0;
  int count_ = 0;
  double value_ = 0;
};
using RecentMedian = RecentMiddle<31, 1>;

/// Milliseconds by a number of rows, from measurements. Never falls with the rows.
///
/// A row count is believed to cost the median of its last measurements; costs that fall with the
/// rows are pooled; between measured counts the cost is interpolated, and elsewhere each row adds
/// `row_share` of one row's cost, or beyond seeds of many rows what it added between the last two.
/// A curve that was seeded also has a pace: how much slower than the seeds the machine is now, over
/// all row counts, so that it changes as a whole when the machine does and not only where it is
/// looked at. Rounds of the least seeded count, the anchor, tell the pace alone, and others tell it
/// only where those are missing: were both corrected by each measurement, the shape could drift
/// against what does not run.
class CostCurve {
 public:
  /// REQUIRES: max_rows >= 1.
  CostCurve(int max_rows, double row_share);

  /// A measurement to start from.
  void seed(int rows, double ms);
  void observe(int rows, double ms);
  /// A time that is known only as the sum over passes of these rows. It changes the pace.
  void observe_pace(double ms, double predicted_ms);
  /// More than max_rows count as max_rows. In units of one row's cost until anything was measured.
  double ms(int rows) const;
  bool is_seeded() const { return anchor_ > 0; }
  /// Whether it has seen any time.
  bool measured() const { return is_seeded() || pace_.count() > 0 || observed_; }
  double pace() const { return pace_.count() > 0 ? pace_.value() : 1; }
  /// Believes the seeds again, for which one measurement of pace 1 stands: one that follows alone
  /// does not make the machine look slow, as the first of a program would, which touches memory.
  void forget_pace();

  /// No row is free: keeps a flat noisy curve from buying everything.
  static constexpr double kLeastRowShare = 0.01;

 private:
  /// A measured stretch of the curve: row counts [first, last] that are believed to cost the same.
  struct Block {
    int first;
    int last;
    double ms;
    double weight;
  };
  void append_monotone(Block block);
  void rebuild();
  int max_rows() const { return static_cast<int>(samples_.size()); }

  double row_share_;
  std::vector<RecentMedian> samples_;  // by rows - 1, at pace 1
  std::vector<double> curve_;          // by rows - 1, at pace 1
  std::vector<double> seeds_;          // the curve as it was seeded
  std::optional<double> seeded_step_;  // what each row adds where the seeds end
  std::vector<Block> blocks_;          // what the curve was last built from
  RecentMiddle<15, 7> pace_;
  int anchor_ = 0;        // the least seeded row count; 0 without a seed
  int since_anchor_ = 0;  // measurements since one of it
  bool observed_ = false;
};

}  // namespace talon
