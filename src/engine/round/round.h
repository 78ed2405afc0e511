#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/commit_listener.h"
#include "engine/faults.h"
#include "engine/round/feature_readers.h"
#include "engine/round/forward_rows.h"
#include "engine/round/kept_time.h"
#include "engine/round/proposer.h"
#include "engine/round/round_report.h"
#include "engine/round/scheduled.h"
#include "engine/round/step_budget.h"
#include "model/tap_set.h"
#include "model/target.h"
#include "tree/machine_costs.h"
#include "verify/verifier.h"

namespace talon {

/// The phases of Engine::step (docs/design.md) over what is scheduled for one round. What belongs
/// to one sequence or to its drafter ends there; what is thrown out of a phase concerns all.
/// Borrows everything; holds scratch memory.
class Round {
 public:
  struct Parts {
    MachineCosts& costs;
    StepBudget& budget;
    Faults& faults;
    Timekeeper timekeeper;
    CommitListener* listener;
    TapSet::Reader listener_taps;
  };
  Round(const Model& model, KvCache& cache, int max_rows, Parts parts);
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  /// From now on the target taps what `taps` says. Rows in the cache stay.
  void tap(const TapSet& taps);
  Target& target() { return *target_; }

  /// Grows the trees of the sequences that decode, and leaves prompts what these left of the step's
  /// time. Sequences whose drafter or policy throws are dropped to plain decoding.
  void propose(std::vector<Scheduled>& scheduled);
  /// Runs the target once over all prompt chunks and trees. Throws what it throws.
  void check(std::vector<Scheduled>& scheduled);
  /// Finds each tree's accepted path and the token that follows it. A sequence whose row cannot be
  /// sampled fails.
  void accept(std::vector<Scheduled>& scheduled);
  /// Keeps the accepted rows, shows the drafter the committed tokens and the policy the outcome. A
  /// sequence whose tokens cannot be read or kept fails.
  void commit(std::vector<Scheduled>& scheduled);
  /// The step took step_ms in all.
  void learn_rest(double step_ms);
  /// Of a sequence that decoded, once it is committed. step_ms: of the step in all.
  RoundReport report_of(const Scheduled& entry, double step_ms) const;

 private:
  template <typename Work>
  void for_each_choice(std::vector<Scheduled>& scheduled, Work&& work);
  void wait_for_forward();
  VerifyResult verify(Scheduled& entry, TargetRows& rows);
  void show_draws(Sequence& sequence, const VerifyInput& input);
  void commit(Scheduled& entry, std::size_t index);
  void note_acceptance(Scheduled& entry);
  void learn(std::vector<Scheduled>& scheduled);

  const Model& model_;
  KvCache& cache_;
  int max_rows_;
  std::unique_ptr<Target> target_;
  MachineCosts& costs_;
  StepBudget& budget_;
  Faults& faults_;
  KeptTime kept_time_;
  Proposer proposer_;
  FeatureReaders readers_;
  ForwardResult result_;
  ForwardRows logits_;                    // of result_
  std::vector<std::int32_t> first_uses_;  // ForwardResult::first_uses, waited for
  double draft_ms_ = 0, check_ms_ = 0;
  int rows_ = 0;         // of the check
  GrantedRows granted_;  // what the check has beside draft nodes
};

}  // namespace talon
