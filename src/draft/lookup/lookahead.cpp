#include "draft/lookup/lookahead.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "draft/coupling/coupling.h"
#include "draft/drafters.h"
#include "draft/lookup/jacobi_window.h"
#include "model/model.h"

namespace talon {
namespace {

/// A share that is learned, with a memory of about fifty trials.
struct Share {
  double right, tried;
  double value() const { return right / tried; }
  void learn(double found) {
    constexpr double kMemory = 0.98;
    right = kMemory * right + found;
    tried = kMemory * tried + 1;
  }
};

struct LookaheadState : DraftState {
  LookaheadState(const LookaheadOptions& options)
      : pool(options.ngram, options.guesses), window(options.window, options.ngram) {}

  std::vector<TokenId> text;
  NgramPool pool;
  JacobiWindow window;
  TokenId root = 0;                        // of the last draft
  bool has_window = false;                 // it had the window
  std::vector<NgramPool::Entry> proposed;  // guesses of the last draft, newest first
  // That the first token of a guess is right, by how new it is, and that a later one is.
  std::array<Share, 4> first = {{{1, 4}, {1, 6}, {1, 8}, {1, 12}}};
  Share later = {2, 4};
  Share gain = {1, 2};  // tokens accepted of guesses, per draft
};

/// Lookahead (arXiv:2402.02057): a Jacobi window whose columns become n-grams, and those of the
/// newest token as guesses, all in one check. What a window draws belongs to the noise of its
/// places, so at a temperature n-grams are what would be drawn there.
class LookaheadDrafter : public Drafter {
 public:
  explicit LookaheadDrafter(const LookaheadOptions& options) : options_(options) {}

  DrafterTraits traits() const override { return {.sees_draws = true}; }
  std::unique_ptr<DraftState> start() override {
    return std::make_unique<LookaheadState>(options_);
  }

  void saw(DraftState& any_state, const DraftTree& tree, const TokenAfter& drawn) override {
    auto& state = static_cast<LookaheadState&>(any_state);
    if (!state.has_window) return;
    if (auto last = state.window.drawn_in(tree, drawn)) {
      state.window.advance(state.root, std::move(*last), state.pool);
    }
  }

  void observe(DraftState& any_state, const CommittedTokens& committed) override {
    auto& state = static_cast<LookaheadState&>(any_state);
    expects(static_cast<int>(state.text.size()) == committed.first_position,
            "tokens are observed in order");
    learn(state, committed.tokens);
    const auto overlap = std::min(state.text.size(), static_cast<std::size_t>(options_.ngram - 1));
    state.text.insert(state.text.end(), committed.tokens.begin(), committed.tokens.end());
    if (options_.official && committed.first_position > 0) {
      std::ranges::fill(std::span(state.text).last(committed.tokens.size()), state.text.back());
    }
    if (options_.from_text) {
      state.pool.add_all(std::span(state.text).last(committed.tokens.size() + overlap));
    }
  }

  void propose(std::span<DraftJob> jobs) override {
    for (DraftJob& job : jobs) grow(static_cast<LookaheadState&>(*job.state), job);
  }

 private:
  static void learn(LookaheadState& state, std::span<const TokenId> news) {
    std::size_t accepted = 0;
    for (std::size_t i = 0; i < state.proposed.size(); ++i) {
      const auto& guess = state.proposed[i];
      std::size_t right = 0;
      while (right < std::min(guess.size(), news.size()) && guess[right] == news[right]) ++right;
      state.first[std::min<std::size_t>(i, 3)].learn(right > 0 ? 1 : 0);
      for (std::size_t k = 1; k <= right && k < std::min(guess.size(), news.size()); ++k) {
        state.later.learn(k < right ? 1 : 0);
      }
      accepted = std::max(accepted, right);
    }
    if (state.has_window || !state.proposed.empty()) {
      state.gain.learn(static_cast<double>(accepted));
    }
    state.proposed.clear();
    state.has_window = false;
  }

  void grow(LookaheadState& state, const DraftJob& job) const {
    if (job.plan.nodes < 1 || job.plan.levels < 1) return;
    DraftTree& tree = *job.tree;
    state.root = tree[0].token;
    state.proposed.clear();
    if (drafts_guesses(state)) add_guesses(state, job);
    if (state.window.is_empty()) state.window.begin(first_window(state, job));
    const bool fits = tree.draft_nodes() + state.window.nodes() <= job.plan.nodes &&
                      state.window.depth() <= job.plan.levels;
    state.has_window = fits;
    if (!fits) return;
    const double worth = std::max(0.02, state.gain.value()) / state.window.nodes();
    state.window.add_to(tree, static_cast<float>(std::log(worth)), job.source);
  }

