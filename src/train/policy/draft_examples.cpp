#include "train/policy/draft_examples.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"

namespace talon {
namespace {

std::vector<int> depths_of(const DraftTree& tree) {
  std::vector<int> depths(tree.parent.size());
  for (std::size_t i = 1; i < depths.size(); ++i)
    depths[i] = depths[static_cast<std::size_t>(tree.parent[i])] + 1;
  return depths;
}

int accepted_by(const DraftTree& tree, std::span<const TokenId> following) {
  int accepted = 0;
  NodeId node = 0;
  for (const TokenId token : following) {
    node = tree.child(node, token);
    if (node < 0) break;
    ++accepted;
  }
  return accepted;
}

}  // namespace

std::vector<StopOutcome> stop_outcomes(const DraftTree& tree, std::span<const TokenId> following,
                                       int most_nodes) {
  const std::vector<int> depths = depths_of(tree);
  const int deepest = *std::max_element(depths.begin(), depths.end());
  std::vector<StopOutcome> outcomes;
  for (int levels = 1; levels <= deepest; ++levels) {
    std::vector<NodeId> kept;
    for (NodeId node = 1; node < tree.size(); ++node) {
      if (depths[static_cast<std::size_t>(node)] <= levels) kept.push_back(node);
    }
    DraftTree stopped = tree;
    stopped.keep(kept);
    stopped.prune(most_nodes);
    outcomes.push_back({accepted_by(stopped, following), stopped.draft_nodes()});
  }
  return outcomes;
}

ExampleSplit split_examples(std::vector<DraftExample> examples, double share) {
  std::set<int> texts;
  for (const DraftExample& example : examples) texts.insert(example.text);
  const auto count = static_cast<double>(texts.size());
  const double held = std::max(1.0, std::round(share * count));
  std::set<int> held_out;
  double place = 0;
  for (const int text : texts) {
    const double before = std::floor(place * held / count);
    if (std::floor(++place * held / count) > before) held_out.insert(text);
  }
  ExampleSplit split;
  for (DraftExample& example : examples) {
    auto& part = held_out.contains(example.text) ? split.held_out : split.train;
    part.push_back(std::move(example));
  }
  if (split.train.empty() || split.held_out.empty()) {
    fail(
        "train policy: expected drafts in texts to learn from and in others to measure on, found "
        "{} and {}: give more questions or longer answers",
        split.train.size(), split.held_out.size());
  }
  return split;
}

}  // namespace talon
