#include "sample/logit_changes.h"

#include <algorithm>

#include "sample/sampler.h"

namespace talon {
namespace {

using Change = LogitChanges::Change;

/// Of one token. Bans are so far below all else that no bias brings a token back.
Change sum_of(const Change& a, const Change& b) {
  const auto sum = [](float x, float y) {
    if (x == LogitChanges::kBan || y == LogitChanges::kBan) return LogitChanges::kBan;
    return std::clamp(x + y, LogitChanges::kBan, -LogitChanges::kBan);
  };
  return {a.token, sum(a.shift, b.shift), sum(a.early, b.early)};
}

}  // namespace

LogitChanges::LogitChanges(const SamplerOptions& options) {
  std::vector<Change> each;
  for (const auto& [token, bias] : options.logit_bias) {
    const float shift = std::clamp(bias, kBan, -kBan);
    each.push_back({token, shift, shift});
  }
  for (const TokenId token : options.banned) each.push_back({token, kBan, kBan});
  if (options.least_answer > 0 && !options.banned_early.empty()) {
    least_answer_ = options.least_answer;
    for (const TokenId token : options.banned_early) each.push_back({token, 0, kBan});
  }
  std::ranges::stable_sort(each, {}, &Change::token);
  for (const Change& change : each) {
    if (changes_.empty() || changes_.back().token != change.token) {
      changes_.push_back(change);
    } else {
      changes_.back() = sum_of(changes_.back(), change);
    }
  }
  std::erase_if(changes_, [](const Change& it) { return it.shift == 0 && it.early == 0; });
}

float LogitChanges::shift_of(TokenId token, bool is_early) const {
  const auto found = std::ranges::lower_bound(changes_, token, {}, &Change::token);
  if (found == changes_.end() || found->token != token) return 0;
  return is_early ? found->early : found->shift;
}

/// In the order of the sampler: repetition before presence and frequency.
float TextPenalties::penalized(float logit, const Seen& seen, double scale) const {
  double value = static_cast<double>(logit);
  if (seen.repeats) value = value > 0 ? value / repetition_ : value * repetition_;
  return static_cast<float>(value - scale * seen.subtracted);
}

}  // namespace talon
