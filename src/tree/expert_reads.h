#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tree/cost_profile.h"

namespace talon {

/// The first_uses of a check, those of the rows that texts go on with before those of drafts.
/// first_rows: of each text the row that it goes on with, ascending. first_uses may be empty.
std::vector<std::int32_t> texts_first(std::span<const std::int32_t> first_uses,
                                      std::span<const int> first_rows);

/// How many experts the checks of a mixture read, by their rows: those of a profile, and what the
/// next ones are expected to. They are counted and not timed, so a text whose rows share experts,
/// or no longer do, shows within a few checks. Rows that texts go on with have the first places,
/// since they share fewer experts with each other than drafts do with the text that they follow.
class ExpertReads {
 public:
  ExpertReads() = default;  // of a model without experts
  /// checks: of the profile at one context, with ascending rows.
  ExpertReads(int max_rows, std::span<const CostProfile::Check> checks);

  /// first_uses: of each row of a check, the experts that no row before goes to; texts_first().
  /// REQUIRES: texts >= 1.
  void observe(std::span<const std::int32_t> first_uses, int texts = 1);
  /// Of a check of the profile. Between its row counts it is interpolated, as its times are.
  double in_profile(int rows) const { return of(profile_, rows); }
  /// With as many texts as the last check had.
  double expected(int rows) const { return of(expected_, rows); }

 private:
  /// What rows in one place of a check added lately; newer ones count more.
  struct Place {
    double rows = 0;
    double experts = 0;
  };
  static double of(const std::vector<double>& experts, int rows);
  double profile_adds(std::size_t place) const;
  void make_places(std::size_t texts);

  std::vector<double> profile_, expected_;  // by rows - 1
  std::vector<Place> places_;               // of texts_, then of drafts
  std::size_t texts_ = 1;
};

/// How many times as much as a profile says an expert takes, by what serving checks take. Compared
/// are each check and the last one of as many rows and texts: those differ by their experts alone,
/// so nothing that is wrong about other rows counts. It is the median of the last pairs, each of
/// which weighs what share of a check its experts take; so a machine that is busy now and then
/// changes nothing, and pairs that hardly differ say little.
class ExpertPrice {
 public:
  ExpertPrice() = default;  // of a model without experts
  explicit ExpertPrice(int max_rows) : last_(static_cast<std::size_t>(max_rows)) {}

  /// Of a check, at pace 1.
  struct Check {
    int texts = 0;
    double experts_ms = 0;  // what its experts take, as the profile has it
    double ms = 0;          // what it took, without what its context adds
  };
  /// usual_ms: what such a check takes in all.
  void observe(int rows, const Check& check, double usual_ms);
  /// Between 1 / kMost and kMost. 1 until checks tell otherwise.
  double times_profile() const { return times_; }

  static constexpr double kMost = 3;
  static constexpr double kStep = 1.05;  // by which a check changes it at most

 private:
  struct Pair {
    double times = 0;
    double weight = 0;
  };
  static constexpr std::size_t kPairs = 64;
  double median() const;

  std::vector<Check> last_;  // by rows - 1
  std::array<Pair, kPairs> pairs_{};
  std::size_t next_ = 0;
  double times_ = 1;
};

}  // namespace talon
