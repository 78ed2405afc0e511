#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "tree/cost_curve.h"
#include "tree/cost_profile.h"
#include "tree/expert_reads.h"

namespace talon {

/// How much of a text's context the layers of a model read: all of it, or near layers its end.
struct ContextRead {
  int reach = 0;          // positions that near layers read at most
  double near_share = 0;  // of the keys and values of all layers, those of near ones

  /// Positions that a row reads in the mean of all layers.
  double of(int context) const { return context - near_share * std::max(0, context - reach); }
};

/// What a round costs on this machine whoever drafts: a check of n rows by context and, of a
/// mixture, by the experts that it is expected to read, and what is neither draft nor check. Starts
/// from a profile and is corrected by what rounds take. One per engine: all sequences share the
/// machine.
class MachineCosts {
 public:
  /// REQUIRES: max_rows >= 1.
  explicit MachineCosts(int max_rows, const CostProfile& profile = {}, ContextRead read = {});

  /// A check of `rows` rows took `ms`. context: committed positions before a row, on average.
  /// texts: whose keys and values it read. first_uses: of a mixture, how many experts each row was
  /// the first to go to, texts_first(); else empty. REQUIRES: rows >= 1, texts >= 1.
  void observe_check(int rows, int context, double ms, int texts = 1,
                     std::span<const std::int32_t> first_uses = {});
  /// What a round took beside draft and check.
  void observe_rest(double ms);

  /// Milliseconds of a check; in units of a check of one row until anything was measured.
  double check_ms(int rows, int context = 0, int texts = 1) const;
  double rest_ms() const { return rest_.value(); }
  /// How much slower checks are than the profile says.
  double pace() const { return check_.pace(); }
  /// What each expert adds to a check, at pace 1. 0: none is counted.
  double expert_ms() const { return expert_ms_ * price_.times_profile(); }

  static constexpr double kCheckRowShare = 0.15;

 private:
  double beyond_reference(int rows, int context, int texts) const;
  double ms_reading(double experts, int rows, int context, int texts) const;

  ContextRead read_;
  CostCurve check_;  // at the reference context, of as many experts as the profile's checks read
  ExpertReads reads_;
  ExpertPrice price_;
  double expert_ms_ = 0;  // that each expert adds to a check, as the profile has it
  int reference_context_ = 0;
  double per_position_ = 0;      // ms that each position read of a text adds to a check
  double per_position_row_ = 0;  // ms that each position read adds to each row of a check
  RecentMedian rest_;
};

}  // namespace talon
