#include <algorithm>
#include <vector>

#include "tree/policies/policies.h"
#include "tree/policies/tree_limits.h"

namespace talon {
namespace {

/// A tree of one shape, as EAGLE-1 (arXiv:2401.15077) and Medusa have it: of each node on level i
/// the likeliest children[i] children, whatever their probabilities.
class StaticPolicy : public TreePolicy {
 public:
  explicit StaticPolicy(std::vector<int> children) : children_(std::move(children)) {
    int width = 1, nodes = 0;
    for (const int count : children_) {
      width = std::min(width * count, kMostNodes);
      widest_ = std::max(widest_, width);
      nodes = std::min(nodes + width, kMostNodes);
    }
    nodes_ = nodes;
  }

  TreePlan plan(const PlanContext& context) override {
    return {std::min(nodes_, context.rows_available),
            std::min(static_cast<int>(children_.size()), context.levels_available), widest_};
  }
  int expand(std::span<const float> path_log_p) override {
    return static_cast<int>(path_log_p.size());
  }
  void select(DraftTree& tree, const TreePlan&, const PlanContext& context) override {
    if (!tree.drawn.empty()) return tree.truncate(context.rows_available);
    find_shape_within(tree);
    tree.keep(within_);
    tree.prune(context.rows_available);
  }
  void learn(const RoundOutcome&) override {}

 private:
  static constexpr int kMostNodes = 1024;
  static constexpr int kOutside = -1;

  void find_shape_within(const DraftTree& tree) {
    const auto size = static_cast<std::size_t>(tree.size());
    level_.assign(size, kOutside);
    level_[0] = 0;
    within_.clear();
    for (std::size_t node = 1; node < size; ++node) {
      const int level = level_[static_cast<std::size_t>(tree.parent[node])];
      if (level == kOutside || level >= static_cast<int>(children_.size())) continue;
      if (rank(tree, node) >= children_[static_cast<std::size_t>(level)]) continue;
      level_[node] = level + 1;
      within_.push_back(static_cast<NodeId>(node));
    }
  }

  /// Among the children of its parent.
  static int rank(const DraftTree& tree, std::size_t node) {
    int better = 0;
    for (std::size_t other = 1; other < tree.token.size(); ++other) {
      if (tree.parent[other] != tree.parent[node]) continue;
      const bool ahead = tree.log_p[other] > tree.log_p[node] ||
                         (tree.log_p[other] == tree.log_p[node] && other < node);
      better += ahead ? 1 : 0;
    }
    return better;
  }

  std::vector<int> children_;
  int widest_ = 1;
  int nodes_ = 0;
  // Of the current round:
  std::vector<int> level_;  // of each node that is in the shape
  std::vector<NodeId> within_;
};

}  // namespace

std::unique_ptr<TreePolicy> make_static_policy(OptionText& options, const PolicyContext&) {
  return std::make_unique<StaticPolicy>(take_counts(options, "children", "4/2/1/1/1", 64));
}

}  // namespace talon
