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
    // All that a drafter has to offer: its likeliest nodes may lie beside the shape.
    return {context.rows_available > 0 ? kMostNodes : 0,
            std::min(shape_.levels(), context.levels_available), shape_.widest, TreeLevels::none()};
  }
  void select(DraftTree& tree, const TreePlan&, const PlanContext& context, RowBudget&) override {
    if (!tree.drawn.empty()) return tree.truncate(context.rows_available);
    find_shape_within(tree);
    tree.keep(within_);
    tree.prune(context.rows_available);
  }

 private:
  void find_shape_within(const DraftTree& tree) {
    is_within_.assign(tree.nodes.size(), false);
    is_within_[0] = true;
    within_.clear();
    for (NodeId node = 1; node < tree.size(); ++node) {
      const auto level = static_cast<std::size_t>(tree.depth(node)) - 1;
      if (!is_within_[static_cast<std::size_t>(tree[node].parent)]) continue;
      if (level >= shape_.children.size() || rank(tree, node) >= shape_.children[level]) continue;
      is_within_[static_cast<std::size_t>(node)] = true;
      within_.push_back(node);
    }
  }

  /// Among the children of its parent.
  static int rank(const DraftTree& tree, NodeId node) {
    int better = 0;
    for (const NodeId other : tree.children(tree[node].parent)) {
      const float more = tree[other].log_p - tree[node].log_p;
      better += more > 0 || (more == 0 && other < node) ? 1 : 0;
    }
    return better;
  }

  const StaticShape& shape_;
  // Of the current round:
  std::vector<bool> is_within_;
  std::vector<NodeId> within_;
};

std::unique_ptr<TreePolicy> make_static(Options& options, const PolicyContext&) {
  return std::make_unique<PolicyOf<StaticState, StaticShape>>(
      StaticShape(options.wholes("children")));
}

}  // namespace

PolicyEntry static_policy() {
  return {.name = "static",
          .summary =
              "one shape of tree, as EAGLE-1 (arXiv:2401.15077) and Medusa "
              "(arXiv:2401.10774) have it",
          .options = {{"children", WholeNumbers{1, 64}, "4/2/1/1/1",
                       "children of each node, level by level"}},
          .make = make_static};
}

}  // namespace talon
