#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "draft/drafters.h"

namespace talon {
namespace {

struct JacobiOptions {
  int window;
  int width;  // guesses for each of the first `depth` places
  int depth;
  int row;
  TokenId answers;  // tokens below are drawn, those from it on are prompts' alone
};

/// A token for a place ahead of the text.
struct Guess {
  TokenId token = 0;
  int rounds = 0;                    // checks in a row that drew the same there; 0: none drew it
  std::vector<TokenId> others = {};  // that may stand there instead, the likeliest first

  bool proposes(TokenId other) const {
    return other == token || std::find(others.begin(), others.end(), other) != others.end();
  }
};

/// How often guesses come true that so many checks in a row agreed on, each if those before it did.
class Odds {
 public:
  double chance(const Guess& guess) const { return counts_[place(guess)].share(); }
  void learn(const Guess& guess, bool is_right) { counts_[place(guess)].learn(is_right); }
  /// Of Guess::others, if what is likelier does not stand there.
  double chance_of_other(std::size_t rank) const { return others_[other_place(rank)].share(); }
  void learn_other(std::size_t rank, bool is_right) { others_[other_place(rank)].learn(is_right); }

 private:
  struct Count {
    double right, tried;

    double share() const { return right / tried; }
    void learn(bool is_right) {
      constexpr double kMemory = 0.98;
      right = kMemory * right + (is_right ? 1 : 0);
      tried = kMemory * tried + 1;
    }
  };
  static std::size_t place(const Guess& guess) {
    return static_cast<std::size_t>(std::min(guess.rounds, 3));
  }
  static std::size_t other_place(std::size_t rank) { return std::min<std::size_t>(rank, 2); }
  std::array<Count, 4> counts_ = {{{1, 8}, {2, 5}, {4, 6}, {6, 8}}};  // where it begins from
  std::array<Count, 3> others_ = {{{1, 3}, {1, 4}, {1, 6}}};
};

struct JacobiState : DraftState {
  std::vector<TokenId> text;
  std::vector<Guess> ahead;                       // for the places after the text
  std::vector<Guess> proposed;                    // of the last draft, level by level
  std::unordered_map<TokenId, TokenId> follower;  // what came last after a token
  Odds odds;
};

/// Jacobi decoding (arXiv:2305.10427; for sampled images arXiv:2410.01699): the draft of the places
/// ahead is what the last check drew there, partly after tokens that turned out wrong. Since the
/// noise of a draw belongs to its place, the iteration settles on the text that plain decoding
/// draws, at every temperature. Draws beyond a wrong token are kept for the next draft. The first
/// places may have several guesses each, which are a short tree beside the chain.
class JacobiDrafter : public Drafter {
 public:
  explicit JacobiDrafter(const JacobiOptions& options) : options_(options) {}

  DrafterTraits traits() const override { return {.sees_draws = true}; }
  std::unique_ptr<DraftState> start() override { return std::make_unique<JacobiState>(); }

  void saw(DraftState& draft_state, const DraftTree& tree, const TokenAfter& drawn) override {
    auto& state = static_cast<JacobiState&>(draft_state);
    const std::vector<Guess> before = std::move(state.proposed);
    state.proposed.clear();
    Drawn draws = draw(tree, before, drawn);
    learn(state.odds, before, std::span(draws.guesses).first(draws.of_text));
    if (options_.width > 1) find_others(state.ahead, drawn, draws);
    std::vector<Guess> fresh = std::move(draws.guesses);
    for (std::size_t level = fresh.size(); level < state.ahead.size(); ++level)
      fresh.push_back(state.ahead[level]);  // not checked
    state.ahead = std::move(fresh);
  }

  void observe(DraftState& draft_state, const CommittedTokens& committed) override {
    auto& state = static_cast<JacobiState&>(draft_state);
    expects(static_cast<int>(state.text.size()) == committed.first_position,
            "tokens are observed in order");
    for (const TokenId token : committed.tokens) {
      if (!state.text.empty()) state.follower[state.text.back()] = token;
      state.text.push_back(token);
    }
    state.proposed.clear();
    const auto passed = std::min(state.ahead.size(), committed.tokens.size());
    state.ahead.erase(state.ahead.begin(),
                      state.ahead.begin() + static_cast<std::ptrdiff_t>(passed));
  }

