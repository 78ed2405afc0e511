#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "draft/drafter.h"
#include "draft/head/pair_runner.h"
#include "model/cache/kv_cache.h"

namespace talon {

/// What a head remembers of one sequence: the pairs (target feature of position i, token i + 1),
/// first those that wait to be run, then as keys and values in its cache.
struct HeadState : DraftState {
  HeadState(KvSequence pairs, const PairRunner& network);

  KvSequence cache;              // of the pairs that were run; position i of the cache is pair i
  std::vector<TokenId> waiting;  // tokens of the pairs to run next
  Buffer features;               // and their features, [most waiting, taps * hidden]
  Buffer output;  // [1, H]: what the head predicted from the newest pair that was run
  // Of `waiting` the first `given`: what is read instead of the embeddings of their tokens.
  Buffer vectors;
  int given = 0;
  int picture_prompt = -1;  // pairs that turn alike (SequenceRows); negative: of a text
  int observed = 0;         // tokens
  bool evicted = false;     // the cache was full: not drafted for until there is room again

  void forget_waiting() {
    waiting.clear();
    given = 0;
  }
  /// Tokens that are run with the newest, before a tree can grow.
  int waiting_before_newest() const { return std::max(0, static_cast<int>(waiting.size()) - 1); }
  /// Pairs that wait or are in the cache.
  int remembered() const { return cache.length() + static_cast<int>(waiting.size()); }
  /// All others.
  int missing() const { return observed - 1 - remembered(); }
};

/// Runs committed pairs through a head. Pairs wait until a tree is wanted or many have come
/// together, so that a sequence for which nothing is drafted costs almost nothing and a prompt is
/// run in batches. When the cache is full a state gives up its pairs; when there is room again it
/// begins with the newest: what the head then lacks of the text costs acceptance, never tokens.
/// While hardly any drafts are wanted, as in a crowd that fills the machine, the head sleeps: it
/// runs no pairs but those of the few that want drafts, keeps the newest that wait, and holds no
/// sequence back from a prefix that the target remembers.
class HeadMemory {
 public:
  /// first_prompt_token: from which on tokens are those of a picture's prompt, whose pairs turn
  /// alike (SequenceRows).
  HeadMemory(PairRunner& network, KvCache& cache, TokenId first_prompt_token = INT32_MAX);

  std::unique_ptr<HeadState> start(const TextOwner& owner = {});
  /// First tokens of a text whose pairs are all in pages that earlier sequences of its owner left;
  /// all while it sleeps.
  int remembers(std::span<const TokenId> text, const TextOwner& owner);
  /// A state that has observed `known`, the first tokens of a text: none, or some that remembers()
  /// counted.
  std::unique_ptr<HeadState> resume(std::span<const TokenId> known, const TextOwner& owner);
  void observe(HeadState& state, const CommittedTokens& committed);
  /// Drafts of so many states are wanted in a round.
  void want(std::size_t states);
  /// The text of `state` has ended, and a later one may begin with it.
  void finish(HeadState& state);
  /// Runs the waiting pairs of `states`, batched.
  void extend(std::span<HeadState* const> states);
  /// Gives the room of its pairs to others, as extend() does for want of room.
  void give_up(HeadState& state);
  /// Pairs that were given up or not taken, as the cache was full.
  long lost_rows() const { return lost_rows_; }

 private:
  /// No other text has it, as no token is below -1: for pairs that their tokens do not tell, or
  /// that are not for others.
  TextRoot own_root() { return {.before = -2 - own_roots_++}; }
  void begin_again(HeadState& state);
  void begin_text(HeadState& state, CommittedTokens& pairs);
  int take_pairs(HeadState& state, const CommittedTokens& pairs, int done);
  void extend_alone(HeadState& state);
  void extend_batch(std::span<HeadState* const> states);
  View gather_features(std::span<HeadState* const> states, int rows);
  void commit(HeadState& state);
  void count_prompt(HeadState& state, std::span<const TokenId> tokens) const;
  void take_vectors(HeadState& state, std::span<const float> vectors, int tokens);

  Backend& backend_;
  PairRunner& network_;
  KvCache& cache_;
  TokenId first_prompt_token_;
  int most_waiting_;
  int own_roots_ = 0;  // given so far
  long lost_rows_ = 0;
  bool is_asleep_ = false;
  int unwanted_ = 0;  // rounds of sequences, less what those who wanted drafts count for
  Buffer features_;   // [rows of a pass, taps * hidden]
  Buffer outputs_;    // [rows of a pass, H]
};

}  // namespace talon
