#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "io/quote.h"
#include "tree/policies/policies.h"
#include "tree/policies/policy_of.h"
#include "tree/policies/tree_limits.h"

namespace talon {
namespace {

enum class Neighbour { left, above, both, none };

struct AdjacencyOptions {
  int grid;  // tokens of a row of the image; 0: text, where the token before is the neighbour
  Neighbour neighbour;
  double beta;
  int least_depth, most_depth, least_width, most_width;
  int first_depth, first_width;
  int nodes;
};

/// ADT-Tree, arXiv:2512.21857: what was drafted for an adjacent token of the image, and how well it
/// went, shapes the next tree. Its code is not public; this is the reading of the specification,
/// section 4: after a round in which at least `beta` of the depth was accepted deeper and narrower,
/// half way to the limit, else shallower and wider.
class AdjacencyState : public PolicyState {
 public:
  explicit AdjacencyState(const AdjacencyOptions& options) : options_(options) {}

  TreePlan plan(const PlanContext& context) override {
    begin_ = static_cast<std::size_t>(context.answer_position);
    map_.reserve(begin_ + static_cast<std::size_t>(context.levels_available) + 1);
    shape_ = next_shape(begin_);
    return {std::min(options_.nodes, context.rows_available),
            std::min(shape_.depth, context.levels_available), shape_.width, TreeLevels::none()};
  }

  /// Positions that the round skipped inherit what it found.
  void learn(const RoundOutcome& outcome) override {
    const auto accepted = static_cast<double>(outcome.accepted.size()) - 1;
    shape_.accepted = accepted / shape_.depth;
    map_.resize(begin_, first_shape());
    map_.insert(map_.end(), outcome.emitted.size(), shape_);
  }

 private:
  struct Shape {
    int depth;
    int width;
    double accepted;  // share of the depth; < 0: not known
  };

  Shape first_shape() const { return {options_.first_depth, options_.first_width, -1}; }

  Shape next_shape(std::size_t at) const {
    const Shape* left = nullptr;
    const Shape* above = nullptr;
    const auto grid = static_cast<std::size_t>(options_.grid);
    if (at > 0 && at <= map_.size() && (grid == 0 || at % grid != 0)) left = &map_[at - 1];
    if (grid > 0 && at >= grid && at - grid < map_.size()) above = &map_[at - grid];
    switch (options_.neighbour) {
      case Neighbour::left:
        return after(left ? left : above);
      case Neighbour::above:
        return after(above ? above : left);
      case Neighbour::both:
        return larger(after(left), after(above));
      case Neighbour::none:
        return first_shape();
    }
    throw Bug("a neighbour without a rule");
  }

  Shape after(const Shape* neighbour) const {
    if (!neighbour || neighbour->accepted < 0) return first_shape();
    const auto [depth, width, accepted] = *neighbour;
    if (accepted >= options_.beta) {
      return {(depth + options_.most_depth + 1) / 2, (width + options_.least_width) / 2, -1};
    }
    return {(depth + options_.least_depth) / 2, (width + options_.most_width + 1) / 2, -1};
  }

  static Shape larger(const Shape& a, const Shape& b) {
    return {std::max(a.depth, b.depth), std::max(a.width, b.width), -1};
  }

  const AdjacencyOptions& options_;
  std::vector<Shape> map_;  // by position in the answer
  Shape shape_{1, 1, -1};   // of this round
  std::size_t begin_ = 0;
};

Neighbour take_neighbour(OptionText& options) {
  const std::string text = options.take_text("neighbour", "left");
  if (text == "left") return Neighbour::left;
  if (text == "above") return Neighbour::above;
  if (text == "both") return Neighbour::both;
  if (text == "none") return Neighbour::none;
  throw UsageError(fmt::format(
      "adjacency: option neighbour: expected left, above, both or none, found {}", quote(text)));
}

}  // namespace

std::unique_ptr<TreePolicy> make_adjacency_policy(OptionText& options, const PolicyContext&) {
  AdjacencyOptions parsed{};
  parsed.grid = options.take_int("grid", 0, 0, 1 << 16);
  parsed.neighbour = take_neighbour(options);
  parsed.beta = options.take_double("beta", 0.5, 0, 1);
  parsed.least_depth = options.take_int("least_levels", 1, 1, 64);
  parsed.most_depth = options.take_int("most_levels", 8, parsed.least_depth, 64);
  parsed.least_width = options.take_int("least_topk", 2, 1, 64);
  parsed.most_width = options.take_int("most_topk", 16, parsed.least_width, 64);
  parsed.first_depth = options.take_int("levels", 5, 1, 64);
  parsed.first_width = options.take_int("topk", 10, 1, 64);
  parsed.nodes = options.take_int("nodes", 59, 1, 1024);
  return std::make_unique<PolicyOf<AdjacencyState, AdjacencyOptions>>(parsed);
}

}  // namespace talon
