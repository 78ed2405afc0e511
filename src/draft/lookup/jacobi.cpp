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
  TokenId after = -1;  // the token before it where it was drawn; -1: none drew it
  int rounds = 0;  // checks in a row that drew it there; 0: what comes next in a race, or a copy
};

/// For one place; the last check's come first.
using Guesses = std::vector<Guess>;

/// What may stand after `last`, at most `most` different tokens: what was drawn after that very
/// token first, since that context is the likeliest to be right.
Guesses guesses_after(const Guesses& all, TokenId last, std::size_t most) {
  Guesses chosen;
  for (const bool matches : {true, false}) {
    for (const Guess& guess : all) {
      const bool is_new = std::none_of(chosen.begin(), chosen.end(), [&](const Guess& other) {
        return other.token == guess.token;
      });
      if (is_new && (guess.after == last) == matches && chosen.size() < most)
        chosen.push_back(guess);
    }
  }
  return chosen;
}

/// How often guesses come true after the token `last` if those before them in guesses_after() do
/// not: by their rank, by whether they were drawn after that token, and by their rounds.
class Odds {
 public:
  double chance(const Guess& guess, TokenId last, std::size_t rank) const {
    const Count& count = counts_[place(guess, last, rank)];
    return count.right / count.tried;
  }
  void learn(const Guess& guess, TokenId last, std::size_t rank, bool is_right) {
    constexpr double kMemory = 0.98;
    Count& count = counts_[place(guess, last, rank)];
    count.right = kMemory * count.right + (is_right ? 1 : 0);
    count.tried = kMemory * count.tried + 1;
  }

 private:
  struct Count {
    double right, tried;
  };
  static constexpr std::size_t kRounds = 4, kRanks = 4;
  using Counts = std::array<Count, 2 * kRounds * kRanks>;

  static std::size_t place(const Guess& guess, TokenId last, std::size_t rank) {
    const std::size_t matches = guess.after == last ? 1 : 0;
    const auto rounds = std::min(static_cast<std::size_t>(guess.rounds), kRounds - 1);
    return (matches * kRounds + rounds) * kRanks + std::min(rank, kRanks - 1);
  }
  /// Where it begins from; the text's own counts soon outweigh it.
  static Counts beginning() {
    constexpr double kFirst[2][kRounds] = {{.25, .37, .50, .65}, {.60, .87, .95, .97}};
    constexpr double kOthers[kRanks] = {0, .20, .15, .10};
    constexpr double kTrials = 12;
    Counts counts{};
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::size_t rank = i % kRanks, kind = i / kRanks;
      const double share = rank == 0 ? kFirst[kind / kRounds][kind % kRounds] : kOthers[rank];
      counts[i] = {share * kTrials, kTrials};
    }
    return counts;
  }

  Counts counts_ = beginning();
};

struct JacobiState : DraftState {
  std::vector<TokenId> text;
  std::vector<Guesses> ahead;                     // for the places after the text
  std::unordered_map<TokenId, TokenId> follower;  // what came last after a token
  Odds odds;
};

/// Jacobi decoding (arXiv:2305.10427; for sampled images arXiv:2410.01699): the draft of the places
/// ahead is what the last check drew there, partly after tokens that turned out wrong. Since the
/// noise of a draw belongs to its place, the iteration settles on the text that plain decoding
/// draws, at every temperature. Draws beyond a wrong token are kept for the next draft.
///
/// The chain of first guesses is checked whole, whatever its chance, since what is drawn along it
/// is the next draft. Beside it stand other guesses for the first places, and the guesses below the
/// nodes of other drafters, where they are likely enough.
class JacobiDrafter : public Drafter {
 public:
  explicit JacobiDrafter(const JacobiOptions& options) : options_(options) {}

  DrafterTraits traits() const override { return {.extends_trees = true, .sees_draws = true}; }
  std::unique_ptr<DraftState> start() override { return std::make_unique<JacobiState>(); }

