#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/methods/method.h"
#include "model/tap_set.h"
#include "tree/drafter_estimates.h"

namespace talon {

/// What is learned of a drafter, by draft_class().
using EstimatesByClass = std::vector<DrafterEstimates>;

/// A method in use.
struct MethodEntry {
  Method parts;
  std::shared_ptr<EstimatesByClass> estimates;  // shared by methods with the same drafter
  TapSet::Reader drafter_taps, policy_taps;
  bool sees_draws;   // the drafter does
  bool drafts;       // it is not plain decoding
  bool knows_noise;  // its drafts may (Verifier::drafts_may_know_noise)
};

/// The methods of an engine, with what it learns of each drafter and what the target must tap for
/// all. Sequences share the entries that they have, so that those are not removed.
class MethodTable {
 public:
  /// `watched`: what the engine's listener wants to see.
  explicit MethodTable(std::span<const FeatureTap> watched) : listener_taps_(taps_.add(watched)) {}

  /// max_rows: of a check. Before the method is added, `tap` is told what is then wanted of the
  /// target; what it throws leaves the table as it was. Throws UsageError for a method that lacks a
  /// part.
  MethodId add(Method method, int max_rows, const std::function<void(const TapSet&)>& tap);
  /// False if a sequence has it, or there is none; else its number may be given again.
  bool remove(MethodId id);
  /// Null if there is none.
  std::shared_ptr<const MethodEntry> find(MethodId id) const;
  /// MethodEntry::knows_noise; false if there is none.
  bool knows_noise(MethodId id) const;
  /// Drafter::lost_rows() of all drafters.
  long lost_rows() const;
  TapSet::Reader listener_taps() const { return listener_taps_; }

 private:
  std::shared_ptr<EstimatesByClass> estimates_of(const Method& method) const;
  bool has_costs(const Drafter* drafter) const;
  bool has(const Drafter* drafter) const;

  std::vector<std::shared_ptr<const MethodEntry>> entries_;  // null: removed
  long lost_before_ = 0;                                     // rows, of drafters that are gone
  TapSet taps_;
  TapSet::Reader listener_taps_;
};

}  // namespace talon
