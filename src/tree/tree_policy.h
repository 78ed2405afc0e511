#pragma once

#include <span>

#include "tree/draft_tree.h"

namespace talon {

/// The largest tree a drafter may propose this round.
struct TreePlan {
  int nodes = 0;   // draft nodes, root excluded; 0: do not draft
  int levels = 0;  // tree levels below the root
  int width = 0;   // nodes kept per level while growing
};

struct PlanContext {
  int position = 0;        // of the root
  int rows_available = 0;  // that the forward and the cache have room for, root excluded
  /// That can still become text: one less than the tokens the answer may still get.
  int levels_available = 0;
  int sequences = 1;   // that decode in this round, this one included
  int other_rows = 0;  // rows of the check besides this sequence's draft nodes, as far as known
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

/// How big the next tree is (DESIGN 3). One per sequence. Never influences which tokens come out,
/// only how fast. A round asks plan(), then deeper() after each level that is grown, then select(),
/// and reports with learn().
class TreePolicy {
 public:
  virtual ~TreePolicy() = default;
  virtual TreePlan plan(const PlanContext& context) = 0;
  /// Asked by drafters that grow level by level: whether one more is worth it. path_log_p: of the
  /// nodes of the newest level, descending.
  virtual bool deeper(std::span<const float> path_log_p) = 0;
  /// Cuts the finished tree to what is sent to the check: at most context.rows_available draft
  /// nodes. The context may have become more precise since plan().
  virtual void select(DraftTree& tree, const TreePlan& plan, const PlanContext& context) = 0;
  virtual void learn(const RoundOutcome& outcome) = 0;
};

}  // namespace talon