  void propose(std::span<DraftJob> jobs) override {
    for (DraftJob& job : jobs) grow(static_cast<JacobiState&>(*job.state), job);
  }

 private:
  /// What a check drew, level by level.
  struct Drawn {
    std::vector<Guess> guesses;
    std::vector<NodeId> after;  // the node that each was drawn after
    std::size_t of_text = 0;    // so many of the first become text
  };

  /// A guess that is no node yet.
  struct Branch {
    NodeId parent;
    TokenId token;
    int level;
    double log_p;
    bool is_chain;  // the first guess for its place, as all above it

    bool operator<(const Branch& other) const {
      if (log_p != other.log_p) return log_p < other.log_p;
      return parent != other.parent ? parent > other.parent : token > other.token;
    }
  };

  /// Along what the text took of the draft, and from there on along what the check itself drew,
  /// where that was drafted, else along the first guesses.
  static Drawn draw(const DraftTree& tree, const std::vector<Guess>& before,
                    const TokenAfter& drawn) {
    Drawn draws;
    NodeId node = 0, chain = 0;
    bool is_text = true;
    for (std::size_t level = 0; node >= 0; ++level) {
      const TokenId token = drawn(node);
      const bool known = level < before.size();
      const bool agrees = known && before[level].token == token;
      draws.guesses.push_back({token, agrees ? before[level].rounds + 1 : 1});
      draws.after.push_back(node);
      if (is_text) ++draws.of_text;
      if (!known) break;
      const NodeId right = before[level].proposes(token) ? tree.child(node, token) : -1;
      is_text = is_text && right >= 0;
      chain = chain < 0 ? -1 : tree.child(chain, before[level].token);
      node = right >= 0 ? right : tree.child(node, before[level].token);
      if (node < 0) node = chain;
    }
    return draws;
  }

  /// What the text itself says of the last draft: all guesses up to the place where it left it.
  void learn(Odds& odds, const std::vector<Guess>& before, std::span<const Guess> text) const {
    for (std::size_t i = 0; i < std::min(before.size(), text.size()); ++i) {
      const bool is_right = before[i].token == text[i].token;
      odds.learn(before[i], is_right);
      if (is_right || i >= depth()) continue;
      for (std::size_t rank = 0; rank < before[i].others.size(); ++rank) {
        const bool other_is_right = before[i].others[rank] == text[i].token;
        odds.learn_other(rank, other_is_right);
        if (other_is_right) break;
      }
    }
  }

  /// Beside what was drawn: for the next draft's first places what comes next in the race there
  /// (the proactive drafts of SJD-PAC), then what was guessed for the place before.
  void find_others(const std::vector<Guess>& ahead, const TokenAfter& drawn, Drawn& draws) const {
    const auto most = static_cast<std::size_t>(options_.width);
    for (std::size_t level = 0; level < draws.guesses.size(); ++level) {
      Guess& guess = draws.guesses[level];
      std::vector<TokenId> all = {guess.token};
      const bool is_next = level >= draws.of_text && level < draws.of_text + depth();
      while (is_next && all.size() < most) {
        const TokenId token = drawn.without(draws.after[level], all);
        if (token < 0) break;
        all.push_back(token);
      }
      const auto add = [&](TokenId token) {
        if (all.size() < most && std::find(all.begin(), all.end(), token) == all.end())
          all.push_back(token);
      };
      if (level < ahead.size()) {
        add(ahead[level].token);
        for (const TokenId token : ahead[level].others) add(token);
      }
      guess.others.assign(all.begin() + 1, all.end());
    }
  }

