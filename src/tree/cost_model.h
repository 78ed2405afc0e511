#pragma once

#include <array>
#include <vector>

namespace talon {

/// What a check of n rows costs on this machine, learned from the checks that ran. Never falls with
/// n. One per engine: all sequences share the machine.
class CostModel {
 public:
  /// REQUIRES: max_rows >= 1.
  explicit CostModel(int max_rows);

  /// A check of `rows` rows took `ms`. A row count is believed to cost the median of its last
  /// kMemory checks, so that a rare slow one changes nothing and a lasting change is followed after
  /// a few.
  void observe(int rows, double ms);
  /// Milliseconds of a check of `rows` rows; more than max_rows count as max_rows. Between measured
  /// row counts the cost is interpolated, and elsewhere each row adds kPriorRowShare of a one-row
  /// check. In units of one such check until anything was measured.
  double check_ms(int rows) const;

  static constexpr double kPriorRowShare = 0.15;
  /// No row is free: keeps a flat noisy curve from buying everything.
  static constexpr double kLeastRowShare = 0.01;
  static constexpr int kMemory = 9;

 private:
  struct Samples {
    std::array<double, kMemory> ms{};
    int seen = 0;
    double median = 0;
  };
  void rebuild();

  std::vector<Samples> samples_;  // by rows - 1
  std::vector<double> curve_;     // by rows - 1
};

}  // namespace talon
