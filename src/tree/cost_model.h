#pragma once

#include <span>

#include "tree/cost_curve.h"
#include "tree/cost_profile.h"

namespace talon {

/// What a round's parts cost on this machine: a check of n rows by context, a pass of the draft
/// head over n rows, and the rest. Starts from a profile and is corrected by what rounds take. One
/// per engine: all sequences share the machine.
class CostModel {
 public:
  /// REQUIRES: max_rows >= 1.
  explicit CostModel(int max_rows, const CostProfile& profile = {});

  /// A check of `rows` rows took `ms`. context: committed positions before a row, on average.
  void observe_check(int rows, int context, double ms);
  /// Passes over these many rows, one after the other, took `ms` together.
  void observe_passes(std::span<const int> rows, double ms);
  /// What a round took beside draft and check.
  void observe_rest(double ms);

  /// Milliseconds of a check; in units of a check of one row until anything was measured.
  double check_ms(int rows, int context = 0) const;
  /// Of one pass of the draft head, its weights in the cache; a share of a check until anything was
  /// measured.
  double pass_ms(int rows) const;
  /// What the first pass of a draft takes beyond pass_ms().
  double first_pass_ms() const;
  /// Of a whole draft.
  double passes_ms(std::span<const int> rows) const;
  double rest_ms() const { return rest_.value(); }

  static constexpr double kCheckRowShare = 0.15;
  static constexpr double kPassRowShare = 0.02;
  static constexpr double kPassShare = 0.15;  // of a check of one row

 private:
  double beyond_reference(int rows, int context) const;
  /// Milliseconds of what pass_ counts in.
  double pass_unit() const;

  CostCurve check_;        // at the reference context
  CostCurve pass_;         // as if the check were at pace 1: what slows one slows the other
  double first_pass_ = 0;  // likewise, at the pace of pass_ = 1
  int reference_context_ = 0;
  double per_position_ = 0;      // ms that each position of context adds to a check,
  double per_position_row_ = 0;  // ... and to each of its rows
  RecentMedian rest_;
};

}  // namespace talon
