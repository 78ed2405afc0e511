#include "tree/policies/throughput/node_worth.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace talon {

double NodeWorth::coverage(const DraftTree& tree) const {
  double covered = 0;
  for (const NodeId node : tree.children(0)) {
    if (tree[node].kind == NodeKind::candidate) covered += calibrated(tree, node);
  }
  return covered;
}

/// The chance that a node follows its parent: what must follow does, and a probe's worth is what
/// its drafter says.
double NodeWorth::calibrated(const DraftTree& tree, NodeId node) const {
  if (tree[node].sources & kForcedSource) return 1;
  const double claimed = tree.step_chance(node);
  if (tree[node].kind == NodeKind::probe) return claimed;
  return own_[kind_].probability(tree.depth(node), claimed);
}

void NodeWorth::rank(const DraftTree& tree) {
  proposed_ = tree;
  const auto chance = [&](NodeId node) -> double& {
    return chance_[static_cast<std::size_t>(node)];
  };
  chance_.assign(proposed_.nodes.size(), 1.0);
  for (NodeId node = 1; node < proposed_.size(); ++node) {
    chance(node) = chance(proposed_[node].parent) * calibrated(proposed_, node);
  }
  const bool is_drawn = !proposed_.drawn.empty();
  ranked_.resize(chance_.size() - 1);
  offered_.resize(ranked_.size());
  std::iota(ranked_.begin(), ranked_.end(), 1);
  if (!is_drawn) proposed_.rank(ranked_, chance);
  double least = 1;
  for (std::size_t i = 0; i < ranked_.size(); ++i) {
    least = std::min(least, is_drawn ? place_chance(ranked_[i]) : chance(ranked_[i]));
    offered_[i] = least;
  }
}

void NodeWorth::keep_first(std::size_t count, DraftTree& tree) {
  if (!tree.drawn.empty()) return tree.truncate(static_cast<int>(count));
  std::sort(ranked_.begin(), ranked_.begin() + static_cast<std::ptrdiff_t>(count));
  tree.keep(std::span(ranked_).first(count));
}

int NodeWorth::learn(std::span<const TokenId> emitted) {
  const int matched = proposed_.for_each_trial(emitted, [&](NodeId node, bool right) {
    if (proposed_[node].sources & kForcedSource) return;  // nobody guessed it
    const double claimed = proposed_.step_chance(node);
    own_[kind_].observe(proposed_.depth(node), claimed, right);
    shared_[kind_].observe(proposed_.depth(node), claimed, right);
  });
  if (!proposed_.drawn.empty()) learn_places(emitted);
  return matched;
}

double NodeWorth::place_chance(NodeId node) const {
  constexpr double kPriorTrials = 4;
  const Place& place = places_[place_of(node)];
  return (kPriorTrials * std::pow(0.6, proposed_.depth(node)) + place.right) /
         (kPriorTrials + place.trials);
}

std::size_t NodeWorth::place_of(NodeId node) {
  return std::min(static_cast<std::size_t>(node), kMostPlaces - 1);
}

/// Which nodes of a drawn tree the text went through.
void NodeWorth::learn_places(std::span<const TokenId> emitted) {
  constexpr double kMemory = 0.98;  // weight of the past
  on_text_.assign(proposed_.nodes.size(), false);
  on_text_[0] = true;
  for (NodeId id = 1; id < proposed_.size(); ++id) {
    const DraftTree::Node& node = proposed_[id];
    const auto level = static_cast<std::size_t>(node.depth) - 1;
    if (level >= emitted.size()) continue;  // not known
    const bool is_on_text =
        on_text_[static_cast<std::size_t>(node.parent)] && node.token == emitted[level];
    on_text_[static_cast<std::size_t>(id)] = is_on_text;
    Place& place = places_[place_of(id)];
    place.right = kMemory * place.right + (is_on_text ? 1 : 0);
    place.trials = kMemory * place.trials + 1;
  }
}

}  // namespace talon
