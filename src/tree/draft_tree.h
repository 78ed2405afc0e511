#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/types.h"
#include "tree/law.h"

namespace talon {

/// A draft: tokens with parents. Mask, positions and paths are derived from it. A value.
/// Invariants: node 0 is the root, the last committed token; a parent precedes its children;
/// children of one node have distinct tokens; a node's log_p is at most its parent's.
struct DraftTree {
  std::vector<TokenId> token;
  std::vector<NodeId> parent;  // -1 for the root
  std::vector<float> log_p;    // of the whole path, as the drafter believes; 0 for the root
  std::vector<std::uint32_t>
      sources;  // bit i: drafter i of a merged drafter proposed the node; 0 for the root
  std::uint32_t added_by = 1;  // what add() notes as the source of a node

  /// Children are fixed (chosen without randomness, such as the likeliest tokens) unless their
  /// parent is listed here: then they were drawn one after the other without replacement, in the
  /// order of their ids, from `law`, which sums to 1. Whether a drawn child is checked must not
  /// depend on which token it is: that would bias the text.
  struct DrawnChildren {
    NodeId parent;
    Law<double> law;
  };
  std::vector<DrawnChildren> drawn;  // ascending by parent

  explicit DraftTree(TokenId root) { reset(root); }
  void reset(TokenId root);
  int size() const { return static_cast<int>(token.size()); }
  int draft_nodes() const { return size() - 1; }

  /// Adds a child and returns its id. If the parent has a child with that token already, returns
  /// that one, and its log_p becomes the larger of the two. A path is never likelier than its
  /// beginning: path_log_p is lowered to the parent's if it is above. REQUIRES: parent_node has no
  /// drawn children, unless one of them is the child.
  NodeId add(NodeId parent_node, TokenId child_token, float path_log_p);
  /// Draws up to `count` children of a node from `law` (any weights; fewer children when fewer
  /// tokens have weight) and returns the first one's id; the others follow it. uniform(i) is a
  /// number in [0, 1) for the i-th draw, independent of all others. REQUIRES: parent_node has no
  /// children.
  template <typename Uniform>
  NodeId draw_children(NodeId parent_node, Law<double> law, int count, Uniform&& uniform) {
    law.divide_by(law.total());
    int index = 0;
    const std::vector<TokenId> tokens = draw_without_replacement(
        law, count, [&](const Law<double>& left) { return pick(left, uniform(index++)); });
    return add_drawn(parent_node, std::move(law), tokens);
  }
  /// What the children of a node were drawn from; null if they are fixed.
  const Law<double>* drawn_from(NodeId node) const;
  /// The child of `node` with that token, or -1.
  NodeId child(NodeId node, TokenId child_token) const;
  int depth(NodeId node) const;  // root: 0
  /// Node ids from the root to `node`, both included.
  std::vector<NodeId> path(NodeId node) const;

  /// Keeps the `count` draft nodes with the largest log_p (of equals the shallower, then the
  /// earlier) and drops the others. What is left is a tree, because no node outranks its parent.
  /// Nodes keep their order and get new ids. A tree with drawn children is truncated instead.
  void prune(int count);
  /// Keeps the first `count` draft nodes. Harmless to drawn children, because a node's id was
  /// settled before its token was drawn.
  void truncate(int count);
  /// Keeps the root and `nodes`: ascending ids of draft nodes, each with its parent among them or
  /// the root, and all drawn ones.
  void keep(std::span<const NodeId> nodes);

 private:
  NodeId append(NodeId parent_node, TokenId child_token, float path_log_p);
  NodeId add_drawn(NodeId parent_node, Law<double> law, std::span<const TokenId> tokens);
};

/// Throws Bug unless the invariants hold.
void check_invariants(const DraftTree& tree);

/// Row-major [size, size]: whether row i may see row j (itself and its ancestors).
std::vector<bool> tree_mask(const DraftTree& tree);

}  // namespace talon
