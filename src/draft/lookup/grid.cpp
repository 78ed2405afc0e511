#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <utility>
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
  int history;  // codes of earlier pictures that are remembered, at most
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

/// What surrounds the place after the text and `path`, in rows of that many tokens.
Around around_end(std::span<const TokenId> text, std::span<const TokenId> path, int row) {
  const auto place = static_cast<std::ptrdiff_t>(text.size() + path.size());
  const auto at = [&](std::ptrdiff_t index) -> TokenId {
    if (index < 0) return -1;
    const auto i = static_cast<std::size_t>(index);
    return i < text.size() ? text[i] : path[i - text.size()];
  };
  Around around{at(place - 1), at(place - row), -1};
  if (row > 2) around.right = at(place - row + 1);
  return around;
}

/// (left, above, above right), (left, above), (above), (left): those that there are.
std::vector<Around> orders_of(const Around& around) {
  std::vector<Around> all;
  if (around.above >= 0) {
    if (around.right >= 0) all.push_back(around);
    all.push_back({around.left, around.above, -1});
    all.push_back({-1, around.above, -1});
  }
  all.push_back({around.left, -1, -1});
  return all;
}

void add_count(std::vector<Counted>& counts, TokenId token, double count) {
  const auto known = std::find_if(counts.begin(), counts.end(),
                                  [&](const Counted& it) { return it.token == token; });
  if (known == counts.end()) {
    counts.push_back({token, count});
  } else {
    known->count += count;
  }
}

/// What followed each surrounding.
class Neighbours {
 public:
  void learn(const Around& around, TokenId token) {
    for (const Around& one : orders_of(around)) add_count(seen_[one], token, 1);
  }
  /// What followed exactly that surrounding.
  std::span<const Counted> after(const Around& around) const {
    const auto found = seen_.find(around);
    if (found == seen_.end()) return {};
    return found->second;
  }

 private:
  std::map<Around, std::vector<Counted>> seen_;
};

/// Chances that sum to less than one, of what the picture's `own` and `earlier` ones counted
/// together: each order leaves some of its mass to the next (Witten and Bell's estimate).
std::vector<Counted> chances_of(const Neighbours& own, std::span<const Neighbours* const> earlier,
                                const Around& around) {
  constexpr std::size_t kMostFollowers = 64;  // more say little and take long to read
  std::vector<Counted> chances;
  double left = 1;
  for (const Around& one : orders_of(around)) {
    const std::span<const Counted> known = own.after(one);
    std::vector<Counted> counts(known.begin(), known.end());
    for (const Neighbours* seen : earlier) {
      const std::span<const Counted> followers = seen->after(one);
      if (followers.size() > kMostFollowers) continue;
      for (const Counted& counted : followers) add_count(counts, counted.token, counted.count);
    }
    if (counts.empty()) continue;
    double total = static_cast<double>(counts.size());
    for (const Counted& counted : counts) total += counted.count;
    for (const Counted& counted : counts)
      add_count(chances, counted.token, left * counted.count / total);
    left *= static_cast<double>(counts.size()) / total;
  }
  return chances;
}

/// Earlier pictures, counted in two parts: when the newer one holds half of what may be kept, the
/// older one is forgotten and it becomes the older.
class PictureMemory {
 public:
  /// most_codes: 0: remembers nothing.
  PictureMemory(int most_codes, int row)
      : most_codes_(static_cast<std::size_t>(most_codes)), row_(row) {}

  /// Of a longer text than half of what may be kept, its end.
  void add(std::span<const TokenId> text) {
    const std::size_t half = most_codes_ / 2;
    const std::size_t added = std::min(half, text.size());
    if (added == 0) return;
    if (parts_[0].codes + added > half) parts_[1] = std::exchange(parts_[0], {});
    parts_[0].codes += added;  // also of what a lack of memory cuts short
    for (std::size_t i = std::max<std::size_t>(1, text.size() - added); i < text.size(); ++i)
      parts_[0].seen.learn(around_end(text.first(i), {}, row_), text[i]);
  }

  const Neighbours& newer() const { return parts_[0].seen; }
  const Neighbours& older() const { return parts_[1].seen; }

 private:
  struct Part {
    std::size_t codes = 0;
    Neighbours seen;
  };
  std::size_t most_codes_;
  int row_;
  std::array<Part, 2> parts_;
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
/// at the right, by what followed the same codes earlier in the sequence and, if asked, in earlier
/// ones. The tree grows at its likeliest node first.
class GridDrafter : public Drafter {
 public:
  explicit GridDrafter(const GridOptions& options)
      : options_(options), memory_(options.history, options.row) {}

  std::unique_ptr<DraftState> start() override { return std::make_unique<GridState>(); }

  void observe(DraftState& draft_state, const CommittedTokens& committed) override {
    auto& state = static_cast<GridState&>(draft_state);
    expects(static_cast<int>(state.text.size()) == committed.first_position,
            "tokens are observed in order");
    for (const TokenId token : committed.tokens) {
      if (!state.text.empty())
        state.neighbours.learn(around_end(state.text, {}, options_.row), token);
      state.text.push_back(token);
    }
  }

  /// What is not finished is not remembered, and no picture that is a tenant's own.
  void finish(DraftState& state, bool has_ended) override {
    if (has_ended && shares(state)) memory_.add(static_cast<GridState&>(state).text);
  }

  void propose(std::span<DraftJob> jobs) override {
    for (const DraftJob& job : jobs) grow(static_cast<GridState&>(*job.state), job);
  }

 private:
  static bool shares(const DraftState& state) {
    return state.owner.reuses && state.owner.tenant == 0;
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
    const Neighbours* const earlier[] = {&memory_.newer(), &memory_.older()};
    std::vector<Counted> all =
        chances_of(state.neighbours, std::span(earlier).first(shares(state) ? 2 : 0),
                   around_end(state.text, path_tokens(tree, node), options_.row));
    std::erase_if(all, [&](const Counted& one) { return place.bans(one.token); });
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
  PictureMemory memory_;
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
                                                   options.whole("history"),
                                                   {.on = read_coupled(options)}});
}

}  // namespace

DrafterEntry grid_drafter() {
  return {
      .name = "grid",
      .summary =
          "for pictures: what followed the same codes at the left and above earlier in "
          "the sequence, and in earlier ones if asked",
      .options = {{"nodes", WholeNumber{1, 1024}, "32", "most draft nodes"},
                  {"levels", WholeNumber{1, 256}, "16", "most levels"},
                  {"row", WholeNumber{0, 4096}, "0",
                   "tokens of a row of the picture; 0: the model's, else 16"},
                  {"children", WholeNumber{1, 64}, "4", "of a node"},
                  {"history", WholeNumber{0, 1 << 24}, "0", "codes of earlier pictures remembered"},
                  coupled_option()},
      .make = make_grid};
}

}  // namespace talon
