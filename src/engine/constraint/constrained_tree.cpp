#include "engine/constraint/constrained_tree.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/error.h"

namespace talon {
namespace {

std::vector<TokenId> tokens_below_root(const DraftTree& tree, NodeId node) {
  std::vector<TokenId> tokens;
  for (; node > 0; node = tree[node].parent) tokens.push_back(tree[node].token);
  std::ranges::reverse(tokens);
  return tokens;
}

/// Nodes so that each follows its parent or a node below an earlier sibling: a constraint that is
/// asked in this order takes few steps back.
std::vector<NodeId> depth_first(const DraftTree& tree) {
  std::vector<std::vector<NodeId>> children(tree.nodes.size());
  for (NodeId node = tree.size() - 1; node > 0; --node) {
    children[static_cast<std::size_t>(tree[node].parent)].push_back(node);
  }
  std::vector<NodeId> order, left{0};
  while (!left.empty()) {
    const NodeId node = left.back();
    left.pop_back();
    order.push_back(node);
    const auto& below = children[static_cast<std::size_t>(node)];
    left.insert(left.end(), below.begin(), below.end());
  }
  return order;
}

/// The law of those tokens that `allowed` has.
Law<double> restricted(const Law<double>& law, std::span<const std::uint32_t> allowed) {
  const auto is_allowed = [&](TokenId token) {
    const std::size_t word = static_cast<std::size_t>(token) / 32;
    return token >= 0 && word < allowed.size() && (allowed[word] >> token % 32 & 1) != 0;
  };
  Law<double> rest = law;
  std::erase_if(rest.entries, [&](const auto& entry) { return !is_allowed(entry.token); });
  rest.divide_by(rest.total());
  return rest;
}

/// The part of a tree that a constraint lets follow the text, asked for once. Borrows everything.
class AllowedPart {
 public:
  /// Whether a drawn node is looked at never depends on its own token: that would bias the text. So
  /// drawn children are told together, before any of them, or dropped together.
  AllowedPart(const DraftTree& tree, RoundConstraint& constraint, std::span<const TokenId> answer)
      : tree_(tree), constraint_(constraint), answer_(answer), stays_(tree.nodes.size()) {
    for (const NodeId node : depth_first(tree)) {
      if (node > 0 && !may_stay(node)) continue;
      stays_[static_cast<std::size_t>(node)] = true;
      const Law<double>* drawn = tree.drawn_from(node);
      if (drawn != nullptr && !constraint.is_spent()) restrict_children(node, *drawn);
    }
  }

  /// Draft nodes that stay, ascending.
  std::vector<NodeId> nodes() const {
    std::vector<NodeId> nodes;
    for (NodeId node = 1; node < tree_.size(); ++node) {
      if (stays_[static_cast<std::size_t>(node)]) nodes.push_back(node);
    }
    return nodes;
  }
  /// What drawn children are drawn from that may stay, by their parent.
  std::map<NodeId, Law<double>>& laws() { return laws_; }

 private:
  bool may_stay(NodeId node) {
    const NodeId parent = tree_[node].parent;
    if (!stays_[static_cast<std::size_t>(parent)]) return false;
    if (tree_.drawn_from(parent) != nullptr)
      return laws_.contains(parent) && laws_.at(parent).of(tree_[node].token) > 0;
    if (constraint_.is_spent()) return false;
    const std::vector<TokenId> path = tokens_below_root(tree_, parent);
    return constraint_.allows({answer_, path}, tree_[node].token);
  }

  void restrict_children(NodeId node, const Law<double>& drawn) {
    const std::vector<TokenId> path = tokens_below_root(tree_, node);
    try {
      laws_.emplace(node, restricted(drawn, constraint_.allowed({answer_, path})));
      constraint_.promise(path);
    } catch (const Error&) {
      if (node == 0) throw;
    }
  }

  const DraftTree& tree_;
  RoundConstraint& constraint_;
  std::span<const TokenId> answer_;
  std::vector<bool> stays_;  // of each node
  std::map<NodeId, Law<double>> laws_;
};

void add_chain(DraftTree& tree, NodeId node, std::span<const TokenId> tokens, ForcedRoom room,
               std::uint32_t source) {
  const float log_p = tree[node].log_p;
  for (const TokenId token : tokens) {
    if (token < 0 || token >= room.vocabulary) return;
    const NodeId known = tree.child(node, token);
    if (known < 0 && (tree.draft_nodes() >= room.nodes || tree.depth(node) >= room.levels)) return;
    if (known < 0 && tree.drawn_from(node) != nullptr) return;
    node = known < 0 ? tree.add(node, token, log_p, source) : known;
  }
}

}  // namespace

void drop_unknown_tokens(DraftTree& tree, int vocabulary) {
  std::vector<NodeId> kept;
  std::vector<bool> is_kept(tree.nodes.size());
  is_kept[0] = true;
  for (NodeId node = 1; node < tree.size(); ++node) {
    const TokenId token = tree[node].token;
    const bool can_be_text = token >= 0 && token < vocabulary;
    if (!can_be_text || !is_kept[static_cast<std::size_t>(tree[node].parent)]) continue;
    is_kept[static_cast<std::size_t>(node)] = true;
    kept.push_back(node);
  }
  if (static_cast<int>(kept.size()) < tree.draft_nodes()) tree.keep(kept);
}

void drop_forbidden(DraftTree& tree, RoundConstraint& constraint, std::span<const TokenId> answer) {
  AllowedPart allowed(tree, constraint, answer);
  const std::vector<NodeId> nodes = allowed.nodes();
  tree.drawn.clear();
  tree.keep(nodes);
  // Laws are restricted even where all that was drawn is allowed: it is so because of that.
  for (auto& [parent, law] : allowed.laws()) {
    const auto below = std::ranges::upper_bound(nodes, parent);
    const auto new_id = static_cast<NodeId>(below - nodes.begin());
    if (!tree.children(new_id).empty()) tree.drawn.push_back({new_id, std::move(law)});
  }
}

void add_forced(DraftTree& tree, RoundConstraint& constraint, std::span<const TokenId> answer,
                ForcedRoom room, std::uint32_t source) {
  struct Chain {
    NodeId node;
    std::vector<TokenId> tokens;
  };
  std::vector<Chain> chains;
  for (const NodeId node : depth_first(tree)) {
    if (constraint.is_spent()) break;
    if (tree[node].kind == NodeKind::probe) continue;
    const std::vector<TokenId> path = tokens_below_root(tree, node);
    std::vector<TokenId> tokens;
    try {
      tokens = constraint.forced({answer, path});
    } catch (const Error&) {  // a drawn tree that was lost for what was drawn would bias the text
      if (node == 0 || tree.drawn.empty()) throw;
    }
    if (!tokens.empty()) chains.push_back({node, std::move(tokens)});
  }
  std::ranges::stable_sort(chains, [&](const Chain& a, const Chain& b) {
    return tree[a.node].log_p > tree[b.node].log_p;
  });
  for (const Chain& chain : chains) add_chain(tree, chain.node, chain.tokens, room, source);
}

void add_forced_at_root(DraftTree& tree, TokenConstraint& constraint,
                        std::span<const TokenId> answer, ForcedRoom room, std::uint32_t source) {
  add_chain(tree, 0, constraint.forced({answer, {}}), room, source);
}

}  // namespace talon
