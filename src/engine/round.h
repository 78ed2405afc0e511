#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/index_list.h"
#include "draft/drafter.h"
#include "engine/admission/scheduled.h"
#include "engine/admission/step_budget.h"
#include "engine/faults.h"
#include "engine/forward_rows.h"
#include "engine/round_report.h"
#include "engine/sequence.h"
#include "model/tap_set.h"
#include "model/target.h"
#include "tree/machine_costs.h"
#include "tree/row_budget.h"
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

 private:
  double kept_ms(StepPart part, double measured_ms);
  void plan(std::vector<Scheduled>& scheduled);
  void draft(std::vector<Scheduled>& scheduled);
  void draft_with(Drafter& drafter, std::span<Scheduled* const> scheduled);
  void constrain(std::vector<Scheduled>& scheduled);
  void cut(std::vector<Scheduled>& scheduled);
  void add_certain(std::vector<Scheduled>& scheduled);
  template <typename Change>
  void change_constrained(std::vector<Scheduled>& scheduled, Change&& change);
  template <typename Ask>
  void ask_policy(Scheduled& entry, Ask&& ask);
  void drop(Sequence& sequence);
  template <typename Work>
  void for_each_draw(std::vector<Scheduled>& scheduled, Work&& work);
  VerifyResult verify(Scheduled& entry, TargetRows& rows);
  void commit(Scheduled& entry, std::size_t index);
  void note_acceptance(Scheduled& entry);
  void observe(Scheduled& entry, std::size_t index, std::span<const NodeId> rows);
  void tell_listener(Scheduled& entry, std::size_t index, std::span<const NodeId> rows);
  std::vector<TokenId> add_guide(const Sequence& sequence, std::size_t index,
                                 std::span<const NodeId> rows, TapSet::Reader reader,
                                 CommittedTokens& committed);
  void show_policy(Sequence& sequence, const View& features);
  View features_of(int first, std::span<const NodeId> rows, int gathered = 0);
  void learn(std::vector<Scheduled>& scheduled);

  const Model& model_;
  KvCache& cache_;
  int max_rows_;
  TapSet taps_;
  std::unique_ptr<Target> target_;
  MachineCosts& costs_;
  StepBudget& budget_;
  RowBudget draft_rows_;
  Timekeeper timekeeper_;
  CommitListener* listener_;
  TapSet::Reader listener_taps_;
  Faults& faults_;
  ForwardResult result_;
  ForwardRows logits_;                    // of result_
  std::vector<std::int32_t> first_uses_;  // ForwardResult::first_uses, waited for
  IndexList gathered_rows_;
  Buffer features_;           // of an accepted path whose rows are not neighbours, and of its guide
  std::vector<Fence> shown_;  // on its way to Sequence::feature
  double draft_ms_ = 0, check_ms_ = 0;
  int rows_ = 0;         // of the check
  GrantedRows granted_;  // what the check has beside draft nodes
};

}  // namespace talon
