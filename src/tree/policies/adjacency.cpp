#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

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
/// went, shapes the next tree. Its code is not public; this is a reading of the paper
/// (docs/methods.md 6.5): after a round in which at least `beta` of the depth was accepted deeper
/// and narrower, half way to the limit, else shallower and wider.
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

Neighbour neighbour_of(std::string_view word) {
  if (word == "left") return Neighbour::left;
  if (word == "above") return Neighbour::above;
  return word == "both" ? Neighbour::both : Neighbour::none;
}

/// An option that is at least the value of another one.
int at_least(Options& options, std::string_view key, int least) {
  const int value = options.whole(key);
  if (value < least) options.misuse(key, fmt::format("at least {}", least));
  return value;
}

std::unique_ptr<TreePolicy> make_adjacency(Options& options, const PolicyContext& context) {
  AdjacencyOptions parsed{};
  parsed.grid = options.whole("grid") > 0 ? options.whole("grid") : context.picture_row;
  parsed.neighbour = neighbour_of(options.text("neighbour"));
  parsed.beta = options.real("beta");
  parsed.least_depth = options.whole("least_levels");
  parsed.most_depth = at_least(options, "most_levels", parsed.least_depth);
  parsed.least_width = options.whole("least_topk");
  parsed.most_width = at_least(options, "most_topk", parsed.least_width);
  parsed.first_depth = options.whole("levels");
  parsed.first_width = options.whole("topk");
  parsed.nodes = options.whole("nodes");
  return std::make_unique<PolicyOf<AdjacencyState, AdjacencyOptions>>(parsed);
}

}  // namespace

PolicyEntry adjacency_policy() {
  return {.name = "adjacency",
          .summary =
              "ADT-Tree (arXiv:2512.21857): depth and width follow what was accepted at an "
              "adjacent token",
          .options = {{"grid", WholeNumber{0, 1 << 16}, "0",
                       "tokens of a row of the picture; 0: the model's, of a text none"},
                      {"neighbour", OneOf{{"left", "above", "both", "none"}}, "left",
                       "whose outcome shapes the next tree"},
                      {"beta", RealNumber{0, 1}, "0.5",
                       "accepted share of the depth that counts as well"},
                      {"levels", WholeNumber{1, 64}, "5", "depth at first"},
                      {"topk", WholeNumber{1, 64}, "10", "width at first"},
                      {"least_levels", WholeNumber{1, 64}, "1", "least depth"},
                      {"most_levels", WholeNumber{1, 64}, "8", "most depth"},
                      {"least_topk", WholeNumber{1, 64}, "2", "least width"},
                      {"most_topk", WholeNumber{1, 64}, "16", "most width"},
                      {"nodes", WholeNumber{1, 1024}, "59", "most draft nodes, root excluded"}},
          .make = make_adjacency};
}

}  // namespace talon