  void saw(DraftState& draft_state, const DraftTree& tree, const TokenAfter& drawn) override {
    auto& state = static_cast<JacobiState&>(draft_state);
    std::vector<Guesses> fresh;
    NodeId node = 0;
    for (NodeId right = 0; right >= 0;) {
      node = right;
      const TokenId token = drawn(node);
      learn(state, fresh.size(), tree[node].token, token);
      fresh.push_back({{token, tree[node].token, 1}});
      right = tree.child(node, token);
    }
    const std::size_t of_text = fresh.size();
    draw_ahead(state, tree, node, drawn, fresh);
    for (std::size_t level = of_text; level < state.ahead.size(); ++level) {
      if (level == fresh.size()) {
        fresh.push_back(std::move(state.ahead[level]));  // not checked
      } else {
        take_over(state.ahead[level], fresh[level]);
      }
    }
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
    const auto passed = std::min(state.ahead.size(), committed.tokens.size());
    state.ahead.erase(state.ahead.begin(),
                      state.ahead.begin() + static_cast<std::ptrdiff_t>(passed));
  }

  void propose(std::span<DraftJob> jobs) override {
    for (DraftJob& job : jobs) grow(static_cast<JacobiState&>(*job.state), job);
  }

 private:
  static constexpr std::size_t kMostGuesses = 8;  // for a place
  static constexpr double kLeastChance = 0.01;    // of nodes beside the chain

  /// A guess that is no node yet.
  struct Branch {
    NodeId parent;
    TokenId token;
    double log_p;

    bool operator<(const Branch& other) const {
      if (log_p != other.log_p) return log_p < other.log_p;
      return parent != other.parent ? parent > other.parent : token > other.token;
    }
  };

  /// The node of the first guess below `node`, or -1.
  static NodeId first_below(const JacobiState& state, const DraftTree& tree, NodeId node) {
    const auto place = static_cast<std::size_t>(tree.depth(node));
    if (place >= state.ahead.size()) return -1;
    return tree.child(node, guesses_after(state.ahead[place], tree[node].token, 1).front().token);
  }

  /// What the check drew beyond the text, whose last token was drawn after `node`: along what it
  /// drew itself where that was drafted, else along the first guesses, or their chain from the
  /// root.
  void draw_ahead(const JacobiState& state, const DraftTree& tree, NodeId node,
                  const TokenAfter& drawn, std::vector<Guesses>& fresh) const {
    std::vector<NodeId> chain = {0};
    while (chain.back() >= 0) chain.push_back(first_below(state, tree, chain.back()));
    const auto below = [&](NodeId parent) {
      const NodeId child = first_below(state, tree, parent);
      const auto level = static_cast<std::size_t>(tree.depth(parent)) + 1;
      return child >= 0 || level >= chain.size() ? child : chain[level];
    };
    const std::size_t wide = fresh.size() + depth();
    for (node = below(node); node >= 0;) {
      const TokenId token = drawn(node);
      fresh.push_back({{token, tree[node].token, 1}});
      if (fresh.size() <= wide) add_others(tree[node].token, node, drawn, fresh.back());
      const NodeId right = tree.child(node, token);
      node = right >= 0 ? right : below(node);
    }
  }

  /// What comes next in the race after `node` (the proactive drafts of SJD-PAC).
  void add_others(TokenId last, NodeId node, const TokenAfter& drawn, Guesses& guesses) const {
    std::vector<TokenId> tokens = {guesses.front().token};
    while (tokens.size() < static_cast<std::size_t>(options_.width)) {
      const TokenId token = drawn.without(node, tokens);
      if (token < 0) return;
      tokens.push_back(token);
      guesses.push_back({token, last, 0});
    }
  }

  /// Keeps the guesses of the last draft behind those that a check drew since.
  static void take_over(const Guesses& before, Guesses& fresh) {
    for (const Guess& old : before) {
      const auto same = std::find_if(fresh.begin(), fresh.end(),
                                     [&](const Guess& guess) { return guess.token == old.token; });
      if (same == fresh.end()) {
        if (fresh.size() < kMostGuesses) fresh.push_back({old.token, old.after, 0});
      } else if (same->rounds > 0) {
        same->rounds = std::max(same->rounds, old.rounds + 1);
      }
    }
  }

