#pragma once

#include <vector>

#include "verify/proposal.h"
#include "verify/verifier.h"

namespace talon {

/// What block verification knows of the place after the first i tokens of a chain.
template <typename Number>
struct BlockPlace {
  NodeId node = 0;
  Number reach{1};  // w_i: 1 at the root, then min(1, w_{i-1} p(x_i) / q(x_i))
  Law<Number> p;
  Law<Number> q;  // of the token after it; empty at the end of the chain
};

/// The places along the first child of each node.
template <RuledTree Tree>
std::vector<BlockPlace<typename Tree::Number>> block_places(Tree& tree) {
  using Number = typename Tree::Number;
  std::vector<BlockPlace<Number>> places(1);
  while (true) {
    BlockPlace<Number>& place = places.back();
    place.p = tree.target(place.node);
    const auto children = tree.children(place.node);
    if (children.empty()) return places;
    const TokenId token = tree.token(children.front());
    Proposal<Number> proposal(tree.drawn_from(place.node));
    place.q = proposal.of_next(token);
    const Number reach = acceptance(place.reach, place.p.of(token), place.q.of(token));
    places.push_back({children.front(), reach, {}, {}});
  }
}

/// Block verification (Sun et al., arXiv:2403.10444): keeps the longest beginning of a chain whose
/// own trial succeeds, trials from the end on. Lossless, and accepts at least as much as the token
/// rule. Of a tree it checks the first child of each node; traversal_rule.h is the same rule for
/// whole trees.
template <RuledTree Tree, RuleDecisions<typename Tree::Number> Decisions>
VerifyResult verify_block(Tree& tree, Decisions& decisions) {
  using Number = typename Tree::Number;
  auto places = block_places(tree);
  std::size_t kept = places.size() - 1;
  for (; kept > 0; --kept) {
    BlockPlace<Number>& place = places[kept];
    const bool is_last = kept + 1 == places.size();
    Number chance = place.reach;  // h_i
    if (!is_last) {
      const Number more = excess(place.reach, place.p, place.q).total();
      const Number denominator = more + (Number(1) - place.reach);
      chance = Number(0) < denominator ? Number(more / denominator) : Number(1);
    }
    if (decisions.accept(place.node, chance)) break;
  }
  BlockPlace<Number>& end = places[kept];
  if (kept + 1 < places.size()) replace_by_excess(end.reach, end.p, end.q);

  VerifyResult result;
  for (std::size_t i = 0; i <= kept; ++i) result.path.push_back(places[i].node);
  end_path(tree, decisions, end.p, result);
  return result;
}

}  // namespace talon
