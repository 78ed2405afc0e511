#include <algorithm>
#include <vector>

#include "tree/policies/policies.h"
#include "tree/policies/policy_of.h"
#include "tree/policies/tree_limits.h"

namespace talon {
namespace {

constexpr int kMostNodes = 1024;

/// Of each node on level i so many children.
struct StaticShape {
  explicit StaticShape(std::vector<int> per_level) : children(std::move(per_level)) {
    int width = 1;
    for (const int count : children) {
      width = std::min(width * count, kMostNodes);
      widest = std::max(widest, width);
      nodes = std::min(nodes + width, kMostNodes);
    }
  }
  int levels() const { return static_cast<int>(children.size()); }

  std::vector<int> children;
  int widest = 1;
  int nodes = 0;
};

/// A tree of one shape, as EAGLE-1 (arXiv:2401.15077) and Medusa have it: of each node on level i
/// the likeliest children[i] children, whatever their probabilities.
class StaticState : public PolicyState {
 public:
  explicit StaticState(const StaticShape& shape) : shape_(shape) {}

  TreePlan plan(const PlanContext& context) override {
    return {std::min(shape_.nodes, context.rows_available),
            std::min(shape_.levels(), context.levels_available), shape_.widest};
  }
  void select(DraftTree& tree, const TreePlan&, const PlanContext& context, RowBudget&) override {
    if (!tree.drawn.empty()) return tree.truncate(context.rows_available);
    find_shape_within(tree);
    tree.keep(within_);
    tree.prune(context.rows_available);
  }

 private:
  static constexpr int kOutside = -1;

  void find_shape_within(const DraftTree& tree) {
    const auto size = static_cast<std::size_t>(tree.size());
    level_.assign(size, kOutside);
    level_[0] = 0;
    within_.clear();
    for (std::size_t node = 1; node < size; ++node) {
      const int level = level_[static_cast<std::size_t>(tree.parent[node])];
      if (level == kOutside || level >= shape_.levels()) continue;
      if (rank(tree, node) >= shape_.children[static_cast<std::size_t>(level)]) continue;
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

  const StaticShape& shape_;
  // Of the current round:
  std::vector<int> level_;  // of each node that is in the shape
  std::vector<NodeId> within_;
};

}  // namespace

std::unique_ptr<TreePolicy> make_static_policy(OptionText& options, const PolicyContext&) {
  return std::make_unique<PolicyOf<StaticState, StaticShape>>(
      StaticShape(take_counts(options, "children", "4/2/1/1/1", 64)));
}

}  // namespace talon
