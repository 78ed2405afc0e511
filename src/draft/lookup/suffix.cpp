#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <queue>
#include <vector>

#include "core/error.h"
#include "draft/conversation_memory.h"
#include "draft/coupling/coupling.h"
#include "draft/drafters.h"
#include "draft/head_options.h"
#include "draft/lookup/repeat_odds.h"
#include "draft/lookup/suffix_automaton.h"
#include "sample/temperature_class.h"

namespace talon {
namespace {

constexpr int kMostOrders = 4;  // suffixes of a place whose continuations are looked at
constexpr std::size_t kMostChildren = 8;
constexpr std::size_t kMostContinuations =
    64;  // of a suffix; one with more says little of the next token and takes long to read
constexpr std::size_t kMostCoupled = 64;  // of a place, the likeliest: their noise is looked at

struct SuffixOptions {
  int nodes;
  int levels;
  int history;
  double least;
  Coupling coupling;
};

/// A suffix of some place, as a match in one of the texts.
struct Context {
  const SuffixAutomaton* text;
  SuffixAutomaton::Match match;
};
using Contexts = std::vector<Context>;  // this text first, so that it wins ties

/// Where a text stands in a volume of the memory.
struct Cursor {
  std::uint64_t volume = 0;
  SuffixAutomaton::Match match;
};

/// How often texts repeat themselves, by temperature_class(): hot ones do so less.
using SuffixOdds = std::array<RepeatOdds, kTemperatureClasses>;

struct SuffixState : DraftState {
  explicit SuffixState(const SuffixOdds& of_all) {
    for (std::size_t i = 0; i < odds.size(); ++i) odds[i] = of_all[i].aged();
  }
  SuffixOdds odds;
  std::optional<std::size_t> kind;  // temperature_class(), since it is known how tokens are drawn
  SuffixAutomaton text;             // behind what was expected
  SuffixAutomaton::Match match;     // the longest suffix of the text that it had before
  std::array<Cursor, ConversationMemory::kVolumes> cursors;
  std::vector<TokenId> tokens;
};

/// Calls visit(context) for the longest suffix that has continuations, then shorter ones, until it
/// returns false.
template <typename Visit>
void for_each_order(Contexts contexts, Visit&& visit) {
  for (int order = 0; order < kMostOrders;) {
    const auto longest = std::max_element(
        contexts.begin(), contexts.end(),
        [](const Context& a, const Context& b) { return a.match.length < b.match.length; });
    if (longest == contexts.end() || longest->match.length == 0) return;
    const std::size_t ways = longest->text->transitions(longest->match.state).size();
    if (ways > 0 && ways <= kMostContinuations) {
      if (!visit(*longest)) return;
      ++order;
    }
    longest->match = longest->text->shorter(longest->match);
  }
}

/// Where the suffix occurred before. The end of the text is no such place: nothing follows it yet.
int earlier_places(const Context& context) {
  int places = 0;
  for (const auto& [token, to] : context.text->transitions(context.match.state)) {
    places += context.text->occurrences(to);
  }
  return places;
}

double chance_to_repeat(const RepeatOdds& odds, const Context& context) {
  return odds.chance(context.match.length, earlier_places(context));
}

struct Continuation {
  TokenId token;
  double chance;
};

/// The next tokens, in no order. The longest suffix shares its chance to repeat among its
/// continuations by their counts; what is left goes to the next shorter one for the tokens that
/// longer ones never had (prediction by partial matching, Cleary and Witten, 1984).
std::vector<Continuation> continuations(const Contexts& contexts, const RepeatOdds& odds) {
  std::vector<Continuation> found;
  std::vector<Context> longer;
  double left = 1;
  for_each_order(contexts, [&](const Context& context) {
    const auto is_new = [&](TokenId token) {
      return token >= 0 && std::none_of(longer.begin(), longer.end(), [&](const Context& other) {
               return other.text->next(other.match.state, token) >= 0;
             });
    };
    const std::size_t first = found.size();
    double places = 0;
    for (const auto& [token, to] : context.text->transitions(context.match.state)) {
      if (!is_new(token)) continue;
      found.push_back({token, static_cast<double>(context.text->occurrences(to))});
      places += found.back().chance;
    }
    const double share = left * chance_to_repeat(odds, context);
    for (std::size_t i = first; i < found.size(); ++i)
      found[i].chance *= share / std::max(places, 1.0);
    left -= share;
    longer.push_back(context);
    return true;
  });
  return found;
}

/// Leaves the `most` likeliest, in their order.
void keep_likeliest(std::vector<Continuation>& found, std::size_t most) {
  const auto likelier = [](const Continuation& a, const Continuation& b) {
    return a.chance != b.chance ? a.chance > b.chance : a.token < b.token;
  };
  const std::size_t kept = std::min(found.size(), most);
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept), found.end(),
                    likelier);
  found.resize(kept);
}

