#include "train/policy/draft_examples.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"

namespace talon {

std::vector<StopOutcome> stop_outcomes(const DraftTree& tree, std::span<const TokenId> following,
                                       int most_nodes) {
  const int deepest = tree.levels();
  std::vector<StopOutcome> outcomes;
  for (int levels = 1; levels <= deepest; ++levels) {
    std::vector<NodeId> kept;
    for (NodeId node = 1; node < tree.size(); ++node) {
      if (tree.depth(node) <= levels) kept.push_back(node);
    }
    DraftTree stopped = tree;
    stopped.keep(kept);
    stopped.prune(most_nodes);
    outcomes.push_back(
        {stopped.for_each_trial(following, [](NodeId, bool) {}), stopped.draft_nodes()});
  }
  return outcomes;
}

ExampleSplit split_examples(std::vector<DraftExample> examples, double share) {
  std::set<std::pair<double, int>> texts;
  for (const DraftExample& example : examples) texts.emplace(example.temperature, example.text);
  const auto count = static_cast<double>(texts.size());
  const double held = std::max(1.0, std::round(share * count));
  std::set<int> held_out;
  double place = 0;
  for (const auto& [temperature, text] : texts) {
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
