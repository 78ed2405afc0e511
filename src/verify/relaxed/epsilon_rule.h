#pragma once

#include <type_traits>

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

/// Of the chance with which accepted_child() took `accepted` by the law `moved` the share that it
/// has not by `exact`, given that it is reached.
template <typename Tree>
double relaxed_share(Tree& tree, NodeId node, NodeId accepted, Law<double> exact,
                     Law<double> moved) {
  Proposal<double> proposal(tree.drawn_from(node));
  for (const NodeId child : tree.children(node)) {
    const TokenId token = tree.token(child);
    const Law<double>& q = proposal.of_next(token);
    if (child == accepted) {
      const double chance = acceptance(1.0, moved.of(token), q.of(token));
      const double own = acceptance(1.0, exact.of(token), q.of(token));
      return own < chance ? 1 - own / chance : 0;
    }
    replace_by_excess(1.0, moved, q);
    replace_by_excess(1.0, exact, q);
    proposal.reject(token);
  }
  return 0;
}

/// Speculative sampling as verify_by_token(), of a target that is moved towards the draft by at
/// most `most` in total variation at each node: the law of each token is so far from the target's
/// and no further, and on a chain the chance of acceptance grows by exactly that. Nothing moves
/// towards a fixed child that the request forbids; what was drawn was drawn from what it allows.
/// Adds what was moved at the nodes on the path to `distortion`. VerifyResult::relaxed is told in
/// double only.
template <RuledTree Tree, RuleDecisions<typename Tree::Number> Decisions>
VerifyResult verify_by_epsilon(Tree& tree, Decisions& decisions, const typename Tree::Number& most,
                               typename Tree::Number& distortion) {
  using Number = typename Tree::Number;
  VerifyResult result{{0}, 0};
  while (true) {
    const NodeId node = result.path.back();
    auto p = tree.target(node);
    Number moved(0);
    Law<Number> before, after;
    if (Number(0) < most && !tree.children(node).empty()) {
      Proposal<Number> proposal(tree.drawn_from(node));
      const TokenId first = tree.token(tree.children(node).front());
      const bool moves = tree.drawn_from(node) || !tree.forbids(node, first);
      if (moves) {
        before = p;
        moved = move_towards(p, proposal.of_next(first), most);
        after = p;
      }
      distortion = distortion + moved;
    }
    const NodeId child = accepted_child(tree, node, p, decisions);
    if (child < 0) {
      end_path(tree, decisions, p, result);
      return result;
    }
    if constexpr (std::is_same_v<Number, double>) {
      if (moved > 0) result.relaxed += relaxed_share(tree, node, child, before, after);
    }
    result.path.push_back(child);
  }
}

}  // namespace talon
