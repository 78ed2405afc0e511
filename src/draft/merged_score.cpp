#include "draft/merged_score.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace talon {
namespace {

constexpr double kLeastChance = 1e-6;

std::size_t index(NodeId node) { return static_cast<std::size_t>(node); }

/// What a drafter believes of a node given its parent: by the parent's log_p in `given` if it has
/// the parent.
double belief_in(const DraftTree& tree, NodeId node, const DraftTree& given) {
  const NodeId parent = tree.parent[index(node)];
  const float parent_log_p = (parent < given.size() ? given : tree).log_p[index(parent)];
  const double step =
      static_cast<double>(tree.log_p[index(node)]) - static_cast<double>(parent_log_p);
  return std::exp(std::min(step, 0.0));
}

}  // namespace

Calibration& SourceCalibration::of(std::uint32_t sources) {
  const auto known = by_sources_.find(sources);
  if (known != by_sources_.end()) return known->second;
  const Calibration* prior = prior_ ? &prior_->of(sources) : nullptr;
  return by_sources_.emplace(sources, Calibration(prior)).first->second;
}

double SourceCalibration::probability(std::uint32_t sources, int depth, double belief) {
  return of(sources).probability(depth, belief);
}

void SourceCalibration::observe(std::uint32_t sources, int depth, double belief, bool right) {
  of(sources).observe(depth, belief, right);
  if (prior_) prior_->observe(sources, depth, belief, right);
}

void MergedTree::add(const DraftTree& part, std::uint32_t source) {
  tree_.added_by = source;
  std::vector<NodeId> merged = {0};
  for (NodeId node = 1; node < part.size(); ++node) {
    const NodeId parent = merged[index(part.parent[index(node)])];
    merged.push_back(tree_.add(parent, part.token[index(node)], 0.0f));
    beliefs_.resize(index(tree_.size()), 0.0);
    double& belief = beliefs_[index(merged.back())];
    belief = std::max(belief, belief_in(part, node, part));
  }
}

void MergedTree::take_extended(DraftTree extended, std::uint32_t source) {
  beliefs_.resize(index(extended.size()), 0.0);
  for (NodeId node = 1; node < extended.size(); ++node) {
    if (!(extended.sources[index(node)] & source)) continue;
    beliefs_[index(node)] = std::max(beliefs_[index(node)], belief_in(extended, node, tree_));
  }
  tree_ = std::move(extended);
}

void MergedTree::score(SourceCalibration& calibration) {
  std::vector<int> depth(beliefs_.size());
  std::vector<double> chance(beliefs_.size()), of_children(beliefs_.size());
  for (std::size_t node = 1; node < beliefs_.size(); ++node) {
    const std::size_t parent = index(tree_.parent[node]);
    depth[node] = depth[parent] + 1;
    const double calibrated =
        calibration.probability(tree_.sources[node], depth[node], beliefs_[node]);
    chance[node] = std::max(calibrated, kLeastChance);
    of_children[parent] += chance[node];
  }
  for (std::size_t node = 1; node < beliefs_.size(); ++node) {
    const std::size_t parent = index(tree_.parent[node]);
    const double share = chance[node] / std::max(1.0, of_children[parent]);
    tree_.log_p[node] = tree_.log_p[parent] + static_cast<float>(std::log(share));
  }
}

void MergedTree::learn(std::span<const TokenId> text, SourceCalibration& calibration) const {
  NodeId on_path = 0;
  for (std::size_t level = 0; level < text.size() && on_path >= 0; ++level) {
    NodeId next = -1;
    for (NodeId node = on_path + 1; node < tree_.size(); ++node) {
      if (tree_.parent[index(node)] != on_path) continue;
      const bool right = tree_.token[index(node)] == text[level];
      const int depth = static_cast<int>(level) + 1;
      calibration.observe(tree_.sources[index(node)], depth, beliefs_[index(node)], right);
      if (right) next = node;
    }
    on_path = next;
  }
}

}  // namespace talon
