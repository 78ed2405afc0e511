#pragma once

#include <span>
#include <vector>

#include "core/types.h"

namespace talon {

/// A draft: tokens with parents. Mask, positions and paths are derived from it. A value.
/// Invariants: node 0 is the root, the last committed token; a parent precedes its children; children of one node have
/// distinct tokens.
struct DraftTree {
  std::vector<TokenId> token;
  std::vector<NodeId> parent;  // -1 for the root
  std::vector<float> log_p;    // cumulative, as the drafter believes; 0 for the root

  explicit DraftTree(TokenId root) { reset(root); }
  void reset(TokenId root);
  int size() const { return static_cast<int>(token.size()); }
  int draft_nodes() const { return size() - 1; }

  /// Adds a child and returns its id; if the parent has a child with that token already, returns that one (its log_p becomes the
  /// larger of the two).
  NodeId add(NodeId parent_node, TokenId child_token, float path_log_p);
  /// The child of `node` with that token, or -1.
  NodeId child(NodeId node, TokenId child_token) const;
  int depth(NodeId node) const;  // root: 0
  /// Node ids from the root to `node`, both included.
  std::vector<NodeId> path(NodeId node) const;
  /// Keeps the `count` best draft nodes by log_p (ties: the shallower, then the earlier), with their ancestors' guarantee that a
  /// child never outranks its parent; ids are renumbered in the old order.
  void prune(int count);
};

/// Throws Bug unless the invariants hold.
void check_invariants(const DraftTree& tree);

/// Row-major [size, size]: whether row i may see row j (itself and its ancestors).
std::vector<bool> tree_mask(const DraftTree& tree);

}  // namespace talon
