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
  int row;
  TokenId answers;  // tokens below are drawn, those from it on are prompts' alone
};

/// A token for a place ahead of the text.
struct Guess {
  TokenId token = 0;
  int rounds = 0;  // checks in a row that drew the same there; 0: none drew it
};

/// How often guesses come true that so many checks in a row agreed on, each if those before it did.
class Odds {
 public:
  double chance(const Guess& guess) const {
    const Count& count = counts_[place(guess)];
    return count.right / count.tried;
  }
  void learn(const Guess& guess, bool is_right) {
    Count& count = counts_[place(guess)];
    count.right = kMemory * count.right + (is_right ? 1 : 0);
    count.tried = kMemory * count.tried + 1;
  }

 private:
  static constexpr double kMemory = 0.98;
  struct Count {
    double right, tried;
  };
  static std::size_t place(const Guess& guess) {
    return static_cast<std::size_t>(std::min(guess.rounds, 3));
  }
  std::array<Count, 4> counts_ = {{{1, 8}, {2, 5}, {4, 6}, {6, 8}}};  // where it begins from
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
/// draws, at every temperature. Draws beyond a wrong token are kept for the next draft.
class JacobiDrafter : public Drafter {
 public:
  explicit JacobiDrafter(const JacobiOptions& options) : options_(options) {}

  DrafterTraits traits() const override { return {.sees_draws = true}; }
  std::unique_ptr<DraftState> start() override { return std::make_unique<JacobiState>(); }

  void saw(DraftState& draft_state, const DraftTree& tree, const TokenAfter& drawn) override {
    auto& state = static_cast<JacobiState&>(draft_state);
    const std::vector<Guess> before = std::move(state.proposed);
    state.proposed.clear();
    std::vector<Guess> fresh;
    NodeId node = 0;
    for (std::size_t level = 0; node >= 0; ++level) {
      const TokenId token = drawn(node);
      const bool known = level < before.size();
      const bool agrees = known && before[level].token == token;
      fresh.push_back({token, agrees ? before[level].rounds + 1 : 1});
      node = known ? tree.child(node, before[level].token) : -1;
    }
    learn(state.odds, before, fresh);
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
  /// What the text itself says of the last draft: all guesses up to the first that is wrong.
  static void learn(Odds& odds, const std::vector<Guess>& before, const std::vector<Guess>& fresh) {
    for (std::size_t i = 0; i < std::min(before.size(), fresh.size()); ++i) {
      const bool is_right = before[i].token == fresh[i].token;
      odds.learn(before[i], is_right);
      if (!is_right) return;
    }
  }

  void grow(JacobiState& state, const DraftJob& job) const {
    const int window = std::min({options_.window, job.plan.nodes, job.plan.levels});
    NodeId node = 0;
    double log_p = 0;
    state.proposed.clear();
    for (int level = 0; level < window; ++level) {
      if (static_cast<int>(state.ahead.size()) == level) state.ahead.push_back(first_guess(state));
      const Guess& guess = state.ahead[static_cast<std::size_t>(level)];
      log_p += std::log(state.odds.chance(guess));
      node = job.tree->add(node, guess.token, static_cast<float>(log_p), job.source);
      state.proposed.push_back(guess);
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

  JacobiOptions options_;
};

std::unique_ptr<Drafter> make_jacobi(Options& options, const DrafterContext& context) {
  int row = options.whole("row");
  if (row == 0 && context.target && context.target->config.image)
    row = context.target->config.image->row_tokens();
  const TokenId answers = context.target ? context.target->config.vocabulary : INT_MAX;
  return std::make_unique<JacobiDrafter>(JacobiOptions{options.whole("window"), row, answers});
}

}  // namespace

DrafterEntry jacobi_drafter() {
  return {.name = "jacobi",
          .summary =
              "what the last check drew at the places ahead (Jacobi decoding, "
              "arXiv:2305.10427, 2410.01699; exact at every temperature)",
          .options =
              {{"window", WholeNumber{1, 256}, "32", "places ahead"},
               {"row", WholeNumber{0, 4096}, "0",
                "tokens of a row of a picture: new places begin as the row above; 0: the model's, "
                "of a text as the token went on before"}},
          .make = make_jacobi};
}

}  // namespace talon
