#include "tree/expert_reads.h"

#include <algorithm>

#include "core/error.h"

namespace talon {
namespace {

// Weight of the past with each check: of a place that it has a row in, and of others.
constexpr double kMemory = 0.8;
constexpr double kIdleMemory = 0.98;
constexpr double kProfileWeight = 1;  // rows in each place that the profile stands for

}  // namespace

ExpertReads::ExpertReads(int max_rows, std::span<const CostProfile::Check> checks)
    : places_(static_cast<std::size_t>(max_rows)) {
  expects(!checks.empty(), "checks of a profile");
  std::size_t next = 0;  // the first check that has not fewer rows
  for (int rows = 1; rows <= max_rows; ++rows) {
    while (next < checks.size() && checks[next].rows < rows) ++next;
    if (next == 0 || checks.size() == 1) {
      profile_.push_back(checks.front().experts);
      continue;
    }
    const std::size_t above = std::min(next, checks.size() - 1);  // or else the last goes on
    const CostProfile::Check &from = checks[above - 1], &to = checks[above];
    const double step = std::max(0.0, to.experts - from.experts) / (to.rows - from.rows);
    profile_.push_back(from.experts + step * (rows - from.rows));
  }
  expected_ = profile_;
}

double ExpertReads::of(const std::vector<double>& experts, int rows) {
  if (experts.empty()) return 0;
  return experts[std::min(static_cast<std::size_t>(rows), experts.size()) - 1];
}

double ExpertReads::profile_adds(std::size_t place) const {
  return place == 0 ? profile_[0] : profile_[place] - profile_[place - 1];
}

/// A place adds what it added lately. Places of which little is known, since no check has so many
/// rows or none had lately, add of what the profile says as much as all the others do.
void ExpertReads::observe(std::span<const std::int32_t> first_uses) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    const bool has_row = i < first_uses.size();
    const double memory = has_row ? kMemory : kIdleMemory;
    place.rows = memory * place.rows + (has_row ? 1 : 0);
    place.experts = memory * place.experts + (has_row ? first_uses[i] : 0);
  }
  double found = 0, foretold = 0;  // behind the first row
  for (std::size_t i = 1; i < places_.size(); ++i) {
    const double adds = profile_adds(i), weight = i == 1 ? kProfileWeight : 0;
    found += places_[i].experts + weight * adds;
    foretold += (places_[i].rows + weight) * adds;
  }
  const double share = foretold > 0 ? found / foretold : 1;
  double sum = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const double adds = profile_adds(i) * (i == 0 ? 1 : share);
    sum += (places_[i].experts + kProfileWeight * adds) / (places_[i].rows + kProfileWeight);
    expected_[i] = sum;
  }
}

}  // namespace talon