  /// The likeliest guess first.
  void grow(JacobiState& state, const DraftJob& job) const {
    const int levels = std::min(options_.window, job.plan.levels);
    std::vector<Branch> open;  // a heap
    NodeId node = 0;
    Branch newest{-1, 0, 0, 0, true};
    state.proposed.clear();
    for (int nodes = 0; nodes < job.plan.nodes; ++nodes) {
      if (newest.level < levels) open_below(state, node, newest, open);
      if (open.empty()) return;
      std::pop_heap(open.begin(), open.end());
      newest = open.back();
      open.pop_back();
      node =
          job.tree->add(newest.parent, newest.token, static_cast<float>(newest.log_p), job.source);
      const auto place = static_cast<std::size_t>(newest.level) - 1;
      if (place == state.proposed.size()) state.proposed.push_back(state.ahead[place]);
    }
  }

  /// Adds the guesses for the place below `node`, which was `above`.
  void open_below(JacobiState& state, NodeId node, const Branch& above,
                  std::vector<Branch>& open) const {
    const auto place = static_cast<std::size_t>(above.level);
    const bool is_wide = place < depth();
    if (!is_wide && !above.is_chain) return;
    if (state.ahead.size() == place) state.ahead.push_back(first_guess(state));
    const Guess& guess = state.ahead[place];
    const auto add = [&](TokenId token, double chance, bool is_chain) {
      open.push_back({node, token, above.level + 1, above.log_p + std::log(chance), is_chain});
      std::push_heap(open.begin(), open.end());
    };
    const double chance = state.odds.chance(guess);
    add(guess.token, chance, above.is_chain);
    if (!is_wide) return;
    double left = 1 - chance;
    for (std::size_t rank = 0; rank < guess.others.size(); ++rank) {
      const double share = left * state.odds.chance_of_other(rank);
      add(guess.others[rank], share, false);
      left -= share;
    }
  }

  /// For the place after all of `ahead`, where nothing was drawn: the token a row of the grid
  /// before, or, in the first row, what came last after the token before it.
  Guess first_guess(const JacobiState& state) const {
    const auto token_at = [&](std::size_t place) {
      return place < state.text.size() ? state.text[place]
                                       : state.ahead[place - state.text.size()].token;
    };
    const std::size_t place = state.text.size() + state.ahead.size();
    const auto row = static_cast<std::size_t>(options_.row);
    const TokenId above = row > 0 && place >= row ? token_at(place - row) : options_.answers;
    if (above < options_.answers) return {above};
    const TokenId last = token_at(place - 1);
    const auto found = state.follower.find(last);
    return {found == state.follower.end() ? last : found->second};
  }

  /// Places with more guesses than one.
  std::size_t depth() const {
    return options_.width > 1 ? static_cast<std::size_t>(options_.depth) : 0;
  }

  JacobiOptions options_;
};

std::unique_ptr<Drafter> make_jacobi(Options& options, const DrafterContext& context) {
  int row = options.whole("row");
  if (row == 0 && context.target && context.target->config.image)
    row = context.target->config.image->row_tokens();
  const TokenId answers = context.target ? context.target->config.vocabulary : INT_MAX;
  const int width = options.whole("width");
  if (options.is_given("depth") && width == 1)
    options.misuse("width", "at least 2 beside depth, since one guess for a place is a chain");
  return std::make_unique<JacobiDrafter>(
      JacobiOptions{options.whole("window"), width, options.whole("depth"), row, answers});
}

}  // namespace

DrafterEntry jacobi_drafter() {
  return {.name = "jacobi",
          .summary =
              "what the last check drew at the places ahead (Jacobi decoding, "
              "arXiv:2305.10427, 2410.01699; exact at every temperature)",
          .options =
              {{"window", WholeNumber{1, 256}, "32", "places ahead"},
               {"width", WholeNumber{1, 8}, "1",
                "guesses for each of the first places: what was drawn there and what would have "
                "been in its place; 1: a chain"},
               {"depth", WholeNumber{1, 8}, "3", "those first places, of a width of 2 or more"},
               {"row", WholeNumber{0, 4096}, "0",
                "tokens of a row of a picture: new places begin as the row above; 0: the model's, "
                "of a text as the token went on before"}},
          .make = make_jacobi};
}

}  // namespace talon
