#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/feature_tap.h"
#include "tree/draft_tree.h"
#include "tree/drafter_estimates.h"
#include "tree/machine_costs.h"
#include "tree/row_budget.h"
#include "tree/tree_plan.h"

namespace talon {

/// What a policy remembers of one sequence, and decides in each round: how big the next tree is.
/// Never influences which tokens come out, only how fast. A round asks plan(); drafters whose
/// levels cost time ask start() and, after each level, expand(); then all sequences offer() and
/// after that select(); learn() ends it.
class PolicyState {
 public:
  virtual ~PolicyState() = default;
  virtual TreePlan plan(const PlanContext& context) = 0;
  /// Of a drafter that joins several: start() and expand() are asked by the one with this source
  /// (DraftJob::source) from then on.
  virtual void turn_to(std::uint32_t source);
  /// Asked before the first pass of a drafter that grows level by level: whether it is worth it.
  /// tree: the root and what drafters before it proposed. waiting: committed tokens before the root
  /// that the drafter has not run yet, and would run in that pass.
  virtual bool start(const DraftTree& tree, int waiting);
  /// Asked by such drafters after each level of plan().ask_after: how many of its best nodes to
  /// expand; 0: no further level. path_log_p: of the nodes of the newest level, descending. By
  /// default all.
  virtual int expand(std::span<const float> path_log_p);
  /// Shows the finished tree before any sequence of the round cuts its own, so that they can share
  /// `rows`, those of the check, by worth.
  virtual void offer(const DraftTree& tree, const PlanContext& context, RowBudget& rows);
  /// Cuts the finished tree to what is sent to the check: at most context.rows_available draft
  /// nodes. Since plan() the context has learned what earlier sequences keep. By default the
  /// likeliest plan.nodes.
  virtual void select(DraftTree& tree, const TreePlan& plan, const PlanContext& context,
                      RowBudget& rows);
  virtual void learn(const RoundOutcome& outcome);
};

/// A way to choose how big trees are: options and what was loaded from files. Immutable, shared by
/// sequences; outlives its states.
class TreePolicy {
 public:
  virtual ~TreePolicy() = default;
  /// What plan() wants to see of the target. The engine taps them; columns come in this order.
  virtual std::vector<FeatureTap> taps() const { return {}; }
  struct Traits {
    bool uses_costs = false;  // decides by costs, so that measuring them first is worth it
  };
  virtual Traits traits() const { return {}; }
  /// For a new sequence. What it learns with others of the drafter, and what the engine has found
  /// of the machine, are borrowed.
  virtual std::unique_ptr<PolicyState> start(DrafterEstimates& drafter,
                                             const MachineCosts& machine) const = 0;
};

}  // namespace talon
