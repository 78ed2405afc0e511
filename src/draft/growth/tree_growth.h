#pragma once

#include <span>
#include <vector>

#include "core/types.h"
#include "tree/draft_tree.h"
#include "tree/law.h"
#include "tree/tree_policy.h"

namespace talon {

/// The likeliest next tokens of some draft rows: `count` per row, likeliest first.
struct RowChildren {
  int count = 0;
  std::vector<TokenId> token;  // [rows * count], ids of the target
  std::vector<float> log_p;    // [rows * count], of the draft head, of the step alone
  /// Of each row what its children are drawn from, each summing to 1; of rows whose children are
  /// the likeliest none.
  std::vector<Law<double>> laws = {};

  int rows() const { return count == 0 ? 0 : static_cast<int>(token.size()) / count; }
};

/// A row that a draft head shall run: a node of the tree below the root.
struct GrowthRow {
  TokenId token = 0;
  /// The row it follows, counted over all rows that this growth has asked for; -1: the root.
  int parent = -1;
};

/// Asks a policy how a tree goes on, where it wants to be asked.
struct LevelPolicy {
  PolicyState* state = nullptr;  // borrowed; null: all levels are expanded
  TreeLevels ask_after = TreeLevels::all();

  /// Nodes of the newest level to expand, of those with these path log-probabilities.
  int expand(int level, std::span<const float> path_log_p) const {
    const bool asks = state != nullptr && ask_after.contains(level);
    return asks ? state->expand(path_log_p) : static_cast<int>(path_log_p.size());
  }
};

/// One tree while it grows, level by level. Knows nothing of networks: whoever drives it runs the
/// rows it asks for and reports their children. The first children reported are the root's.
class TreeGrowth {
 public:
  virtual ~TreeGrowth() = default;
  /// Takes the children of the rows asked for last (rows [first, first + count) of `children`) and
  /// returns the rows to run next, valid until the next call; none when the tree is complete.
  /// `children` may hold more per row than wanted.
  virtual std::span<const GrowthRow> grow(const RowChildren& children, int first_row) = 0;
  /// Adds what was grown to `tree`, which is as it was when the growth was made, as proposed by
  /// `source`.
  virtual void finish(DraftTree& tree, std::uint32_t source) const = 0;
};

}  // namespace talon
