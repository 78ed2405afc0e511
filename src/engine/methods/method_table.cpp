#include "engine/methods/method_table.h"

#include <algorithm>

#include "core/error.h"
#include "sample/temperature_class.h"

namespace talon {

MethodId MethodTable::add(Method method, int max_rows,
                          const std::function<void(const TapSet&)>& tap) {
  if (!method.drafter || !method.policy || !method.verifier) {
    throw UsageError("method: expected a drafter, a policy and a rule, found a part missing");
  }
  EstimatesByTemperature* const estimates = estimates_of(method, max_rows);
  TapSet taps = taps_;
  const DrafterTraits traits = method.drafter->traits();
  const TapSet::Reader drafter_taps = taps.add(traits.taps);
  const TapSet::Reader policy_taps = taps.add(method.policy->taps());
  tap(taps);
  entries_.push_back({std::move(method), estimates, drafter_taps, policy_taps, traits.sees_draws,
                      !traits.is_plain});
  taps_ = std::move(taps);
  return size() - 1;
}

long MethodTable::lost_rows() const {
  long rows = 0;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const bool is_first = std::none_of(entries_.begin(), entry, [&](const MethodEntry& earlier) {
      return earlier.method.drafter == entry->method.drafter;
    });
    if (is_first) rows += entry->method.drafter->lost_rows();
  }
  return rows;
}

EstimatesByTemperature* MethodTable::estimates_of(const Method& method, int max_rows) {
  EstimatesByTemperature* found = nullptr;
  bool has_costs = false;
  for (const MethodEntry& entry : entries_) {
    if (entry.method.drafter != method.drafter) continue;
    found = entry.estimates;
    has_costs = has_costs || !entry.method.costs.empty();
  }
  if (found && (has_costs || method.costs.empty())) return found;
  if (!found) found = &estimates_.emplace_back(kTemperatureClasses, DrafterEstimates(max_rows));
  // In their place: policies borrow them.
  for (std::size_t kind = 0; kind < found->size(); ++kind) {
    (*found)[kind] = DrafterEstimates(max_rows, method.costs, /*sampled=*/kind > 0);
  }
  return found;
}

}  // namespace talon
