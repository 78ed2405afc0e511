#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

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

  /// Passes over these many rows, one after the other, took `ms` together.
  void observe(std::span<const int> rows, double ms, const MachineCosts& machine);

  /// A round begins. Sequences that draft in it by one call do so after all have begun. What seems
  /// too slow to run is not measured either: after some rounds without a pass, ever more, it is
  /// taken to be as the profile says.
  void begin_round();
  /// In the call one more sequence runs `rows` in that pass, counted from 0. tells: the rows are
  /// all that it runs, so that the time says what passes cost.
  void run(std::size_t pass, int rows, bool tells = true);
  /// The call was for `sharers` sequences and took `ms`. Those of them that are not among the ones
  /// that called run() are taken to be like these. Only the first telling of a round counts.
  void observe_call(int sharers, double ms, const MachineCosts& machine);

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
  void clear_call();

  CostCurve pass_;                     // as if checks were at pace 1
  double first_pass_ = 0;              // as if checks and pass_ were at pace 1
  std::optional<double> waiting_row_;  // as if checks and pass_ were at pace 1

  static constexpr int kShortestPause = 32, kLongestPause = 4096;  // in rounds
  int idle_rounds_ = 0;                                            // since a pass ran
  int pause_ = kShortestPause;

  // Of the round's call:
  std::vector<int> call_rows_;  // by pass, of all sequences
  int call_sequences_ = 0;
  bool call_tells_ = true;
};

}  // namespace talon
