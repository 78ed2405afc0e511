#pragma once

#include <span>
#include <utility>
#include <vector>

#include "verify/proposal.h"
#include "verify/verifier.h"

namespace talon {

/// A node on the leftmost path of what is left of the tree.
template <typename Number>
struct TraversalPlace {
  NodeId node = 0;
  Number reach{1};                   // w: chance to accept the whole path down to here
  Law<Number> p;                     // what the target still wants here
  Proposal<Number> proposal;         // of the next child
  std::span<const NodeId> children;  // not rejected yet

  /// The first child was rejected: its token's share of the target is spent. Without the change of
  /// `reach` the rule is biased.
  void reject_first(TokenId token) {
    const Number unreached = Number(1) - reach;
    const Number more = replace_by_excess(reach, p, proposal.of_next(token));
    const Number denominator = more + unreached;
    reach = Number(0) < denominator ? Number(more / denominator) : Number(1);
    proposal.reject(token);
    children = children.subspan(1);
  }
};

template <RuledTree Tree>
TraversalPlace<typename Tree::Number> traversal_place(Tree& tree, NodeId node,
                                                      typename Tree::Number reach) {
  using Number = typename Tree::Number;
  return {node, std::move(reach), tree.target(node), Proposal<Number>(tree.drawn_from(node)),
          tree.children(node)};
}

/// Traversal verification (arXiv:2505.12398, with the update of docs/methods.md 5.3):
/// bottom-up. The end of the leftmost path is accepted, and with it the whole path, or deleted,
/// until the root is left. Lossless; on chains equal to block verification.
template <RuledTree Tree, RuleDecisions<typename Tree::Number> Decisions>
VerifyResult verify_by_traversal(Tree& tree, Decisions& decisions) {
  using Number = typename Tree::Number;
  std::vector<TraversalPlace<Number>> path;
  path.push_back(traversal_place(tree, 0, Number(1)));
  while (true) {
    while (!path.back().children.empty()) {
      TraversalPlace<Number>& place = path.back();
      const NodeId child = place.children.front();
      const TokenId token = tree.token(child);
      Number reach =
          acceptance(place.reach, place.p.of(token), place.proposal.of_next(token).of(token));
      path.push_back(traversal_place(tree, child, std::move(reach)));
    }
    const NodeId leaf = path.back().node;
    if (path.size() == 1 || decisions.accept(leaf, path.back().reach)) break;
    path.pop_back();
    path.back().reject_first(tree.token(leaf));
  }
  VerifyResult result;
  for (const TraversalPlace<Number>& place : path) result.path.push_back(place.node);
  end_path(tree, decisions, path.back().p, result);
  return result;
}

}  // namespace talon
