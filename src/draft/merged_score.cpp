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
  const NodeId parent = tree[node].parent;
  const float parent_log_p = (parent < given.size() ? given : tree)[parent].log_p;
  const double step = static_cast<double>(tree[node].log_p) - static_cast<double>(parent_log_p);
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
  std::vector<NodeId> merged = {0};
  for (NodeId node = 1; node < part.size(); ++node) {
    const NodeId parent = merged[index(part[node].parent)];
    const bool is_probe = part[node].kind == NodeKind::probe;
    merged.push_back(is_probe ? tree_.add_probe(parent, part[node].token, 0.0f, source)
                              : tree_.add(parent, part[node].token, 0.0f, source));
    beliefs_.resize(index(tree_.size()), 0.0);
    double& belief = beliefs_[index(merged.back())];
    belief = std::max(belief, belief_in(part, node, part));
  }
}

void MergedTree::take_extended(DraftTree extended, std::uint32_t source) {
  beliefs_.resize(index(extended.size()), 0.0);
  for (NodeId node = 1; node < extended.size(); ++node) {
    if (!(extended[node].sources & source)) continue;
    beliefs_[index(node)] = std::max(beliefs_[index(node)], belief_in(extended, node, tree_));
  }
  tree_ = std::move(extended);
}

void MergedTree::score(SourceCalibration& calibration) {
  std::vector<double> chance(beliefs_.size()), of_children(beliefs_.size());
  for (NodeId id = 1; id < tree_.size(); ++id) {
    const DraftTree::Node& node = tree_[id];
    const bool is_probe = node.kind == NodeKind::probe;  // of worth, and never right
    const double belief = beliefs_[index(id)];
    const double calibrated =
        is_probe ? belief : calibration.probability(node.sources, node.depth, belief);
    chance[index(id)] = std::max(calibrated, kLeastChance);
    if (!is_probe) of_children[index(node.parent)] += chance[index(id)];
  }
  for (NodeId id = 1; id < tree_.size(); ++id) {
    DraftTree::Node& node = tree_[id];
    const double all = node.kind == NodeKind::probe ? 1 : of_children[index(node.parent)];
    const double share = chance[index(id)] / std::max(1.0, all);
    node.log_p = tree_[node.parent].log_p + static_cast<float>(std::log(share));
  }
}

void MergedTree::learn(std::span<const TokenId> text, SourceCalibration& calibration) const {
  tree_.for_each_trial(text, [&](NodeId id, bool right) {
    const DraftTree::Node& node = tree_[id];
    calibration.observe(node.sources, node.depth, beliefs_[index(id)], right);
  });
}

}  // namespace talon
