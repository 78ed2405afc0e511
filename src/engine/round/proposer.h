#pragma once

#include <span>
#include <vector>

#include "draft/drafter.h"
#include "engine/faults.h"
#include "engine/round/kept_time.h"
#include "engine/round/scheduled.h"
#include "model/cache/kv_cache.h"
#include "tree/row_budget.h"

namespace talon {

/// Makes the trees of a round: policies plan them, drafters grow them, constraints shape them, and
/// policies cut them to what is worth its rows. Borrows everything.
class Proposer {
 public:
  /// vocabulary: tokens of the target.
  Proposer(KvCache& cache, int vocabulary, KeptTime& kept_time, Faults& faults)
      : cache_(cache), vocabulary_(vocabulary), kept_time_(kept_time), faults_(faults) {}

  /// Sets the trees of the sequences that decode, and what drafting each took. A sequence whose
  /// drafter or policy throws is dropped to plain decoding.
  void propose(std::vector<Scheduled>& scheduled);

 private:
  void plan(std::vector<Scheduled>& scheduled);
  void draft(std::vector<Scheduled>& scheduled);
  void draft_with(Drafter& drafter, std::span<Scheduled* const> scheduled);
  void constrain(std::vector<Scheduled>& scheduled);
  void cut(std::vector<Scheduled>& scheduled);
  void restore_forced(std::vector<Scheduled>& scheduled);
  template <typename Change>
  void change_constrained(std::vector<Scheduled>& scheduled, Change&& change);

  KvCache& cache_;
  int vocabulary_;
  KeptTime& kept_time_;
  Faults& faults_;
  RowBudget row_budget_;
};

}  // namespace talon