/// Shares the chance of several continuations among them anew by the noise of their place, if it is
/// known. Before all but a few are dropped, since noise may favour any of them.
void couple(std::vector<Continuation>& found, const DraftPlace& place) {
  if (!place.races()) return;
  keep_likeliest(found, kMostCoupled);
  if (found.size() < 2) return;
  double before = 0, after = 0;
  for (Continuation& each : found) {
    before += each.chance;
    each.chance *= chance_factor(place, each.token);
    after += each.chance;
  }
  if (!(after > 0)) return;  // what longer suffixes had is certain
  for (Continuation& each : found) each.chance *= before / after;
}

/// A possible child, not in the tree yet or there with less chance.
struct Candidate {
  NodeId parent;
  TokenId token;
  double chance;  // of the whole path
  float log_p;  // for the tree: relative to what it was given above (DrafterTraits::extends_trees)
};
struct LessLikely {
  bool operator()(const Candidate& a, const Candidate& b) const {
    if (a.chance != b.chance) return a.chance < b.chance;
    return a.parent != b.parent ? a.parent > b.parent : a.token > b.token;
  }
};

/// Grows one tree: always the likeliest candidate next, so that a cut to fewer nodes keeps a
/// beginning.
class Growth {
 public:
  Growth(const RepeatOdds& odds, const DraftJob& job, const DraftPlace& first_place,
         int most_levels)
      : odds_(odds),
        tree_(*job.tree),
        source_(job.source),
        first_place_(first_place),
        most_levels_(most_levels) {}

  /// Opens the nodes that the tree has. `root`: the suffixes of the text. A node of less than
  /// least_chance is opened once the texts give it more.
  void open_all(Contexts root, double least_chance) {
    grown_.push_back({std::move(root), true, 0, tree_[0].log_p});
    open(0, 1.0);
    for (NodeId node = 1; node < tree_.size(); ++node) {
      grown_.push_back({{}, false, 0, tree_[node].log_p});
      const double chance = std::exp(static_cast<double>(tree_[node].log_p));
      if (chance >= least_chance) open(node, chance);
    }
  }
  void grow(int most_nodes, double least_chance) {
    while (!candidates_.empty() && candidates_.top().chance >= least_chance &&
           tree_.draft_nodes() < most_nodes) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      const NodeId node = tree_.add(best.parent, best.token, best.log_p, source_);
      if (index(node) == grown_.size()) grown_.push_back({{}, false, 0, best.log_p});
      if (best.chance > grown_[index(node)].chance) open(node, best.chance);
    }
  }

 private:
  struct Grown {
    Contexts contexts;
    bool has_contexts = false;
    double chance = 0;  // with which it was opened
    float log_p = 0;    // that it was given
  };
  static std::size_t index(NodeId node) { return static_cast<std::size_t>(node); }

  const Contexts& contexts_of(NodeId node) {
    Grown& grown = grown_[index(node)];
    if (grown.has_contexts) return grown.contexts;
    grown.contexts = contexts_of(tree_[node].parent);
    for (Context& context : grown.contexts) {
      context.match = context.text->advance(context.match, tree_[node].token);
    }
    grown.has_contexts = true;
    return grown.contexts;
  }
  void open(NodeId node, double chance) {
    const bool is_probe = tree_[node].kind == NodeKind::probe;
    if (tree_.depth(node) >= most_levels_ || tree_.drawn_from(node) || is_probe) return;
    Grown& grown = grown_[index(node)];
    grown.chance = chance;
    std::vector<Continuation> found = continuations(contexts_of(node), odds_);
    const DraftPlace place = first_place_.after(tree_.depth(node));
    std::erase_if(found, [&](const Continuation& each) { return place.bans(each.token); });
    couple(found, place);
    keep_likeliest(found, kMostChildren);
    for (const auto& [token, step] : found) {
      const float log_p = grown.log_p + static_cast<float>(std::log(step));
      candidates_.push({node, token, chance * step, log_p});
    }
  }

  const RepeatOdds& odds_;
  DraftTree& tree_;
  std::uint32_t source_;
  DraftPlace first_place_;
  int most_levels_;
  std::vector<Grown> grown_;  // per node
  std::priority_queue<Candidate, std::vector<Candidate>, LessLikely> candidates_;
};

/// Continues the text as it went on where its last tokens occurred before, in this text and in
/// earlier conversations: suffix automata as in SAM decoding (arXiv:2411.10666), counts and a tree
/// of the likeliest paths as in SuffixDecoding (arXiv:2411.04975). How much a match is worth is
/// learned from the text, and from others that were drawn at such a temperature.
class SuffixDrafter : public Drafter {
 public:
  explicit SuffixDrafter(const SuffixOptions& options)
      : options_(options), memory_(options.history) {}

  DrafterTraits traits() const override { return {.extends_trees = true}; }
  std::unique_ptr<DraftState> start() override { return std::make_unique<SuffixState>(odds_); }
  std::unique_ptr<DraftState> resume(std::span<const TokenId> known, const TextOwner& owner,
                                     std::span<const TokenId> expected) override {
    auto state = std::make_unique<SuffixState>(odds_);
    state->owner = owner;
    for (const TokenId token : expected) state->text.append(token);
    if (!expected.empty()) state->text.append(ConversationMemory::kBorder);
    if (!known.empty()) observe(*state, {.tokens = known, .first_has_row = false});
    return state;
  }

