#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/types.h"
#include "tree/draft_tree.h"

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
  int sequences = 1;        // that decode in this round, this one included
  int mean_position = 0;    // of their roots
  int other_rows = 0;       // rows of the check besides the root's and all draft nodes
  int prompt_rows = 0;      // of other_rows: of prompts, which are run whatever is drafted
  int drafted_rows = 0;     // of the draft nodes that earlier sequences of the round have kept
  int answer_position = 0;  // of the root in the answer: 0 for its first token
  /// [taps * hidden], what taps() asked for of the target row that produced the root; empty without
  /// taps. Borrowed for the call.
  std::span<const float> feature = {};
  int node_rows = 1;  // rows of the check for each of its nodes
};

/// What a round brought, for policies that learn.
struct RoundOutcome {
  const DraftTree* tree = nullptr;   // as it was checked
  std::span<const NodeId> accepted;  // node ids, root included
  /// Tokens that became text: the accepted ones and the one that follows.
  std::span<const TokenId> emitted;
  double draft_ms = 0;  // of the whole batch
  /// Of it, what the drafter's call took in which the sequence had a part, and how many sequences
  /// it was for. 0 sequences: it had none, and what was spent was spent for others.
  double own_draft_ms = 0;
  int sharers = 0;
  double check_ms = 0;   // of the whole batch
  int sequences = 1;     // that decoded in the round
  int draft_rows = 0;    // rows of the check that draft nodes took, all sequences
  int batch_tokens = 0;  // tokens emitted by it, all sequences
};

}  // namespace talon
