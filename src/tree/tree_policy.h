#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/feature_tap.h"
#include "tree/draft_tree.h"
#include "tree/drafter_estimates.h"
#include "tree/machine_costs.h"
#include "tree/row_budget.h"

namespace talon {

/// A set of tree levels; level 1 holds the root's children. Levels from 64 on are one.
class TreeLevels {
 public:
  static constexpr TreeLevels none() { return TreeLevels(0); }
  static constexpr TreeLevels all() { return TreeLevels(~std::uint64_t{0}); }
  constexpr bool contains(int level) const { return (bits_ >> bit(level) & 1) != 0; }
  constexpr void add(int level) { bits_ |= std::uint64_t{1} << bit(level); }
  constexpr bool operator==(const TreeLevels&) const = default;

 private:
  explicit constexpr TreeLevels(std::uint64_t bits) : bits_(bits) {}
  static constexpr int bit(int level) { return std::clamp(level, 1, 64) - 1; }
  std::uint64_t bits_;
};

/// The largest tree a drafter may propose this round.
struct TreePlan {
  int nodes = 0;   // draft nodes, root excluded; 0: do not draft
  int levels = 0;  // tree levels below the root
  int width = 0;   // nodes kept per level while growing
  /// After which the policy wants to be asked. After the others a drafter goes on by itself, and
  /// need not wait for the level's numbers.
  TreeLevels ask_after = TreeLevels::all();
};

struct PlanContext {
  int position = 0;        // of the root
  int rows_available = 0;  // that the forward and the cache have room for, root excluded
  /// That can still become text: one less than the tokens the answer may still get.
  int levels_available = 0;
  int sequences = 1;   // that decode in this round, this one included
  int other_rows = 0;  // rows of the check besides this sequence's draft nodes, as far as known
  int answer_position = 0;  // of the root in the answer: 0 for its first token
  /// [taps * hidden], what taps() asked for of the target row that produced the root; empty without
  /// taps. Borrowed for the call.
  std::span<const float> feature = {};
};

/// What a round brought, for policies that learn.
struct RoundOutcome {
  const DraftTree* tree = nullptr;   // as it was checked
  std::span<const NodeId> accepted;  // node ids, root included
  /// Tokens that became text: the accepted ones and the one that follows.
  std::span<const TokenId> emitted;
  double draft_ms = 0;   // of the whole batch
  double check_ms = 0;   // likewise
  int sequences = 1;     // that decoded in the round
  int batch_rows = 0;    // rows of the whole check, all sequences
  int batch_tokens = 0;  // tokens emitted by it, all sequences
};

/// What a policy remembers of one sequence, and decides in each round: how big the next tree is.
/// Never influences which tokens come out, only how fast. A round asks plan(); drafters whose
/// levels cost time ask start() and, after each level, expand(); then all sequences offer() and
/// after that select(); learn() ends it.
class PolicyState {
 public:
  virtual ~PolicyState() = default;
  virtual TreePlan plan(const PlanContext& context) = 0;
  /// Asked before the first pass of a drafter that grows level by level: whether it is worth it.
  /// tree: the root and what cheaper drafters proposed.
  virtual bool start(const DraftTree& tree);
  /// Asked by such drafters after each level of plan().ask_after: how many of its best nodes to
  /// expand; 0: no further level. path_log_p: of the nodes of the newest level, descending. By
  /// default all.
  virtual int expand(std::span<const float> path_log_p);
  /// Shows the finished tree before any sequence of the round cuts its own, so that they can share
  /// `rows`, those of the check, by worth.
  virtual void offer(const DraftTree& tree, const PlanContext& context, RowBudget& rows);
  /// Cuts the finished tree to what is sent to the check: at most context.rows_available draft
  /// nodes. The context may have become more precise since plan(). By default the likeliest
  /// plan.nodes.
  virtual void select(DraftTree& tree, const TreePlan& plan, const PlanContext& context,
                      RowBudget& rows);
  virtual void learn(const RoundOutcome& outcome);
};

/// A way to choose how big trees are: options and what was loaded from files. Immutable, shared by
/// sequences; outlives its states.
class TreePolicy {
 public:
  virtual ~TreePolicy() = default;
  /// What plan() wants to see of the target; the Target must have been made with the drafter's taps
  /// and then these.
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
