#include "draft/head/head_memory.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "model/row_layout.h"

namespace talon {
namespace {

constexpr int kPagesToBeginAgain = 4;
// Pairs of a prompt that comes some at a time beside answers are run when so many wait: in one pass
// all of them would make a step long.
constexpr int kPairsOfAPass = 32;
constexpr int kPairsOfAPrompt = 8;  // at least: fewer are an answer's
// Drafts pay for what all others have run of their texts where at least one in so many rounds of
// sequences wants one; so many rounds more or less than that make it sleep or wake.
constexpr int kRoundsOfAWish = 32;
constexpr int kRoundsToChange = 192;

int waiting_rows(const HeadState& state) { return static_cast<int>(state.waiting.size()); }

/// Pair i depends on all tokens up to i + 1: the token i + 1 names it to the cache, and the first
/// token, which is in no pair, stands before all of them.
TextRoot root_of(const TextOwner& owner, TokenId first_token) {
  return {.tenant = owner.tenant, .before = first_token};
}

}  // namespace

HeadState::HeadState(KvSequence pairs, const PairRunner& network)
    : cache(std::move(pairs)),
      features(network.backend().allocate(network.max_rows(), network.feature_width())),
      output(network.backend().allocate(1, network.hidden())) {}

HeadMemory::HeadMemory(PairRunner& network, KvCache& cache, TokenId first_prompt_token)
    : backend_(network.backend()),
      network_(network),
      cache_(cache),
      first_prompt_token_(first_prompt_token),
      most_waiting_(network.max_rows()),
      features_(backend_.allocate(network.max_rows(), network.feature_width())),
      outputs_(backend_.allocate(network.max_rows(), network.hidden())) {}

std::unique_ptr<HeadState> HeadMemory::start(const TextOwner& owner) {
  auto state = std::make_unique<HeadState>(cache_.start({}, /*reuse=*/false), network_);
  state->owner = owner;
  return state;
}

int HeadMemory::remembers(std::span<const TokenId> text, const TextOwner& owner) {
  if (is_asleep_) return static_cast<int>(text.size());
  if (text.size() < 2) return 0;
  const KvSequence pairs = cache_.start(text.subspan(1), owner.reuses, root_of(owner, text[0]));
  return pairs.length() == 0 ? 0 : pairs.length() + 1;
}

void HeadMemory::want(std::size_t states) {
  unwanted_ = std::max(0, unwanted_ - kRoundsOfAWish * static_cast<int>(states));
  if (unwanted_ == 0) is_asleep_ = false;
}

std::unique_ptr<HeadState> HeadMemory::resume(std::span<const TokenId> known,
                                              const TextOwner& owner) {
  if (known.empty()) return start(owner);
  // The cache never gives the last pair that it is asked for: one more than is known.
  std::vector<TokenId> names(known.begin() + 1, known.end());
  names.push_back(0);
  const TextRoot root = owner.reuses ? root_of(owner, known[0]) : own_root();
  auto state = std::make_unique<HeadState>(cache_.start(names, owner.reuses, root), network_);
  state->owner = owner;
  state->observed = static_cast<int>(known.size());
  count_prompt(*state, known);
  if (state->cache.length() + 1 >= state->observed) return state;
  is_asleep_ ? begin_again(*state) : give_up(*state);  // no room for a part of a page
  return state;
}

void HeadMemory::observe(HeadState& state, const CommittedTokens& committed) {
  expects(state.observed == 0 || state.observed == committed.first_position,
          "tokens are observed in order");
  state.observed = committed.first_position + static_cast<int>(committed.tokens.size());
  unwanted_ = std::min(unwanted_ + 1, kRoundsToChange);
  if (unwanted_ == kRoundsToChange) is_asleep_ = true;
  count_prompt(state, committed.tokens);
  CommittedTokens pairs = committed;
  if (!committed.first_has_row) begin_text(state, pairs);
  const auto count = static_cast<int>(pairs.tokens.size());
  expects(pairs.features.rows == count, "a feature for each pair");
  if (state.evicted && cache_.free_pages() >= kPagesToBeginAgain) begin_again(state);
  int done = 0;
  while (done < count && !state.evicted) {
    if (waiting_rows(state) == most_waiting_) {
      is_asleep_ ? begin_again(state) : extend_alone(state);
    } else {
      done += take_pairs(state, pairs, done);
    }
  }
  lost_rows_ += count - done;
  const bool reads_prompt = done >= kPairsOfAPrompt;
  if (!is_asleep_ && reads_prompt && waiting_rows(state) >= kPairsOfAPass) extend_alone(state);
}

/// Takes the first token of the text, which is in no pair, from `pairs`.
void HeadMemory::begin_text(HeadState& state, CommittedTokens& pairs) {
  const bool is_shared = pairs.vectors.empty() && state.owner.reuses;
  const TextRoot root = is_shared ? root_of(state.owner, pairs.tokens.front()) : own_root();
  state.cache = cache_.start({}, /*reuse=*/false, root);
  pairs.tokens = pairs.tokens.subspan(1);
  const auto width = static_cast<std::size_t>(network_.hidden());
  pairs.vectors = pairs.vectors.subspan(std::min(pairs.vectors.size(), width));
}

/// Lets pairs from `done` on wait, as many as there is room for, and returns how many.
int HeadMemory::take_pairs(HeadState& state, const CommittedTokens& pairs, int done) {
  const auto first = static_cast<std::size_t>(done);
  const int rows =
      std::min(static_cast<int>(pairs.tokens.size()) - done, most_waiting_ - waiting_rows(state));
  backend_.copy(pairs.features.row_range(done, rows),
                state.features.view().row_range(waiting_rows(state), rows));
  const std::size_t taken = first * static_cast<std::size_t>(network_.hidden());
  if (taken < pairs.vectors.size()) take_vectors(state, pairs.vectors.subspan(taken), rows);
  const auto tokens = pairs.tokens.subspan(first, static_cast<std::size_t>(rows));
  state.waiting.insert(state.waiting.end(), tokens.begin(), tokens.end());
  return rows;
}

/// Those of the prompt come first, and the first of all is in no pair.
void HeadMemory::count_prompt(HeadState& state, std::span<const TokenId> tokens) const {
  if (first_prompt_token_ == INT32_MAX) return;
  const bool begins = state.picture_prompt < 0;
  const auto count = std::ranges::count_if(
      tokens, [&](const TokenId token) { return token >= first_prompt_token_; });
  state.picture_prompt += static_cast<int>(count);
  if (begins) state.picture_prompt = std::max(0, state.picture_prompt);
}

/// Of the next `tokens` that will wait, as many as there are.
void HeadMemory::take_vectors(HeadState& state, std::span<const float> vectors, int tokens) {
  const int width = network_.hidden();
  const int count = std::min(tokens, static_cast<int>(vectors.size()) / width);
  if (!state.vectors) state.vectors = backend_.allocate(most_waiting_, width);
  backend_.upload(vectors.first(static_cast<std::size_t>(count) * static_cast<std::size_t>(width)),
                  state.vectors.view().row_range(waiting_rows(state), count));
  state.given = waiting_rows(state) + count;
}

void HeadMemory::finish(HeadState& state) {
  if (!is_asleep_) extend_alone(state);
}

void HeadMemory::extend_alone(HeadState& state) {
  HeadState* const only = &state;
  extend(std::span(&only, 1));
}

void HeadMemory::extend(std::span<HeadState* const> states) {
  std::vector<HeadState*> batch;
  int rows = 0;
  const auto flush = [&] {
    if (!batch.empty()) extend_batch(batch);
    batch.clear();
    rows = 0;
  };
  for (HeadState* state : states) {
    if (state->evicted || state->waiting.empty()) continue;
    if (!state->cache.reserve(waiting_rows(*state))) {
      give_up(*state);
      continue;
    }
    if (rows + waiting_rows(*state) > network_.max_rows()) flush();
    batch.push_back(state);
    rows += waiting_rows(*state);
  }
  flush();
}

void HeadMemory::give_up(HeadState& state) {
  state.evicted = true;
  lost_rows_ += state.cache.length() + waiting_rows(state);
  state.forget_waiting();
  state.cache.truncate(0);
}

/// The pairs to come are not those of a text that begins with them.
void HeadMemory::begin_again(HeadState& state) {
  state.cache = cache_.start({}, /*reuse=*/false, own_root());
  state.forget_waiting();
  state.evicted = false;
}

void HeadMemory::extend_batch(std::span<HeadState* const> states) {
  std::vector<SequenceRows> batch;
  std::vector<TokenId> tokens;
  std::vector<GivenRows> given;
  for (HeadState* state : states) {
    batch.push_back({.sequence = &state->cache, .tokens = state->waiting, .parents = {}});
    batch.back().picture_prompt = state->picture_prompt;
    if (state->given > 0)
      given.push_back({static_cast<int>(tokens.size()), state->vectors.rows(state->given)});
    tokens.insert(tokens.end(), state->waiting.begin(), state->waiting.end());
  }
  AttentionLayout layout;
  lay_out_rows(batch, layout);
  const int rows = static_cast<int>(tokens.size());
  const View outputs = outputs_.rows(rows);
  network_.forward({.tokens = tokens,
                    .layout = &layout,
                    .cache = &cache_.store(),
                    .features = gather_features(states, rows),
                    .from_target = true,
                    .out = outputs,
                    .given = given});
  int end = 0;
  for (HeadState* state : states) {
    end += waiting_rows(*state);
    backend_.copy(outputs.row_range(end - 1, 1), state->output.view());
    commit(*state);
  }
}

View HeadMemory::gather_features(std::span<HeadState* const> states, int rows) {
  if (states.size() == 1) return states[0]->features.rows(rows);
  int row = 0;
  for (const HeadState* state : states) {
    const int count = waiting_rows(*state);
    backend_.copy(state->features.rows(count), features_.view().row_range(row, count));
    row += count;
  }
  return features_.rows(rows);
}

void HeadMemory::commit(HeadState& state) {
  std::vector<NodeId> all(state.waiting.size());
  std::iota(all.begin(), all.end(), 0);
  state.cache.keep(all, state.waiting);
  state.forget_waiting();
}

}  // namespace talon