  /// `text` is what stands at the place, after `last`.
  static void learn(JacobiState& state, std::size_t place, TokenId last, TokenId text) {
    if (place >= state.ahead.size()) return;
    const Guesses tried = guesses_after(state.ahead[place], last, kMostGuesses);
    for (std::size_t rank = 0; rank < tried.size(); ++rank) {
      const bool is_right = tried[rank].token == text;
      state.odds.learn(tried[rank], last, rank, is_right);
      if (is_right) return;
    }
  }

  /// The chain, then the likeliest guess first.
  void grow(JacobiState& state, const DraftJob& job) const {
    DraftTree& tree = *job.tree;
    const std::vector<float> given = tree.log_ps();  // a guess may raise what it proposes again
    const auto log_p_of = [&](NodeId node) {
      return node < static_cast<NodeId>(given.size()) ? given[static_cast<std::size_t>(node)]
                                                      : tree[node].log_p;
    };
    const int levels = std::min(options_.window, job.plan.levels);
    const auto has_room = [&] { return tree.draft_nodes() < job.plan.nodes; };
    const auto add = [&](const Branch& branch) {
      return tree.add(branch.parent, branch.token, static_cast<float>(branch.log_p), job.source);
    };
    for (NodeId node = 0; tree.depth(node) < levels && has_room();)
      node = add(branches_below(state, tree, node, log_p_of(node)).front());

    std::vector<Branch> open;  // a heap
    const auto open_below = [&](NodeId node) {
      if (tree[node].kind != NodeKind::candidate || tree.depth(node) >= levels) return;
      for (const Branch& branch : branches_below(state, tree, node, log_p_of(node))) {
        if (branch.log_p < std::log(kLeastChance)) continue;
        open.push_back(branch);
        std::push_heap(open.begin(), open.end());
      }
    };
    for (NodeId node = 0; node < tree.size(); ++node) open_below(node);
    while (!open.empty() && has_room()) {
      std::pop_heap(open.begin(), open.end());
      const Branch likeliest = open.back();
      open.pop_back();
      const NodeId next = tree.size();
      if (add(likeliest) == next) open_below(next);
    }
  }

  /// The guesses for the place below `node`, at least one. log_p: of the node as it was given
  /// (DrafterTraits::extends_trees).
  std::vector<Branch> branches_below(JacobiState& state, const DraftTree& tree, NodeId node,
                                     float log_p) const {
    const auto place = static_cast<std::size_t>(tree.depth(node));
    while (state.ahead.size() <= place) state.ahead.push_back({first_guess(state)});
    const std::size_t most = place < depth() ? static_cast<std::size_t>(options_.width) : 1;
    const TokenId last = tree[node].token;
    double left = 1;
    std::vector<Branch> branches;
    for (const Guess& guess : guesses_after(state.ahead[place], last, most)) {
      const double share = left * state.odds.chance(guess, last, branches.size());
      branches.push_back({node, guess.token, static_cast<double>(log_p) + std::log(share)});
      left -= share;
    }
    return branches;
  }

  /// For the place after all of `ahead`, where nothing was drawn: the token a row of the grid
  /// before, or, in the first row, what came last after the token before it.
  Guess first_guess(const JacobiState& state) const {
    const auto token_at = [&](std::size_t place) {
      return place < state.text.size() ? state.text[place]
                                       : state.ahead[place - state.text.size()].front().token;
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
  int width = options.whole("width");
  if (width == 0) width = context.target && context.target->config.image ? 3 : 1;
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
               {"width", WholeNumber{0, 8}, "0",
                "guesses for each of the first places: what was drawn there and what would have "
                "been in its place; 1: the former alone; 0: 3 of a picture, else 1"},
               {"depth", WholeNumber{1, 8}, "3", "those first places, of a width of 2 or more"},
               {"row", WholeNumber{0, 4096}, "0",
                "tokens of a row of a picture: new places begin as the row above; 0: the model's, "
                "of a text as the token went on before"}},
          .make = make_jacobi};
}

}  // namespace talon
