#include "draft/growth/drawn_tree.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace talon {
namespace {

class DrawnTreeGrowth : public TreeGrowth {
 public:
  DrawnTreeGrowth(StaticTree shape, int nodes, const LevelPolicy& policy,
                  std::function<double(int)> uniform)
      : shape_(std::move(shape)), policy_(policy), uniform_(std::move(uniform)) {
    const auto most = static_cast<std::size_t>(std::max(nodes, 0));
    if (shape_.nodes.size() > most) shape_.nodes.resize(most);
    placed_.resize(shape_.nodes.size());
    for (const auto& node : shape_.nodes) {
      if (node.parent >= 0) placed_[static_cast<std::size_t>(node.parent)].is_expanded = true;
    }
  }

  std::span<const GrowthRow> grow(const RowChildren& children, int first_row) override {
    rows_.clear();
    scores_.clear();
    const int rows_before = row_count_;
    while (next_ < shape_.nodes.size() && shape_.nodes[next_].level == level_) {
      const std::size_t end = end_of_siblings();
      draw(end, children, first_row);
      next_ = end;
    }
    newest_rows_begin_ = rows_before;
    ++level_;
    if (rows_.empty() || !goes_on()) {
      next_ = shape_.nodes.size();
      return {};
    }
    return rows_;
  }

  void finish(DraftTree& tree, std::uint32_t source) const override {
    expects(tree.draft_nodes() == 0, "a tree that holds its root only");
    const TokenId root = tree[0].token;
    tree = grown_;
    tree[0].token = root;
    for (NodeId node = 1; node < tree.size(); ++node) tree[node].sources = source;
  }

 private:
  struct Placed {
    bool is_expanded = false;  // has children in the shape
    NodeId node = -1;          // -1: not drawn
    int row = -1;
  };

  /// Siblings stand together, since a level is in order of its paths.
  std::size_t end_of_siblings() const {
    const StaticTree::Node& first = shape_.nodes[next_];
    std::size_t end = next_;
    while (end < shape_.nodes.size() && shape_.nodes[end].level == first.level &&
           shape_.nodes[end].parent == first.parent)
      ++end;
    return end;
  }

  /// Draws the siblings from next_ on.
  void draw(std::size_t end, const RowChildren& children, int first_row) {
    const int parent = shape_.nodes[next_].parent;
    const Placed root{true, 0, newest_rows_begin_};
    const Placed above = parent < 0 ? root : placed_[static_cast<std::size_t>(parent)];
    if (above.node < 0) return;
    const auto row = static_cast<std::size_t>(first_row + above.row - newest_rows_begin_);
    const NodeId first =
        grown_.draw_children(above.node, children.laws.at(row), static_cast<int>(end - next_),
                             [&](int) { return uniform_(draws_++); });
    for (NodeId node = first; node < grown_.size(); ++node) {
      Placed& placed = placed_[next_ + static_cast<std::size_t>(node - first)];
      placed.node = node;
      scores_.push_back(grown_[node].log_p);
      if (!placed.is_expanded) continue;
      placed.row = row_count_++;
      rows_.push_back({grown_[node].token, parent < 0 ? -1 : above.row});
    }
  }

  bool goes_on() {
    std::sort(scores_.begin(), scores_.end(), std::greater<>());
    return policy_.expand(level_, scores_) > 0;
  }

  StaticTree shape_;
  LevelPolicy policy_;
  std::function<double(int)> uniform_;
  DraftTree grown_{0};
  std::vector<Placed> placed_;  // of the shape's nodes
  std::size_t next_ = 0;
  int level_ = 0;
  int draws_ = 0;
  int row_count_ = 0;
  int newest_rows_begin_ = 0;
  std::vector<float> scores_;  // of the newest level
  std::vector<GrowthRow> rows_;
};

}  // namespace

std::unique_ptr<TreeGrowth> grow_drawn_tree(StaticTree tree, int nodes, const LevelPolicy& policy,
                                            std::function<double(int)> uniform) {
  return std::make_unique<DrawnTreeGrowth>(std::move(tree), nodes, policy, std::move(uniform));
}

}  // namespace talon
