#include "engine/methods/method_table.h"

#include <algorithm>
#include <type_traits>

#include "core/error.h"
#include "sample/temperature_class.h"

namespace talon {
namespace {

/// Where what is learned of a drafter with these costs starts.
EstimatesByClass first_estimates(const CostProfile& costs, int max_rows) {
  EstimatesByClass estimates;
  for (std::size_t kind = 0; kind < kDraftClasses; ++kind) {
    estimates.emplace_back(max_rows, costs, draft_class_knows_noise(kind));
  }
  return estimates;
}

/// A drafter that goes takes what it cannot tell with it.
long lost_rows_or_none(const Drafter& drafter) noexcept {
  try {
    return drafter.lost_rows();
  } catch (...) {
    return 0;
  }
}

}  // namespace

MethodId MethodTable::add(Method method, int max_rows,
                          const std::function<void(const TapSet&)>& tap) {
  if (!method.drafter || !method.policy || !method.verifier) {
    throw UsageError("method: expected a drafter, a policy and a rule, found a part missing");
  }
  auto entry = std::make_shared<MethodEntry>();
  entry->estimates = estimates_of(method);
  const bool brings_costs = !method.costs.empty() && !has_costs(method.drafter.get());
  EstimatesByClass anew;
  if (!entry->estimates) {
    entry->estimates = std::make_shared<EstimatesByClass>(first_estimates(method.costs, max_rows));
  } else if (brings_costs) {
    anew = first_estimates(method.costs, max_rows);
  }
  TapSet taps = taps_;
  const DrafterTraits traits = method.drafter->traits();
  entry->drafter_taps = taps.add(traits.taps);
  entry->policy_taps = taps.add(method.policy->taps());
  entry->sees_draws = traits.sees_draws;
  entry->drafts = !traits.is_plain;
  entry->knows_noise = method.verifier->drafts_may_know_noise();
  entry->parts = std::move(method);
  auto place = std::find(entries_.begin(), entries_.end(), nullptr);
  if (place == entries_.end()) place = entries_.insert(place, nullptr);
  tap(taps);
  static_assert(std::is_nothrow_move_assignable_v<DrafterEstimates>);
  std::ranges::move(anew, entry->estimates->begin());  // in their place: policies borrow them
  *place = std::move(entry);
  taps_ = std::move(taps);
  return static_cast<MethodId>(place - entries_.begin());
}

bool MethodTable::remove(MethodId id) {
  if (!find(id)) return false;
  auto& entry = entries_[static_cast<std::size_t>(id)];
  if (entry.use_count() > 1) return false;
  const std::shared_ptr<Drafter> drafter = entry->parts.drafter;
  entry.reset();
  if (!has(drafter.get())) lost_before_ += lost_rows_or_none(*drafter);
  return true;
}

std::shared_ptr<const MethodEntry> MethodTable::find(MethodId id) const {
  const bool is_known = id >= 0 && static_cast<std::size_t>(id) < entries_.size();
  return is_known ? entries_[static_cast<std::size_t>(id)] : nullptr;
}

bool MethodTable::knows_noise(MethodId id) const {
  const auto entry = find(id);
  return entry && entry->knows_noise;
}

bool MethodTable::has(const Drafter* drafter) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry && entry->parts.drafter.get() == drafter;
  });
}

long MethodTable::lost_rows() const {
  long rows = lost_before_;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (!*entry) continue;
    const bool is_first = std::none_of(entries_.begin(), entry, [&](const auto& earlier) {
      return earlier && earlier->parts.drafter == (*entry)->parts.drafter;
    });
    if (is_first) rows += (*entry)->parts.drafter->lost_rows();
  }
  return rows;
}

bool MethodTable::has_costs(const Drafter* drafter) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry && entry->parts.drafter.get() == drafter && !entry->parts.costs.empty();
  });
}

/// Those that a method with the same drafter has; null: there is none.
std::shared_ptr<EstimatesByClass> MethodTable::estimates_of(const Method& method) const {
  const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry && entry->parts.drafter == method.drafter;
  });
  return same != entries_.end() ? (*same)->estimates : nullptr;
}

}  // namespace talon
