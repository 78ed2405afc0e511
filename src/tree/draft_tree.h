#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/types.h"
#include "tree/law.h"

namespace talon {

enum class NodeKind : std::uint8_t {
  candidate,  // becomes text if it is right
  probe,      // computed in the check but never accepted: for what the target draws after it
};

/// Among the sources of nodes that a constraint asks for: no drafter's.
constexpr std::uint32_t kForcedSource = 1u << 31;

/// A draft: tokens with parents. Mask, positions and paths are derived from it. A value.
/// Invariants: node 0 is the root, the last committed token; a parent precedes its children;
/// children of one node have distinct tokens; a node's log_p is at most its parent's; below a probe
/// there are probes only.
struct DraftTree {
  struct Node {
    TokenId token = 0;
    NodeId parent = -1;  // -1 for the root
    int depth = 0;       // of the root 0
    /// Of the whole path, as the drafter believes; 0 for the root. Of a probe: the logarithm of the
    /// tokens that computing it is worth. Finite.
    float log_p = 0;
    std::uint32_t sources = 0;  // bit i: drafter i of a merged drafter proposed it; 0 for the root
    NodeKind kind = NodeKind::candidate;
    bool operator==(const Node&) const = default;
  };
  std::vector<Node> nodes;

  /// Children are fixed (chosen without randomness, such as the likeliest tokens) unless their
  /// parent is listed here: then they were drawn one after the other without replacement, in the
  /// order of their ids, from `law`, which sums to 1. Whether a drawn child is checked must not
  /// depend on which token it is: that would bias the text.
  struct DrawnChildren {
    NodeId parent;
    Law<double> law;
  };
  std::vector<DrawnChildren> drawn;  // ascending by parent

  static constexpr float kLeastLogP = -1e6F;

  explicit DraftTree(TokenId root) { reset(root); }
  void reset(TokenId root);
  int size() const { return static_cast<int>(nodes.size()); }
  int draft_nodes() const { return size() - 1; }
  int levels() const;  // below the root
  const Node& operator[](NodeId node) const { return nodes[static_cast<std::size_t>(node)]; }
  Node& operator[](NodeId node) { return nodes[static_cast<std::size_t>(node)]; }
  // Of each node:
  std::vector<TokenId> tokens() const;
  std::vector<NodeId> parents() const;
  std::vector<float> log_ps() const;

  /// Adds a child and returns its id. If the parent has a child with that token already, returns
  /// that one, and its log_p becomes the larger of the two. A path is never likelier than its
  /// beginning: path_log_p is lowered to the parent's if it is above, and raised to kLeastLogP if
  /// it is below or no number. source: the drafter's bit. REQUIRES: parent_node is a candidate, and
  /// has no drawn children, unless one of them is the child.
  NodeId add(NodeId parent_node, TokenId child_token, float path_log_p, std::uint32_t source = 1);
  /// As add(), but adds a probe, below a node of either kind. A child that is a candidate already
  /// stays one.
  NodeId add_probe(NodeId parent_node, TokenId child_token, float path_log_p,
                   std::uint32_t source = 1);
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

  /// Ids of the children of a node, probes among them, ascending: a range over the tree, which
  /// outlives it and keeps its nodes.
  class Children;
  Children children(NodeId node) const;
  /// The candidate below `node` with that token, or -1.
  NodeId child(NodeId node, TokenId child_token) const;
  int depth(NodeId node) const { return (*this)[node].depth; }
  /// The drafter's chance that the node follows its parent.
  double step_chance(NodeId node) const;
  /// Node ids from the root to `node`, both included.
  std::vector<NodeId> path(NodeId node) const;

  /// What `text`, which follows the root, says of the draft: every candidate below a node on the
  /// way that it took was a trial. Calls visit(node, is_right) for each, level by level, and
  /// returns how many levels the text followed.
  template <typename Visit>
  int for_each_trial(std::span<const TokenId> text, Visit&& visit) const;

  /// Orders node ids by score(id), best first; of equals the shallower, then the earlier. The first
  /// ones are a tree if no node has a better score than its parent.
  template <typename Score>
  void rank(std::span<NodeId> ids, Score&& score) const {
    std::sort(ids.begin(), ids.end(), [&](NodeId a, NodeId b) {
      if (score(a) != score(b)) return score(a) > score(b);
      return depth(a) != depth(b) ? depth(a) < depth(b) : a < b;
    });
  }
  /// Draft nodes by log_p.
  std::vector<NodeId> ranked() const;

  /// Keeps the first `count` of ranked() and drops the others. Nodes keep their order and get new
  /// ids. A tree with drawn children is truncated instead.
  void prune(int count);
  /// Keeps the first `count` draft nodes. Harmless to drawn children, because a node's id was
  /// settled before its token was drawn.
  void truncate(int count);
  /// Keeps the root and `kept`: ascending ids of draft nodes, each with its parent among them or
  /// the root, and all drawn ones.
  void keep(std::span<const NodeId> kept);

 private:
  NodeId add_node(NodeId parent_node, Node child);
  NodeId append(Node child);
  NodeId add_drawn(NodeId parent_node, Law<double> law, std::span<const TokenId> tokens);
};

class DraftTree::Children {
 public:
  class Iterator {
   public:
    Iterator(const DraftTree& tree, NodeId parent, NodeId id)
        : tree_(&tree), parent_(parent), id_(id) {
      skip();
    }
    NodeId operator*() const { return id_; }
    Iterator& operator++() {
      ++id_;
      skip();
      return *this;
    }
    bool operator==(const Iterator& other) const { return id_ == other.id_; }

   private:
    void skip() {
      while (id_ < tree_->size() && (*tree_)[id_].parent != parent_) ++id_;
    }
    const DraftTree* tree_;
    NodeId parent_;
    NodeId id_;
  };
  Children(const DraftTree& tree, NodeId parent) : tree_(tree), parent_(parent) {}
  Iterator begin() const { return {tree_, parent_, parent_ + 1}; }
  Iterator end() const { return {tree_, parent_, tree_.size()}; }
  bool empty() const { return begin() == end(); }

 private:
  const DraftTree& tree_;
  NodeId parent_;
};

inline DraftTree::Children DraftTree::children(NodeId node) const { return {*this, node}; }

template <typename Visit>
int DraftTree::for_each_trial(std::span<const TokenId> text, Visit&& visit) const {
  NodeId on_path = 0;
  for (const TokenId token : text) {
    NodeId next = -1;
    for (const NodeId node : children(on_path)) {
      if ((*this)[node].kind == NodeKind::probe) continue;
      const bool is_right = (*this)[node].token == token;
      visit(node, is_right);
      if (is_right) next = node;
    }
    if (next < 0) break;
    on_path = next;
  }
  return depth(on_path);
}

/// Throws Bug unless the invariants hold.
void check_invariants(const DraftTree& tree);

}  // namespace talon
