#pragma once

#include "verify/proposal.h"
#include "verify/verifier.h"

namespace talon {

/// Offers the children of a node to its target law `p` in turn. Each is accepted with min(1, p/q);
/// a rejected one leaves the excess of p over q for the next. Returns the accepted child, or -1,
/// and leaves in `p` the law of the next token.
template <RuledTree Tree, RuleDecisions<typename Tree::Number> Decisions>
NodeId accepted_child(Tree& tree, NodeId node, Law<typename Tree::Number>& p,
                      Decisions& decisions) {
  using Number = typename Tree::Number;
  Proposal<Number> proposal(tree.drawn_from(node));
  for (const NodeId child : tree.children(node)) {
    const TokenId token = tree.token(child);
    const Law<Number>& q = proposal.of_next(token);
    const Number certain(1);
    if (decisions.accept(child, acceptance(certain, p.of(token), q.of(token)))) return child;
    replace_by_excess(certain, p, q);
    proposal.reject(token);
  }
  return -1;
}

/// Speculative sampling (Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318) on a
/// chain; on a tree the recursive rule of SpecInfer (arXiv:2305.09781) and EAGLE-1 for siblings
/// drawn without replacement. Lossless. For fixed children q is 1 on the child: then no lossless
/// rule accepts more (docs/methods.md 1.2).
template <RuledTree Tree, RuleDecisions<typename Tree::Number> Decisions>
VerifyResult verify_by_token(Tree& tree, Decisions& decisions) {
  VerifyResult result{{0}, 0};
  while (true) {
    const NodeId node = result.path.back();
    auto p = tree.target(node);
    const NodeId child = accepted_child(tree, node, p, decisions);
    if (child < 0) {
      end_path(tree, decisions, p, result);
      return result;
    }
    result.path.push_back(child);
  }
}

}  // namespace talon
