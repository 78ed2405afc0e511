#pragma once

#include "verify/proposal.h"
#include "verify/token_rule.h"
#include "verify/verifier.h"

namespace talon {

/// (1 - share) * p + share * q.
template <typename Number>
Law<Number> mixture(const Law<Number>& p, const Law<Number>& q, const Number& share) {
  Law<Number> mixed;
  auto a = p.entries.begin();
  auto b = q.entries.begin();
  while (a != p.entries.end() || b != q.entries.end()) {
    const bool from_p = b == q.entries.end() || (a != p.entries.end() && a->token <= b->token);
    const bool from_q = a == p.entries.end() || (b != q.entries.end() && b->token <= a->token);
    const TokenId token = from_p ? a->token : b->token;
    Number weight(0);
    if (from_p) weight = (Number(1) - share) * (a++)->weight;
    if (from_q) weight = weight + share * (b++)->weight;
    mixed.entries.push_back({token, weight});
  }
  return mixed;
}

/// Moves p towards q by at most `most` in total variation, and returns by how much. Both sum to 1.
template <typename Number>
Number move_towards(Law<Number>& p, const Law<Number>& q, const Number& most) {
  const Number distance = excess(Number(1), p, q).total();
  if (!(Number(0) < distance)) return Number(0);
  const Number moved = most < distance ? most : distance;
  p = mixture(p, q, moved / distance);
  return moved;
}

/// Speculative sampling as verify_by_token(), of a target that is moved towards the draft by at
/// most `most` in total variation at each node: the law of each token is so far from the target's
/// and no further, and on a chain the chance of acceptance grows by exactly that. Nothing moves
/// towards a fixed child that the request forbids; what was drawn was drawn from what it allows.
/// Adds what was moved at the nodes on the path to `distortion`.
template <RuledTree Tree, RuleDecisions<typename Tree::Number> Decisions>
VerifyResult verify_by_epsilon(Tree& tree, Decisions& decisions, const typename Tree::Number& most,
                               typename Tree::Number& distortion) {
  using Number = typename Tree::Number;
  VerifyResult result{{0}, 0};
  while (true) {
    const NodeId node = result.path.back();
    auto p = tree.target(node);
    if (Number(0) < most && !tree.children(node).empty()) {
      Proposal<Number> proposal(tree.drawn_from(node));
      const TokenId first = tree.token(tree.children(node).front());
      const bool moves = tree.drawn_from(node) || !tree.forbids(node, first);
      if (moves) distortion = distortion + move_towards(p, proposal.of_next(first), most);
    }
    const NodeId child = accepted_child(tree, node, p, decisions);
    if (child < 0) {
      end_path(tree, decisions, p, result);
      return result;
    }
    result.path.push_back(child);
  }
}

}  // namespace talon
