#pragma once

#include <concepts>
#include <span>
#include <utility>

#include "tree/law.h"
#include "verify/verifier.h"

namespace talon {

// The sampled rules (token, block, traversal) are functions over two parameters, so that the code
// that decides in double with Philox is the code whose output law the tests enumerate with
// fractions.

/// A draft with what the target says of it.
template <typename T>
concept RuledTree = requires(T& tree, NodeId node) {
  typename T::Number;
  /// In the order in which they were proposed.
  { tree.children(node) } -> std::convertible_to<std::span<const NodeId>>;
  { tree.token(node) } -> std::convertible_to<TokenId>;
  /// p: of the token after that node; sums to 1. Empty where it cannot be told, which is never at
  /// the root: then the node has no children.
  { tree.target(node) } -> std::same_as<Law<typename T::Number>>;
  /// q: of its first child; null: its children are fixed.
  { tree.drawn_from(node) } -> std::same_as<const Law<typename T::Number>*>;
};

template <typename T, typename Number>
concept RuleDecisions = requires(T& decisions, NodeId node, const Number& probability,
                                 const Law<Number>& law) {
  /// True with that probability. Asked at most once for a node.
  { decisions.accept(node, probability) } -> std::same_as<bool>;
  /// The token after that node. Asked once.
  { decisions.draw(node, law) } -> std::same_as<TokenId>;
};

/// Ends the accepted path, which is in `result`, with the token after it, drawn from its law `p`.
/// Where that cannot be told, the path's last token comes without anything after it, so that the
/// next round asks what failed again, as its root.
template <RuledTree Tree, RuleDecisions<typename Tree::Number> Decisions>
void end_path(Tree& tree, Decisions& decisions, const Law<typename Tree::Number>& p,
              VerifyResult& result) {
  const NodeId last = result.path.back();
  if (!p.entries.empty()) {
    result.next = decisions.draw(last, p);
    return;
  }
  result.next = tree.token(last);
  result.path.pop_back();
}

/// The law from which the next child of a node was proposed: what is left of the drawn one, or the
/// child itself with certainty.
template <typename Number>
class Proposal {
 public:
  Proposal() = default;
  explicit Proposal(const Law<Number>* drawn_from) : is_drawn_(drawn_from != nullptr) {
    if (is_drawn_) law_ = *drawn_from;
  }

  const Law<Number>& of_next(TokenId token) {
    if (!is_drawn_) law_ = Law<Number>::certain(token);
    return law_;
  }
  /// The child with that token was rejected: the next one was drawn without it.
  void reject(TokenId token) {
    if (!is_drawn_) return;
    law_.remove(token);
    const Number total = law_.total();
    if (Number(0) < total) law_.divide_by(total);
  }

 private:
  bool is_drawn_ = false;
  Law<Number> law_;
};

/// min(1, scale * p / q). A token that could not have been proposed is never accepted.
template <typename Number>
Number acceptance(const Number& scale, const Number& p, const Number& q) {
  if (!(Number(0) < q)) return Number(0);
  const Number ratio = scale * p / q;
  return ratio < Number(1) ? ratio : Number(1);
}

/// Replaces p by the excess of scale * p over q, normalised, and returns its total before that.
/// Leaves p alone when there is none.
template <typename Number>
Number replace_by_excess(const Number& scale, Law<Number>& p, const Law<Number>& q) {
  Law<Number> left = excess(scale, p, q);
  const Number total = left.total();
  if (!(Number(0) < total)) return Number(0);
  left.divide_by(total);
  p = std::move(left);
  return total;
}

}  // namespace talon
