#include <algorithm>
#include <cmath>
#include <queue>
#include <vector>

#include "core/error.h"
#include "draft/coupling/coupling.h"
#include "draft/drafters.h"
#include "draft/head_options.h"
#include "draft/lookup/ngram_index.h"

namespace talon {
namespace {

struct NgramOptions {
  int nodes;
  int levels;
  int ngram;
  int matches;
  Coupling coupling;
};

struct NgramState : DraftState {
  explicit NgramState(int max_n) : index(max_n) {}
  NgramIndex index;
};

/// An earlier place whose last tokens equal those of a path: its next token is a guess for the
/// path's.
struct Match {
  /// Position of the token after the place; past the end of the text a position in the path.
  int next;
  int length;  // tokens that are equal
  double weight;
};

/// A node whose children are not yet in the tree.
struct OpenNode {
  NodeId node;
  double chance;  // of the whole path
  int depth;
  std::vector<Match> matches;
};
struct LessLikelyNode {
  bool operator()(const OpenNode& a, const OpenNode& b) const {
    return a.chance != b.chance ? a.chance < b.chance : a.node > b.node;
  }
};

/// The chance that text which repeated `length` tokens repeats one more. A starting point: policies
/// calibrate it.
double repeat_chance(int length) {
  constexpr double kChance[] = {0.0, 0.15, 0.35, 0.5, 0.6, 0.68, 0.74, 0.79};
  return length < 8 ? kChance[length] : 0.85;
}

/// Prompt lookup (Saxena, 2023) generalised: the most recent places of the longest suffixes, whose
/// continuations share one tree. Places vote for the next token, longer and more recent ones with
/// more weight; the tree grows at its likeliest node first.
class NgramDrafter : public Drafter {
 public:
  explicit NgramDrafter(const NgramOptions& options) : options_(options) {}

  std::unique_ptr<DraftState> start() override {
    return std::make_unique<NgramState>(options_.ngram);
  }

  void observe(DraftState& state, const CommittedTokens& committed) override {
    auto& index = static_cast<NgramState&>(state).index;
    expects(static_cast<int>(index.tokens().size()) == committed.first_position,
            "tokens are observed in order");
    for (const TokenId token : committed.tokens) index.append(token);
  }

  void propose(std::span<DraftJob> jobs) override {
    for (const DraftJob& job : jobs) grow(static_cast<NgramState&>(*job.state).index, job);
  }

 private:
  void grow(const NgramIndex& index, const DraftJob& job) const {
    const int most_nodes = std::min(options_.nodes, job.plan.nodes);
    const int most_levels = std::min(options_.levels, job.plan.levels);
    DraftTree& tree = *job.tree;
    std::priority_queue<OpenNode, std::vector<OpenNode>, LessLikelyNode> open;
    open.push({0, 1.0, 0, find_matches(index)});
    const DraftPlace first = first_place(job, options_.coupling);
    while (!open.empty()) {
      const OpenNode best = open.top();
      open.pop();
      if (best.depth == most_levels) continue;
      const DraftPlace place = first.after(best.depth);
      for (OpenNode& child : expand(index, tree, best, place)) {
        if (tree.draft_nodes() == most_nodes) return;
        const TokenId token = token_at(index, tree, best.node, child.matches.front().next - 1);
        child.node = tree.add(best.node, token, static_cast<float>(std::log(child.chance)));
        open.push(std::move(child));
      }
    }
  }

  /// The last places where the longest suffixes of the text occurred before, longest first, then
  /// most recent first.
  std::vector<Match> find_matches(const NgramIndex& index) const {
    std::vector<Match> matches;
    const int last = static_cast<int>(index.tokens().size()) - 1;
    for (int n = std::min(index.max_n(), last); n >= 1; --n) {
      double recency = 1;
      for (int end = index.previous(n, last); end >= 0; end = index.previous(n, end)) {
        if (static_cast<int>(matches.size()) == options_.matches) return matches;
        const auto same_place = [&](const Match& match) { return match.next == end + 1; };
        if (std::any_of(matches.begin(), matches.end(), same_place)) continue;
        matches.push_back({end + 1, n, recency * std::pow(4.0, n)});
        recency *= 0.8;
      }
    }
    return matches;
  }

  /// The children that the matches of a node vote for and the request does not ban, likeliest
  /// first. Their node ids are not set yet.
  static std::vector<OpenNode> expand(const NgramIndex& index, const DraftTree& tree,
                                      const OpenNode& from, const DraftPlace& place) {
    std::vector<OpenNode> children;
    std::vector<TokenId> tokens;
    std::vector<double> votes;
    double all_votes = 0;
    int longest = 0;
    for (const Match& match : from.matches) {
      const TokenId token = token_at(index, tree, from.node, match.next);
      if (place.bans(token)) continue;
      const auto known = std::find(tokens.begin(), tokens.end(), token);
      const auto child = static_cast<std::size_t>(known - tokens.begin());
      if (known == tokens.end()) {
        tokens.push_back(token);
        votes.push_back(0);
        children.push_back({-1, 0, from.depth + 1, {}});
      }
      votes[child] += match.weight;
      all_votes += match.weight;
      longest = std::max(longest, match.length);
      children[child].matches.push_back({match.next + 1, match.length + 1, match.weight});
    }
    if (children.size() > 1) {
      all_votes = 0;
      for (std::size_t child = 0; child < children.size(); ++child) {
        votes[child] *= chance_factor(place, tokens[child]);
        all_votes += votes[child];
      }
    }
    for (std::size_t child = 0; child < children.size(); ++child) {
      children[child].chance = from.chance * repeat_chance(longest) * votes[child] / all_votes;
    }
    std::stable_sort(children.begin(), children.end(),
                     [](const OpenNode& a, const OpenNode& b) { return a.chance > b.chance; });
    return children;
  }

  /// The token at a position of the text continued by the path to `node`: a place near the end of
  /// the text goes on into the draft itself, as repeating text does.
  static TokenId token_at(const NgramIndex& index, const DraftTree& tree, NodeId node,
                          int position) {
    const auto& tokens = index.tokens();
    const int beyond = position - static_cast<int>(tokens.size());
    if (beyond < 0) return tokens[static_cast<std::size_t>(position)];
    for (int above = tree.depth(node) - 1 - beyond; above > 0; --above) {
      node = tree[node].parent;
    }
    return tree[node].token;
  }

  NgramOptions options_;
};

std::unique_ptr<Drafter> make_ngram(Options& options, const DrafterContext&) {
  return std::make_unique<NgramDrafter>(NgramOptions{options.whole("nodes"),
                                                     options.whole("levels"),
                                                     options.whole("ngram"),
                                                     options.whole("matches"),
                                                     {.on = read_coupled(options)}});
}

}  // namespace

DrafterEntry ngram_drafter() {
  return {.name = "ngram",
          .summary =
              "continues the text as it went on after earlier places with the same last "
              "tokens (prompt lookup, several places merged into one tree)",
          .options = {{"nodes", WholeNumber{1, 1024}, "32", "most draft nodes"},
                      {"levels", WholeNumber{1, 256}, "16", "most levels"},
                      {"ngram", WholeNumber{1, 32}, "6", "longest suffix matched"},
                      {"matches", WholeNumber{1, 256}, "6", "places looked at"},
                      coupled_option()},
          .make = make_ngram};
}

}  // namespace talon
