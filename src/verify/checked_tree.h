#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tree/law.h"
#include "verify/verifier.h"

namespace talon {

/// A checked tree as the sampled rules see it (proposal.h): its candidates, and laws in double,
/// made from the rows with the request's sampler.
class CheckedTree {
 public:
  using Number = double;

  /// Borrows what `input` borrows.
  explicit CheckedTree(const VerifyInput& input);

  std::span<const NodeId> children(NodeId node) const { return children_[index(node)]; }
  TokenId token(NodeId node) const { return (*input_.tree)[node].token; }
  /// Throws Error if the root's cannot be told.
  Law<double> target(NodeId node);
  /// At temperature 1 and before cuts (Sampler::uncut). REQUIRES: target(node) is not empty.
  Law<double> uncut_target(NodeId node);
  /// Whether the token is banned, or as good as that by its bias. Of a request that has any, it
  /// costs a law. REQUIRES: target(node) is not empty.
  bool forbids(NodeId node, TokenId token);
  const Law<double>* drawn_from(NodeId node) const { return input_.tree->drawn_from(node); }

 private:
  static std::size_t index(NodeId node) { return static_cast<std::size_t>(node); }

  Law<double> law(NodeId node, Sampler& sampler) const;

  const VerifyInput& input_;
  std::vector<std::vector<NodeId>> children_;  // ascending
  std::optional<Sampler> uncut_;               // once it is needed
};

/// Tokens below the root on the way to `node`, itself included: what the sampler's penalties see as
/// the text's end.
std::vector<TokenId> path_tokens(const DraftTree& tree, NodeId node);

/// Decisions by position-keyed randomness. Acceptance is keyed by the root's position and the node:
/// a rule that looks ahead decides on positions that a later round decides on again, and the two
/// must not share a number.
class PositionDecisions {
 public:
  explicit PositionDecisions(const VerifyInput& input) : input_(input) {}
  bool accept(NodeId node, double probability) const;
  TokenId draw(NodeId node, const Law<double>& law) const;

 private:
  const VerifyInput& input_;
};

}  // namespace talon
