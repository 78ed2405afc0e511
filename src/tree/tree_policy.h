#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tree/draft_tree.h"

namespace talon {

/// The largest tree a drafter may propose this round.
struct TreePlan {
  int nodes = 0;   // draft nodes sent to the check, root excluded; 0: do not draft
  int levels = 0;  // tree levels below the root
  int width = 0;   // nodes kept per level while growing
};

struct PlanContext {
  int position = 0;       // of the root
  int rows_available = 0; // that the forward and the cache have room for, root excluded
};

/// What a round brought, for policies that learn.
struct RoundOutcome {
  const DraftTree* tree = nullptr;
  std::span<const NodeId> accepted;  // node ids, root included
  double draft_ms = 0;
  double check_ms = 0;
  int batch_rows = 0;                // rows of the whole check, all sequences
};

/// How big the next tree is (DESIGN 3). One per sequence. Never influences which tokens come out, only how fast.
class TreePolicy {
 public:
  virtual ~TreePolicy() = default;
  virtual TreePlan plan(const PlanContext& context) = 0;
  /// Asked after each level: whether growing one more is worth it. path_log_p: of the nodes of the newest level, descending.
  virtual bool deeper(std::span<const float> path_log_p) = 0;
  /// Cuts the finished tree to what is sent to the check.
  virtual void select(DraftTree& tree, const TreePlan& plan) = 0;
  virtual void learn(const RoundOutcome& outcome) = 0;
};

}  // namespace talon
