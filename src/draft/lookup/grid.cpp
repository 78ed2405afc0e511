#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "core/error.h"
#include "draft/coupling/coupling.h"
#include "draft/drafters.h"
#include "draft/head_options.h"

namespace talon {
namespace {

struct GridOptions {
  int nodes;
  int levels;
  int row;
  int children;
  Coupling coupling;
};

/// The codes around a cell that its own code is guessed from, with -1 for those left out.
struct Around {
  TokenId left = -1, above = -1, right = -1;
  auto operator<=>(const Around&) const = default;
};

struct Counted {
  TokenId token;
  double count;
};

/// What followed each surrounding, most specific first.
class Neighbours {
 public:
  void learn(const Around& around, TokenId token) {
    for (const Around& one : orders(around)) {
      std::vector<Counted>& list = seen_[one];
      const auto known = std::find_if(list.begin(), list.end(),
                                      [&](const Counted& it) { return it.token == token; });
      if (known == list.end()) {
        list.push_back({token, 1});
      } else {
        known->count += 1;
      }
    }
  }

  /// Chances that sum to less than one: each order leaves some of its mass to the next (Witten and
  /// Bell's estimate).
  std::vector<Counted> chances(const Around& around) const {
    std::vector<Counted> chances;
    double left = 1;
    for (const Around& one : orders(around)) {
      const auto found = seen_.find(one);
      if (found == seen_.end()) continue;
      double total = static_cast<double>(found->second.size());
      for (const Counted& counted : found->second) total += counted.count;
      for (const Counted& counted : found->second)
        add(chances, counted.token, left * counted.count / total);
      left *= static_cast<double>(found->second.size()) / total;
    }
    return chances;
  }

 private:
  /// (left, above, above right), (left, above), (above), (left): those that there are.
  static std::vector<Around> orders(const Around& around) {
    std::vector<Around> all;
    if (around.above >= 0) {
      if (around.right >= 0) all.push_back(around);
      all.push_back({around.left, around.above, -1});
      all.push_back({-1, around.above, -1});
    }
    all.push_back({around.left, -1, -1});
    return all;
  }

  static void add(std::vector<Counted>& chances, TokenId token, double chance) {
    const auto known = std::find_if(chances.begin(), chances.end(),
                                    [&](const Counted& it) { return it.token == token; });
    if (known == chances.end()) {
      chances.push_back({token, chance});
    } else {
      known->count += chance;
    }
  }

  std::map<Around, std::vector<Counted>> seen_;
};

struct GridState : DraftState {
  std::vector<TokenId> text;
  Neighbours neighbours;
};

struct OpenCell {
  NodeId node;
  double chance;
};

/// For pictures drawn row by row: a cell's code is guessed from those at its left, above and above
/// at the right, by what followed the same codes earlier in the sequence. The tree grows at its
/// likeliest node first.
class GridDrafter : public Drafter {
 public:
  explicit GridDrafter(const GridOptions& options) : options_(options) {}

  std::unique_ptr<DraftState> start() override { return std::make_unique<GridState>(); }

  void observe(DraftState& draft_state, const CommittedTokens& committed) override {
    auto& state = static_cast<GridState&>(draft_state);
    expects(static_cast<int>(state.text.size()) == committed.first_position,
            "tokens are observed in order");
    for (const TokenId token : committed.tokens) {
      if (!state.text.empty()) state.neighbours.learn(around(state, {}), token);
      state.text.push_back(token);
    }
  }

  void propose(std::span<DraftJob> jobs) override {
    for (const DraftJob& job : jobs) grow(static_cast<GridState&>(*job.state), job);
  }

 private:
  /// What surrounds the place after the text and `path`.
  Around around(const GridState& state, const std::vector<TokenId>& path) const {
    const auto place = static_cast<std::ptrdiff_t>(state.text.size() + path.size());
    const auto at = [&](std::ptrdiff_t index) -> TokenId {
      if (index < 0) return -1;
      const auto i = static_cast<std::size_t>(index);
      return i < state.text.size() ? state.text[i] : path[i - state.text.size()];
    };
    Around around{at(place - 1), at(place - options_.row), -1};
    if (options_.row > 2) around.right = at(place - options_.row + 1);
    return around;
  }

  static std::vector<TokenId> path_tokens(const DraftTree& tree, NodeId node) {
    std::vector<TokenId> tokens;
    for (const NodeId id : tree.path(node)) {
      if (id > 0) tokens.push_back(tree[id].token);
    }
    return tokens;
  }

  void grow(const GridState& state, const DraftJob& job) const {
    const int most_nodes = std::min(options_.nodes, job.plan.nodes);
    const int most_levels = std::min(options_.levels, job.plan.levels);
    const DraftPlace first = first_place(job, options_.coupling);
    DraftTree& tree = *job.tree;
    std::vector<OpenCell> open = {{0, 1}};
    const auto less = [](const OpenCell& a, const OpenCell& b) {
      return a.chance != b.chance ? a.chance < b.chance : a.node > b.node;
    };
    while (!open.empty() && tree.draft_nodes() < most_nodes) {
      std::pop_heap(open.begin(), open.end(), less);
      const OpenCell best = open.back();
      open.pop_back();
      const int depth = tree.depth(best.node);
      if (depth == most_levels) continue;
      for (const Counted& child : children(state, tree, best.node, first.after(depth))) {
        if (tree.draft_nodes() == most_nodes) return;
        const double chance = best.chance * child.count;
        const NodeId node =
            tree.add(best.node, child.token, static_cast<float>(std::log(chance)), job.source);
        open.push_back({node, chance});
        std::push_heap(open.begin(), open.end(), less);
      }
    }
  }

  /// The likeliest, or the first of the race where its noise is known.
  std::vector<Counted> children(const GridState& state, const DraftTree& tree, NodeId node,
                                const DraftPlace& place) const {
    std::vector<Counted> all = state.neighbours.chances(around(state, path_tokens(tree, node)));
    double before = 0, after = 0;
    for (Counted& one : all) {
      before += one.count;
      one.count *= chance_factor(place, one.token);
      after += one.count;
    }
    for (Counted& one : all) one.count *= before / after;
    std::stable_sort(all.begin(), all.end(),
                     [](const Counted& a, const Counted& b) { return a.count > b.count; });
    const auto most = static_cast<std::size_t>(options_.children);
    if (all.size() > most) all.resize(most);
    return all;
  }

  GridOptions options_;
};

std::unique_ptr<Drafter> make_grid(Options& options, const DrafterContext& context) {
  int row = options.whole("row");
  if (row == 0) {
    const bool draws = context.target && context.target->config.image;
    row = draws ? context.target->config.image->row_tokens() : 16;
  }
  return std::make_unique<GridDrafter>(GridOptions{options.whole("nodes"),
                                                   options.whole("levels"),
                                                   row,
                                                   options.whole("children"),
                                                   {.on = read_coupled(options)}});
}

}  // namespace

DrafterEntry grid_drafter() {
  return {.name = "grid",
          .summary =
              "for pictures: what followed the same codes at the left and above earlier in "
              "the sequence",
          .options = {{"nodes", WholeNumber{1, 1024}, "32", "most draft nodes"},
                      {"levels", WholeNumber{1, 256}, "16", "most levels"},
                      {"row", WholeNumber{0, 4096}, "0",
                       "tokens of a row of the picture; 0: the model's, else 16"},
                      {"children", WholeNumber{1, 64}, "4", "of a node"},
                      coupled_option()},
          .make = make_grid};
}

}  // namespace talon
