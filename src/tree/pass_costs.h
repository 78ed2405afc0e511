#pragma once

#include <optional>
#include <span>

#include "tree/cost_curve.h"
#include "tree/machine_costs.h"

namespace talon {

/// What passes of a draft head over n rows cost. Starts from a profile and is corrected by what
/// drafts take. What slows the machine's checks slows passes as much, so every answer needs the
/// machine. One per drafter of an engine.
class PassCosts {
 public:
  /// sampled: passes that know the noise of their level. REQUIRES: max_rows >= 1.
  explicit PassCosts(int max_rows, const CostProfile& profile = {}, bool sampled = false);

  /// Passes over these many rows of each of `sharers` sequences, one after the other, took `ms`
  /// together.
  void observe(std::span<const int> rows, int sharers, double ms, const MachineCosts& machine);

  /// Milliseconds of one pass, the head's weights in the cache; a share of a check until anything
  /// was measured.
  double pass_ms(int rows, const MachineCosts& machine) const;
  /// What the first pass of a draft takes beyond pass_ms().
  double first_pass_ms(const MachineCosts& machine) const;
  /// What each committed token more that the head has not seen adds to the first pass. Unless it
  /// was measured, what a row more takes among the few rows of a level.
  double waiting_row_ms(const MachineCosts& machine) const;
  /// Of a whole draft of `sharers` sequences with these many rows each.
  double draft_ms(std::span<const int> rows, int sharers, const MachineCosts& machine) const;

  static constexpr double kPassRowShare = 0.02;
  static constexpr double kPassShare = 0.15;  // of a check of one row

 private:
  /// Milliseconds of what pass_ counts in.
  double unit_ms(const MachineCosts& machine) const;

  CostCurve pass_;                     // as if checks were at pace 1
  double first_pass_ = 0;              // likewise, at the pace of pass_ = 1
  std::optional<double> waiting_row_;  // likewise
};

}  // namespace talon