  void observe(DraftState& draft_state, const CommittedTokens& committed) override {
    auto& state = static_cast<SuffixState&>(draft_state);
    expects(static_cast<int>(state.tokens.size()) == committed.first_position,
            "tokens are observed in order");
    follow_memory(state);
    for (const TokenId token : committed.tokens) {
      learn(state, token);
      append(state, token);
    }
  }

  /// What is not finished, because it failed or its text is not to be reused, is not remembered,
  /// and no text that is a tenant's own.
  void finish(DraftState& state, bool has_ended) override {
    if (has_ended && shares(state)) memory_.add(static_cast<SuffixState&>(state).tokens);
  }

  void propose(std::span<DraftJob> jobs) override {
    for (const DraftJob& job : jobs) {
      auto& state = static_cast<SuffixState&>(*job.state);
      follow_memory(state);
      if (!state.kind) state.kind = job.sampler ? temperature_class(*job.sampler) : 0;
      const int levels = std::min(options_.levels, job.plan.levels);
      const int known = job.tree->draft_nodes();
      const RepeatOdds& odds = state.odds[*state.kind];
      Growth growth(odds, job, first_place(job, options_.coupling), levels);
      growth.open_all(contexts(state), options_.least);
      growth.grow(std::min(known + options_.nodes, job.plan.nodes), options_.least);
    }
  }

 private:
  static bool shares(const DraftState& state) {
    return state.owner.reuses && state.owner.tenant == 0;
  }
  Contexts contexts(const SuffixState& state) const {
    Contexts result = {{&state.text, state.match}};
    if (!shares(state)) return result;
    for (std::size_t i = 0; i < ConversationMemory::kVolumes; ++i) {
      const auto& text = memory_.volumes()[i].text;
      if (text) result.push_back({text.get(), state.cursors[i].match});
    }
    return result;
  }

  /// Moves the state's cursors to where the volumes are now: one may have become the older, and
  /// others may have added to them.
  void follow_memory(SuffixState& state) const {
    const auto known = state.cursors;
    for (std::size_t i = 0; i < ConversationMemory::kVolumes; ++i) {
      const auto& volume = memory_.volumes()[i];
      Cursor& cursor = state.cursors[i];
      cursor = {volume.id, {}};
      if (!volume.text) continue;
      for (const Cursor& before : known) {
        if (before.volume == volume.id) cursor.match = volume.text->refreshed(before.match);
      }
    }
  }

  /// Before the first draft it is not known how tokens are drawn. What comes then, a prompt above
  /// all, counts for all temperatures.
  void learn(SuffixState& state, TokenId token) {
    const std::size_t first = state.kind.value_or(0);
    const std::size_t last = state.kind.value_or(kTemperatureClasses - 1);
    for_each_order(contexts(state), [&](const Context& context) {
      const int places = earlier_places(context);
      const bool repeated = context.text->next(context.match.state, token) >= 0;
      for (std::size_t kind = first; kind <= last; ++kind) {
        state.odds[kind].observe(context.match.length, places, repeated);
        odds_[kind].observe(context.match.length, places, repeated);
      }
      return !repeated;
    });
  }

  void append(SuffixState& state, TokenId token) const {
    state.match = state.text.advance(state.match, token);
    state.text.append(token);
    state.match = state.text.refreshed(state.match);
    state.tokens.push_back(token);
    for (std::size_t i = 0; i < ConversationMemory::kVolumes; ++i) {
      const auto& text = memory_.volumes()[i].text;
      if (text) state.cursors[i].match = text->advance(state.cursors[i].match, token);
    }
  }

  SuffixOptions options_;
  ConversationMemory memory_;
  SuffixOdds odds_;  // of all texts
};

std::unique_ptr<Drafter> make_suffix(Options& options, const DrafterContext&) {
  return std::make_unique<SuffixDrafter>(SuffixOptions{options.whole("nodes"),
                                                       options.whole("levels"),
                                                       options.whole("history"),
                                                       options.real("least"),
                                                       {.on = read_coupled(options)}});
}

}  // namespace

DrafterEntry suffix_drafter() {
  return {.name = "suffix",
          .summary =
              "continues the text, and earlier ones if asked, from the longest suffixes seen "
              "before, by counts (suffix automaton: arXiv:2411.10666, arXiv:2411.04975); "
              "grows other drafters' branches",
          .options = {{"nodes", WholeNumber{1, 1024}, "32", "most draft nodes"},
                      {"levels", WholeNumber{1, 256}, "16", "most levels"},
                      {"least", RealNumber{0, 1}, "0.01", "chance below which no path is drafted"},
                      {"history", WholeNumber{0, 1 << 24}, "0",
                       "tokens of earlier conversations remembered"},
                      coupled_option()},
          .make = make_suffix};
}

}  // namespace talon