  bool drafts_guesses(const LookaheadState& state) const {
    if (options_.official) return state.window.is_full() && options_.guesses > 0;
    return state.window.is_full() || options_.from_text;
  }

  void add_guesses(LookaheadState& state, const DraftJob& job) const {
    const auto entries = state.pool.after(state.root);
    const int length = options_.ngram - (options_.official ? 2 : 1);
    const auto most = static_cast<std::size_t>(std::min(length, job.plan.levels));
    const DraftPlace first = first_place(job, {.on = false});
    const auto is_banned = [&](const NgramPool::Entry& entry, std::size_t k) {
      return first.after(static_cast<int>(k)).bans(entry[k]);
    };
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const NgramPool::Entry& entry = entries[entries.size() - 1 - i];
      if (is_banned(entry, 0)) continue;
      if (job.tree->draft_nodes() + static_cast<int>(most) > job.plan.nodes) return;
      NodeId node = 0;
      const std::size_t rank = std::min<std::size_t>(state.proposed.size(), 3);
      double log_p = std::log(state.first[rank].value());
      for (std::size_t k = 0; k < std::min(most, entry.size()) && !is_banned(entry, k); ++k) {
        node = job.tree->add(node, entry[k], static_cast<float>(log_p), job.source);
        log_p += std::log(state.later.value());
      }
      state.proposed.push_back(entry);
    }
  }

  /// Tokens of the text, spread over it; the newest in place of those that only prompts have and of
  /// those that the request bans where they would stand: no n-gram that begins so is ever found.
  std::vector<TokenId> first_window(const LookaheadState& state, const DraftJob& job) const {
    if (!options_.first_window.empty()) return options_.first_window;
    const DraftPlace below_root = first_place(job, {.on = false});
    std::vector<TokenId> first;
    for (int i = 0; i < state.window.first_tokens(); ++i) {
      const std::size_t place = static_cast<std::size_t>(i) * 7919 % state.text.size();
      const TokenId token = state.text[place];
      const bool can_come = token < options_.vocabulary && !below_root.after(i).bans(token);
      first.push_back(can_come ? token : state.text.back());
    }
    return first;
  }

  LookaheadOptions options_;
};

std::unique_ptr<Drafter> make_lookahead(Options& options, const DrafterContext& context) {
  LookaheadOptions lookahead;
  if (context.target) lookahead.vocabulary = context.target->config.vocabulary;
  lookahead.window = options.whole("window");
  lookahead.ngram = options.whole("ngram");
  lookahead.guesses = options.whole("guesses");
  lookahead.from_text = options.text("text") == "on";
  const int needed = JacobiWindow::most_nodes(lookahead.window, lookahead.ngram);
  if (context.max_nodes > 0 && needed > context.max_nodes) {
    throw UsageError(fmt::format(
        "{}: option window: expected a window of at most the {} draft nodes of a tree (max_nodes), "
        "found one of {}, as window={} and ngram={} make it",
        options.name(), context.max_nodes, needed, lookahead.window, lookahead.ngram));
  }
  return make_lookahead_drafter(lookahead);
}

}  // namespace

std::unique_ptr<Drafter> make_lookahead_drafter(const LookaheadOptions& options) {
  expects(options.ngram >= 3 && options.window >= 2, "n-grams of at least three tokens");
  return std::make_unique<LookaheadDrafter>(options);
}

DrafterEntry lookahead_drafter() {
  return {.name = "lookahead",
          .summary =
              "n-grams that a Jacobi window finds ahead of the text (lookahead decoding, "
              "arXiv:2402.02057; exact at every temperature)",
          .options = {{"window", WholeNumber{2, 32}, "7",
                       "columns of the window: its window * (ngram - 1) - 1 nodes go in where a "
                       "round's tree has room for all of them, and it is refused where none can "
                       "have (--max-nodes)"},
                      {"ngram", WholeNumber{3, 16}, "5", "tokens of an n-gram"},
                      {"guesses", WholeNumber{1, 64}, "7",
                       "n-grams kept of each first token, and drafted"},
                      {"text", OneOf{{"on", "off"}}, "on", "n-grams of the text itself are kept"}},
          .make = make_lookahead};
}

}  // namespace talon
