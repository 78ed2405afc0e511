#pragma once

#include "tree/cost_curve.h"
#include "tree/cost_profile.h"

namespace talon {

/// What a round costs on this machine whoever drafts: a check of n rows by context, and what is
/// neither draft nor check. Starts from a profile and is corrected by what rounds take. One per
/// engine: all sequences share the machine.
class MachineCosts {
 public:
  /// REQUIRES: max_rows >= 1.
  explicit MachineCosts(int max_rows, const CostProfile& profile = {});

  /// A check of `rows` rows took `ms`. context: committed positions before a row, on average.
  /// texts: whose keys and values it read. REQUIRES: rows >= 1.
  void observe_check(int rows, int context, double ms, int texts = 1);
  /// What a round took beside draft and check.
  void observe_rest(double ms);

  /// Milliseconds of a check; in units of a check of one row until anything was measured.
  double check_ms(int rows, int context = 0, int texts = 1) const;
  double rest_ms() const { return rest_.value(); }
  /// How much slower checks are than the profile says.
  double pace() const { return check_.pace(); }

  static constexpr double kCheckRowShare = 0.15;

 private:
  double beyond_reference(int rows, int context, int texts) const;

  CostCurve check_;  // at the reference context
  int reference_context_ = 0;
  double per_position_ = 0;      // ms that each position of a text's context adds to a check
  double per_position_row_ = 0;  // ms that each position of context adds to each row of a check
  RecentMedian rest_;
};

}  // namespace talon
