#include "tree/machine_costs.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace talon {
namespace {

double ms_at(const CostProfile& profile, int rows, int context) {
  for (const auto& check : profile.checks) {
    if (check.rows == rows && check.context == context) return check.ms;
  }
  return 0;
}

std::vector<CostProfile::Check> checks_at(const CostProfile& profile, int context) {
  std::vector<CostProfile::Check> found;
  for (const auto& check : profile.checks) {
    if (check.context == context) found.push_back(check);
  }
  std::ranges::sort(found, {}, &CostProfile::Check::rows);
  return found;
}

}  // namespace

/// The part that grows with the context is fitted, by least squares over the row counts that were
/// measured at two contexts, as positions * (a * texts + b * rows): the keys and values of a text
/// are read once, and each row multiplies with all of them. It was measured of one text.
MachineCosts::MachineCosts(int max_rows, const CostProfile& profile, ContextRead read)
    : read_(read), check_(max_rows, kCheckRowShare) {
  if (profile.empty()) return;
  const auto by_context = [](const auto& a, const auto& b) { return a.context < b.context; };
  const auto [least, most] =
      std::minmax_element(profile.checks.begin(), profile.checks.end(), by_context);
  reference_context_ = least->context;
  expert_ms_ = profile.expert_ms;
  if (expert_ms_ > 0) {
    reads_ = ExpertReads(max_rows, checks_at(profile, reference_context_));
    price_ = ExpertPrice(max_rows);
  }
  const double positions = read_.of(most->context) - read_.of(reference_context_);
  double count = 0, sum_rows = 0, sum_rows2 = 0, sum = 0, sum_product = 0;
  for (const auto& check : profile.checks) {
    if (check.context == reference_context_) check_.seed(check.rows, check.ms);
    if (check.context != most->context || positions <= 0) continue;
    const double near_ms = ms_at(profile, check.rows, reference_context_);
    if (near_ms == 0) continue;
    const double other_experts_ms = expert_ms_ * (check.experts - reads_.in_profile(check.rows));
    const double slope = (check.ms - other_experts_ms - near_ms) / positions;
    count += 1;
    sum_rows += check.rows;
    sum_rows2 += static_cast<double>(check.rows) * check.rows;
    sum += slope;
    sum_product += slope * check.rows;
  }
  const double spread = count * sum_rows2 - sum_rows * sum_rows;
  if (spread > 0) {
    per_position_row_ = std::max(0.0, (count * sum_product - sum_rows * sum) / spread);
  }
  if (count > 0) per_position_ = std::max(0.0, (sum - per_position_row_ * sum_rows) / count);
}

double MachineCosts::beyond_reference(int rows, int context, int texts) const {
  const double positions = std::max(0.0, read_.of(context) - read_.of(reference_context_));
  return check_.pace() * positions * (per_position_ * texts + per_position_row_ * rows);
}

/// As if it were at the reference context and read the profile's experts, by the ratio of the two:
/// the difference has the pace in it, and where most of a check is context the pace would chase its
/// own error.
void MachineCosts::observe_check(int rows, int context, double ms, int texts,
                                 std::span<const std::int32_t> first_uses) {
  const double experts = first_uses.empty()
                             ? reads_.expected(rows)
                             : std::accumulate(first_uses.begin(), first_uses.end(), 0.0);
  const double usual_ms = ms_reading(experts, rows, context, texts);
  if (expert_ms_ > 0 && !first_uses.empty()) {
    const double own_ms = ms - beyond_reference(rows, context, texts);
    price_.observe(rows, {texts, expert_ms_ * experts, own_ms / pace()}, usual_ms / pace());
    reads_.observe(first_uses, texts);
  }
  check_.observe(rows, ms * check_.ms(rows) / usual_ms);
}

double MachineCosts::check_ms(int rows, int context, int texts) const {
  return ms_reading(reads_.expected(rows), rows, context, texts);
}

double MachineCosts::ms_reading(double experts, int rows, int context, int texts) const {
  const double ms = check_.ms(rows) + beyond_reference(rows, context, texts);
  if (expert_ms_ == 0) return ms;
  const double other_experts = experts - reads_.in_profile(rows);
  return std::max(check_.ms(1), ms + pace() * expert_ms() * other_experts);
}

void MachineCosts::observe_rest(double ms) { rest_.add(ms); }

}  // namespace talon
