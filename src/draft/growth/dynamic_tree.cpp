#include "draft/growth/dynamic_tree.h"

#include <algorithm>

#include "core/error.h"
#include "draft/growth/candidate_pool.h"

namespace talon {
namespace {

class DynamicTreeGrowth : public TreeGrowth {
 public:
  DynamicTreeGrowth(const DynamicTreeShape& shape, const LevelPolicy& policy,
                    const DraftTree& start)
      : shape_(shape), policy_(policy), start_(start) {}

  std::span<const GrowthRow> grow(const RowChildren& children, int first_row) override {
    add_level(children, first_row);
    beam_ = next_beam();
    row_of_.resize(static_cast<std::size_t>(pool_.size()), -1);
    rows_.clear();
    for (const int candidate : beam_) {
      const int parent = pool_.parent(candidate);
      rows_.push_back(
          {pool_.token(candidate), parent < 0 ? -1 : row_of_[static_cast<std::size_t>(parent)]});
      row_of_[static_cast<std::size_t>(candidate)] = row_count_++;
    }
    return rows_;
  }

  void finish(DraftTree& tree, std::uint32_t source) const override {
    pool_.rerank(shape_.nodes, tree, source);
  }

 private:
  void add_level(const RowChildren& children, int first_row) {
    const int count = std::min(shape_.children, children.count);
    pool_.start_level();
    for (std::size_t row = 0; row < beam_.size(); ++row) {
      const auto first =
          (static_cast<std::size_t>(first_row) + row) * static_cast<std::size_t>(children.count);
      for (std::size_t i = first; i < first + static_cast<std::size_t>(count); ++i) {
        pool_.add(beam_[row], children.token[i], children.log_p[i]);
      }
      adopt_children(beam_[row]);
    }
    ++levels_;
  }

  void adopt_children(int candidate) {
    const NodeId parent = candidate < 0 ? 0 : pool_.node(candidate);
    if (parent < 0) return;
    for (const NodeId node : start_.children(parent)) {
      if (start_[node].kind == NodeKind::probe) continue;
      pool_.adopt(candidate, start_[node].token, node, start_[node].log_p);
    }
  }

  std::vector<int> next_beam() const {
    if (levels_ >= shape_.levels) return {};
    std::vector<int> beam = pool_.beam(shape_.width);
    std::vector<float> scores;
    for (const int candidate : beam) scores.push_back(pool_.score(candidate));
    pool_.drop_hopeless(beam, shape_.nodes);
    if (beam.empty()) return beam;
    beam.resize(std::min(beam.size(), static_cast<std::size_t>(policy_.expand(levels_, scores))));
    return beam;
  }

  DynamicTreeShape shape_;
  LevelPolicy policy_;
  DraftTree start_;
  CandidatePool pool_;
  int levels_ = 0;
  std::vector<int> beam_ = {-1};  // whose children come next; at first the root
  std::vector<int> row_of_;       // of each candidate; -1: never run
  int row_count_ = 0;
  std::vector<GrowthRow> rows_;
};

}  // namespace

std::unique_ptr<TreeGrowth> grow_dynamic_tree(const DynamicTreeShape& shape,
                                              const LevelPolicy& policy, const DraftTree& start) {
  expects(shape.width >= 1 && shape.children >= 1 && shape.levels >= 1 && shape.nodes >= 1,
          "a dynamic tree has a width, children, levels and nodes");
  return std::make_unique<DynamicTreeGrowth>(shape, policy, start);
}

}  // namespace talon
