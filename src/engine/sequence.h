#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/philox.h"
#include "draft/drafter.h"
#include "engine/constraint/round_constraint.h"
#include "engine/engine.h"
#include "engine/faults.h"
#include "engine/methods/method_table.h"
#include "model/cache/kv_cache.h"
#include "sample/sampler.h"
#include "text/detokenizer.h"
#include "tree/tree_policy.h"

namespace talon {

/// One request on its way: the prompt, the answer so far, and what drafting it remembers. The last
/// token is the root of the next tree: committed, but not yet in the cache.
struct Sequence {
  using Clock = std::chrono::steady_clock;

  /// vocabulary: tokens of the target. tokenizer: borrowed; null: the answer has no text. Throws
  /// what the request's constraint throws when it starts.
  Sequence(SequenceId its_id, Request its_request, std::shared_ptr<const MethodEntry> its_method,
           int vocabulary, const Tokenizer* tokenizer);

  bool in_prompt() const { return static_cast<int>(tokens.size()) == prompt_length(); }
  bool finished() const { return finish != FinishReason::none; }
  int prompt_length() const { return static_cast<int>(request.prompt.size()); }
  int length() const { return static_cast<int>(tokens.size()); }
  /// Whether the next token is guided (Request); behind one that is not, none is.
  bool is_guided() const { return request.streams() > 1 && length() < request.guided_until(); }
  float guidance() const { return is_guided() ? request.guidance : 1; }
  /// Rows that each token takes in a forward from now on.
  int streams() const { return is_guided() ? 2 : 1; }
  /// Tokens that the cache holds before the next is chosen: the root of a tree is run with it.
  int rows_to_cache() const { return in_prompt() ? length() : length() - 1; }
  /// How many of them it lacks: of a prompt that is being run, or of all the text after the
  /// sequence was set back.
  int rows_behind() const { return rows_to_cache() - cache->length(); }

  /// Reads tokens that are to be appended, up to the first that ends the answer: sets `text` and
  /// `finish` accordingly, and `readable` to how many were read. Makes room for all that the round
  /// adds to. Throws what the tokenizer throws; tokens read before that count.
  void read(std::span<const TokenId> next_tokens);
  /// Appends the tokens that were read: the first `readable` of those that read() was given.
  void append(std::span<const TokenId> next_tokens) noexcept;
  /// Throws what the tokenizer throws.
  void end(FinishReason reason);
  /// Ends the sequence as failed.
  void fail(std::string_view reason) noexcept;
  /// Whether it drafts: until it is dropped to plain decoding.
  bool drafts() const { return draft && policy; }
  /// Goes on by plain decoding, for what was thrown last.
  void drop_to_plain(Faults& faults) noexcept;
  /// Whether the drafts of this round may ask no more of the constraint.
  bool asked_enough() const { return constraint && constraint->is_spent(); }

  /// Forgets the last round's news, and ends the sequence if it is over. Throws as end().
  void begin_round(Clock::time_point now);
  TextOwner owner() const { return {request.tenant, request.reuse_prefix}; }
  /// Whether it was cancelled or its deadline is past.
  bool is_over(Clock::time_point now) const { return cancelled || now >= request.deadline; }
  std::span<const TokenId> answer() const {
    return std::span(tokens).subspan(static_cast<std::size_t>(prompt_length()));
  }
  /// Tokens from `first` on that the rows in the cache have produced.
  CommittedTokens tokens_since(int first) const;
  /// Request::expected behind the prompt's last tokens, so that its beginning is found, too.
  std::vector<TokenId> expected_text() const;
  /// What stands for `rows` tokens from `first` on (Request::prompt_vectors), those behind the
  /// prompt left out.
  std::span<const float> vectors_of(int first, int rows) const;
  /// Tokens that this round brought.
  std::span<const TokenId> new_tokens() const { return std::span(tokens).subspan(new_begin); }

  const SequenceId id;
  const Request request;
  const std::shared_ptr<const MethodEntry> method_owner;  // keeps it in the table of methods
  const MethodEntry& method;
  std::optional<RoundConstraint> constraint;
  Sampler sampler;
  const PositionRandom random;
  std::vector<TokenId> tokens;  // prompt and answer
  int limit = 0;                // most tokens, prompt included; set when admitted
  int computed = 0;             // most rows that were in the cache when it was set back
  FinishReason limit_reason = FinishReason::length;

  std::optional<KvSequence> cache;
  std::unique_ptr<DraftState> draft;
  std::unique_ptr<PolicyState> policy;  // kept while the sequence waits again, unlike `draft`
  int observed = 0;                     // tokens shown to the drafter
  std::optional<int> watched;           // tokens shown to the listener; none: it does not listen
  std::vector<float> feature;  // what the policy wants of the row that produced the last token

  std::optional<Detokenizer> detokenizer;
  StopMatcher stop_matcher;
  SequenceStatistics statistics;

  bool cancelled = false;
  Clock::time_point waits_since = Clock::now();

  // Of the current round.
  std::size_t new_begin = 0;
  int readable = 0;
  int accepted_new = 0;
  std::string text;
  std::vector<TokenLogprobs> logprobs;
  std::string error;
  FinishReason finish = FinishReason::none;

 private:
  FinishReason read_one(TokenId token);
  bool read_text(TokenId token);
  bool is_complete(std::span<const TokenId> next_tokens);
  void flush_text();
};

}  // namespace talon
