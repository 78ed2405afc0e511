#include "verify/checked_tree.h"

#include <algorithm>

#include "core/error.h"

namespace talon {

CheckedTree::CheckedTree(const VerifyInput& input)
    : input_(input), children_(input.tree->nodes.size()) {
  for (NodeId id = 1; id < input.tree->size(); ++id) {
    const DraftTree::Node& node = (*input.tree)[id];
    if (node.kind == NodeKind::candidate) children_[index(node.parent)].push_back(id);
  }
}

Law<double> CheckedTree::target(NodeId node) {
  try {
    return law(node, *input_.sampler);
  } catch (const Error&) {
    if (node == 0) throw;
    children_[index(node)].clear();
    return {};
  }
}

Law<double> CheckedTree::uncut_target(NodeId node) {
  if (!uncut_) uncut_ = input_.sampler->uncut();
  return law(node, *uncut_);
}

bool CheckedTree::forbids(NodeId node, TokenId token) {
  constexpr double kForbidden = 1e-12;  // after a bias of -100
  const SamplerOptions& options = input_.sampler->options();
  if (options.logit_bias.empty() && options.banned.empty() && options.banned_early.empty())
    return false;
  return uncut_target(node).of(token) < kForbidden;
}

Law<double> CheckedTree::law(NodeId node, Sampler& sampler) const {
  const std::vector<TokenId> path = path_tokens(*input_.tree, node);
  const SampleHistory history{input_.committed, path, input_.prompt_length};
  Law<double> law;
  for (const auto& [token, p] : sampler.distribution_by_token(input_.rows->logits(node), history)) {
    law.entries.push_back({token, p});
  }
  return law;
}

std::vector<TokenId> path_tokens(const DraftTree& tree, NodeId node) {
  std::vector<TokenId> tokens;
  for (; node > 0; node = tree[node].parent) {
    tokens.push_back(tree[node].token);
  }
  std::reverse(tokens.begin(), tokens.end());
  return tokens;
}

bool PositionDecisions::accept(NodeId node, double probability) const {
  const std::uint64_t root_position = input_.committed.size() - 1;
  return input_.random->uniform(root_position, RandomUse::accept,
                                static_cast<std::uint32_t>(node)) < probability;
}

TokenId PositionDecisions::draw(NodeId node, const Law<double>& law) const {
  const auto depth = static_cast<std::uint64_t>(input_.tree->depth(node));
  const std::uint64_t position = input_.committed.size() + depth;
  return pick(law, input_.random->uniform(position, RandomUse::sample));
}

}  // namespace talon
