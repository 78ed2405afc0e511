#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/philox.h"
#include "draft/drafter.h"
#include "engine/engine.h"
#include "model/kv_cache.h"
#include "text/detokenizer.h"
#include "tree/tree_policy.h"
#include "verify/sampler.h"

namespace talon {

/// One request on its way: the prompt, the answer so far, and what drafting it remembers. The last
/// token is the root of the next tree: committed, but not yet in the cache.
struct Sequence {
  Sequence(SequenceId name, Request asked, int vocabulary, const Tokenizer* tokenizer);

  bool in_prompt() const { return static_cast<int>(tokens.size()) == prompt_length(); }
  bool finished() const { return finish != FinishReason::none; }
  int prompt_length() const { return static_cast<int>(request.prompt.size()); }
  int length() const { return static_cast<int>(tokens.size()); }
  /// Rows of the prompt that are not in the cache yet; 0 once the answer has begun.
  int prompt_rows_left() const { return in_prompt() ? prompt_length() - cache->length() : 0; }

  /// Appends tokens of the answer up to the first that ends it, sets `finish` and `text`
  /// accordingly, and returns how many were appended.
  int append(std::span<const TokenId> next_tokens);
  void end(FinishReason reason);

  /// Forgets the last round's news, and ends the sequence if it was cancelled since.
  void begin_round();
  /// Tokens that this round brought.
  std::span<const TokenId> news() const { return std::span(tokens).subspan(news_begin); }

  const SequenceId id;
  const Request request;
  Sampler sampler;
  const PositionRandom random;
  std::vector<TokenId> tokens;  // prompt and answer
  int limit = 0;                // most tokens, prompt included; set when admitted
  FinishReason limit_reason = FinishReason::length;

  std::optional<KvSequence> cache;
  std::unique_ptr<DraftState> draft;
  std::unique_ptr<TreePolicy> policy;
  int observed = 0;  // tokens shown to the drafter
  std::vector<float> feature;  // what the policy wants of the row that produced the last token

  std::optional<Detokenizer> detokenizer;
  StopMatcher stop_matcher;
  SequenceStatistics statistics;

  bool cancelled = false;

  // Of the current round.
  std::size_t news_begin = 0;
  int accepted_news = 0;
  std::string text;
  std::string error;
  FinishReason finish = FinishReason::none;

 private:
  FinishReason append_one(TokenId token);
  bool append_text(TokenId token);
};

}  // namespace talon
