#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/types.h"
#include "sample/sampler.h"
#include "sample/token_constraint.h"

namespace talon {

/// The number of a method in its engine: the least that none has when it is added, from 0 on.
using MethodId = int;

/// What an answer is a function of, and what it may take.
struct Request {
  std::vector<TokenId> prompt;  // at least one token
  /// Of models that draw pictures: how far the answer goes from what the model draws after
  /// `guide_prompt` to what it draws after `prompt` (arXiv:2207.12598). At most 1: no guide is run.
  float guidance = 1;
  /// So many tokens of the answer are guided, from the first on; 0: all. Of LlamaGen's cfg_interval
  /// k, from 0 on, they are k + 2.
  int guidance_tokens = 0;
  std::vector<TokenId> guide_prompt;  // as long as the prompt, or shorter where prompts are texts
  /// Pictures: what the prompt's rows are instead of the embeddings of its tokens, [prompt,
  /// hidden]; null: nothing. Such a prompt shares no rows with others.
  std::shared_ptr<const std::vector<float>> prompt_vectors;
  /// What the answer may be like: drafts follow it where the text does, tokens do not depend on it.
  /// Shared by the choices of a prompt; null: nothing.
  std::shared_ptr<const std::vector<TokenId>> expected;
  MethodId method = 0;
  int max_new = 128;  // at least one; the answer also ends where the model's context does
  /// Before the answer has so many tokens, end tokens are not drawn and stop texts not looked for.
  int min_new = 0;
  SamplerOptions sampler;
  /// What the answer must look like; null: anything. Shared by the choices of a prompt. The answer
  /// ends where nothing may follow.
  std::shared_ptr<const ConstraintSource> constraint;
  std::uint64_t seed = 1;
  std::uint32_t choice = 0;         // which of several answers to one prompt
  std::vector<TokenId> end_tokens;  // each ends the answer and is its last token
  /// Need EngineOptions::tokenizer. The token that completes one is the last.
  std::vector<std::string> stop_texts;
  /// Whether rows of earlier requests may stand for the beginning of the prompt, and its own for
  /// that of later ones. The cache gives as much as the drafter remembers (Drafter::remembers).
  bool reuse_prefix = true;
  /// Whose text it is: those of different tenants share no rows of the cache, so that none can tell
  /// by the time of an answer what another asked.
  std::uint64_t tenant = 0;
  /// Of requests that wait, those with a lower number are admitted first.
  int priority = 0;
  /// For each token of the answer its log-probability, and those of so many most likely tokens;
  /// negative: none.
  int logprobs = -1;
  /// Whether the text of special tokens is part of the answer's; that of end tokens never is.
  bool shows_special = false;
  /// Looked at between steps; the answer ends as `deadline`, also where it has not begun.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();

  /// Rows that each of its tokens takes in a forward, and in the cache, while tokens are guided.
  int streams() const { return guidance > 1 ? 2 : 1; }
  /// Behind so many tokens, prompt and answer, the next one is not guided.
  int guided_until() const {
    return guidance_tokens > 0 ? static_cast<int>(prompt.size()) + guidance_tokens : INT32_MAX;
  }
};

/// Why a request was not taken. Ordinary, not an error of the program.
struct Refusal {
  /// queue_full: later it may be taken.
  enum class Reason { bad_request, too_long, no_room, queue_full } reason;
  std::string message;
};

}  // namespace talon
