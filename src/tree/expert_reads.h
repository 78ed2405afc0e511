#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tree/cost_profile.h"

namespace talon {

/// How many experts the checks of a mixture read, by their rows: those of a profile, and what the
/// next ones are expected to. They are counted and not timed, so a text whose rows share experts,
/// or no longer do, shows within a few checks.
class ExpertReads {
 public:
  ExpertReads() = default;  // of a model without experts
  /// checks: of the profile at one context, with ascending rows.
  ExpertReads(int max_rows, std::span<const CostProfile::Check> checks);

  /// first_uses: of each row of a check, the experts that no row before goes to.
  void observe(std::span<const std::int32_t> first_uses);
  /// Of a check of the profile. Between its row counts it is interpolated, as its times are.
  double in_profile(int rows) const { return of(profile_, rows); }
  double expected(int rows) const { return of(expected_, rows); }

 private:
  /// What rows in one place of a check added lately; newer ones count more.
  struct Place {
    double rows = 0;
    double experts = 0;
  };
  static double of(const std::vector<double>& experts, int rows);
  double profile_adds(std::size_t place) const;

  std::vector<double> profile_, expected_;  // by rows - 1
  std::vector<Place> places_;
};

}  // namespace talon
