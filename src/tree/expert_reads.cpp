#include "tree/expert_reads.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"

namespace talon {
namespace {

// Weight of the past with each check: of a place that it has a row in, and of others.
constexpr double kMemory = 0.8;
constexpr double kIdleMemory = 0.98;
constexpr double kProfileWeight = 1;  // rows in each place that the profile stands for
// Of the profile's price, among pairs that each weigh what share of a check their experts take.
constexpr double kPriceWeight = 0.5;

}  // namespace

std::vector<std::int32_t> texts_first(std::span<const std::int32_t> first_uses,
                                      std::span<const int> first_rows) {
  std::vector<std::int32_t> texts, drafts;
  for (std::size_t row = 0; row < first_uses.size(); ++row) {
    const bool begins =
        texts.size() < first_rows.size() && first_rows[texts.size()] == static_cast<int>(row);
    (begins ? texts : drafts).push_back(first_uses[row]);
  }
  texts.insert(texts.end(), drafts.begin(), drafts.end());
  return texts;
}

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

/// Drafts keep what is known of them when texts begin or end.
void ExpertReads::make_places(std::size_t texts) {
  const auto at = [this](std::size_t place) {
    return places_.begin() + static_cast<std::ptrdiff_t>(place);
  };
  if (texts > texts_) {
    std::rotate(at(texts_), at(places_.size() - (texts - texts_)), places_.end());
    std::fill(at(texts_), at(texts), Place{});
  } else {
    std::rotate(at(texts), at(texts_), places_.end());
    std::fill(at(places_.size() - (texts_ - texts)), places_.end(), Place{});
  }
  texts_ = texts;
}

/// A place adds what it added lately. Places of drafts of which little is known, since no check has
/// so many rows or none had lately, add of what the profile says as much as all the others do.
void ExpertReads::observe(std::span<const std::int32_t> first_uses, int texts) {
  make_places(std::min(static_cast<std::size_t>(texts), places_.size()));
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    const bool has_row = i < first_uses.size();
    const double memory = has_row ? kMemory : kIdleMemory;
    place.rows = memory * place.rows + (has_row ? 1 : 0);
    place.experts = memory * place.experts + (has_row ? first_uses[i] : 0);
  }
  double found = 0, foretold = 0;  // of drafts
  for (std::size_t i = texts_; i < places_.size(); ++i) {
    const double adds = profile_adds(i), weight = i == texts_ ? kProfileWeight : 0;
    found += places_[i].experts + weight * adds;
    foretold += (places_[i].rows + weight) * adds;
  }
  const double share = foretold > 0 ? found / foretold : 1;
  double sum = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const double adds = profile_adds(i) * (i < texts_ ? 1 : share);
    sum += (places_[i].experts + kProfileWeight * adds) / (places_[i].rows + kProfileWeight);
    expected_[i] = sum;
  }
}

void ExpertPrice::observe(int rows, const Check& check, double usual_ms) {
  const bool is_timed = check.ms > 0 && std::isfinite(check.ms);
  if (rows < 1 || rows > std::ssize(last_) || !is_timed) return;
  const Check before = std::exchange(last_[static_cast<std::size_t>(rows) - 1], check);
  const double experts_ms = check.experts_ms - before.experts_ms;
  if (before.texts != check.texts || experts_ms == 0) return;
  const double times = (check.ms - before.ms) / experts_ms;
  pairs_[next_] = {std::clamp(times, 1 / kMost, kMost), std::abs(experts_ms) / usual_ms};
  next_ = (next_ + 1) % kPairs;
  times_ = std::clamp(median(), times_ / kStep, times_ * kStep);
}

double ExpertPrice::median() const {
  std::array<Pair, kPairs + 1> sorted;
  std::ranges::copy(pairs_, sorted.begin());
  sorted.back() = {1, kPriceWeight};
  std::ranges::sort(sorted, {}, &Pair::times);
  double left = 0;
  for (const Pair& pair : sorted) left += pair.weight / 2;
  for (const Pair& pair : sorted) {
    left -= pair.weight;
    if (left <= 0) return pair.times;
  }
  return sorted.back().times;
}

}  // namespace talon
