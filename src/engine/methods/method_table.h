#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>

#include "engine/engine.h"
#include "engine/methods/method.h"
#include "model/tap_set.h"
#include "tree/drafter_estimates.h"

namespace talon {

/// What is learned of a drafter, by temperature_class().
using EstimatesByTemperature = std::vector<DrafterEstimates>;

/// A method in use.
struct MethodEntry {
  Method method;
  EstimatesByTemperature* estimates;  // of its drafter, shared with other methods that have it
  TapSet::Reader drafter_taps, policy_taps;
  bool sees_draws;  // the drafter does, after every node
  bool drafts;      // it is not plain decoding
};

/// The methods of an engine, with what it learns of each drafter and what the target must tap for
/// all. Entries keep their place.
class MethodTable {
 public:
  /// `watched`: what the engine's listener wants to see.
  explicit MethodTable(std::span<const FeatureTap> watched) : listener_taps_(taps_.add(watched)) {}

  /// max_rows: of a check. Before the method is added, `tap` is told what is then wanted of the
  /// target; what it throws leaves the table as it was. Throws UsageError for a method that lacks a
  /// part.
  MethodId add(Method method, int max_rows, const std::function<void(const TapSet&)>& tap);
  const MethodEntry& at(MethodId id) const { return entries_[static_cast<std::size_t>(id)]; }
  int size() const { return static_cast<int>(entries_.size()); }
  /// Drafter::lost_rows() of all drafters.
  long lost_rows() const;
  TapSet::Reader listener_taps() const { return listener_taps_; }

 private:
  EstimatesByTemperature* estimates_of(const Method& method, int max_rows);

  std::deque<MethodEntry> entries_;
  std::deque<EstimatesByTemperature> estimates_;
  TapSet taps_;
  TapSet::Reader listener_taps_;
};

}  // namespace talon
