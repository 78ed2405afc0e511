#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/types.h"
#include "engine/faults.h"
#include "engine/method.h"
#include "engine/round_report.h"
#include "model/cache/kv_cache.h"
#include "model/model.h"
#include "sample/log_probabilities.h"
#include "sample/sampler.h"
#include "text/tokenizer.h"
#include "tree/cost_profile.h"

namespace talon {

/// no_room: the cache cannot hold more of this answer, whatever else runs. failed: something threw
/// that the answer needs, or the model gave no usable numbers.
enum class FinishReason { none, stop_token, stop_text, length, cancelled, no_room, failed };
/// "stop", "stop_text", "length", "cancelled", "no_room", "failed"
std::string_view name_of(FinishReason reason);

/// Of a method of an engine, in the order in which they were added: 0, 1, ...
using MethodId = int;

struct Request {
  std::vector<TokenId> prompt;  // at least one token
  MethodId method = 0;
  int max_new = 128;  // at least one; the answer also ends where the model's context does
  /// Before the answer has so many tokens, end tokens are not drawn and stop texts not looked for.
  int min_new = 0;
  SamplerOptions sampler;
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
};

/// Why a request was not taken. Ordinary, not an error of the program.
struct Refusal {
  /// queue_full: later it may be taken.
  enum class Reason { bad_request, too_long, no_room, queue_full } reason;
  std::string message;
};

/// One round's news of a sequence.
struct Progress {
  SequenceId sequence = 0;
  std::span<const TokenId> tokens;  // new this round; valid until the next step
  int accepted = 0;                 // how many of the first of them had been drafted
  std::string_view text;  // new text when the engine has a tokenizer, held back by stop texts;
                          // valid until the next step
  std::span<const TokenLogprobs> logprobs;  // of the tokens, if the request asked for them
  FinishReason finish = FinishReason::none;
  std::string_view error;  // why, when finish is failed
};

struct SequenceStatistics {
  int prompt_tokens = 0;
  int reused_tokens = 0;      // of the prompt, found in the cache when it was first admitted
  int preemptions = 0;        // how often it gave its room to older ones and waited again
  int recomputed_tokens = 0;  // run again after that
  int answer_tokens = 0;      // the first comes from the prefill: 1 + rounds + the sum of accepted
  int rounds = 0;             // checks after the prefill
  std::vector<int> accepted;  // tokens a round emitted, less one: the draft nodes accepted, unless
                              // the text ended within
  std::vector<int> drafted;   // draft nodes checked per round
  double prefill_ms = 0;      // wall time of the steps that ran its prompt, or its text again
  double decode_ms = 0;       // of the others; of these
  double draft_ms = 0;        // ... in the drafter and the policy
  double check_ms = 0;        // ... in the target
  double distortion = 0;      // summed over rounds (VerifyResult::distortion); 0 for lossless rules
};

/// How much there is to do.
struct EngineLoad {
  int running = 0;
  int waiting = 0;  // for room in the cache
};

struct EngineOptions {
  int chunk = 256;     // most prompt rows of one sequence in one forward
  int max_rows = 512;  // most rows of one forward
  int max_nodes = 64;  // most draft nodes of one tree
  int most_waiting = std::numeric_limits<int>::max();  // requests that have no room yet
  const Tokenizer* tokenizer = nullptr;                // for text and stop texts; borrowed
  RoundObserver observer;                              // may be empty
  Timekeeper timekeeper;                               // likewise: what was measured counts
  /// About how long a step may take that runs prompts while other answers go on: so long do these
  /// wait for their next token. Fewer prompt rows are run then; 0: no limit.
  double step_ms = 0;
  CostProfile costs;  // of checks: where the machine's costs start; may be empty
};

/// Runs many sequences at once through one loop: propose, check, accept, commit (docs/design.md).
/// The answer to a request depends on the request alone: not on the drafter, policy, other
/// sequences, chunk size, cache state or thread count. Each request names its method; the drafts of
/// all share the rows of a check by what they are worth. A sequence that finds no room in the cache
/// waits, in the order of submission (waiting_line.h). Those that run take room as they grow; when
/// there is none left, the youngest is set back to waiting and its text is run again later. One
/// caller at a time. Model and cache are borrowed and outlive the engine.
class Engine {
 public:
  /// Throws UsageError for options out of range.
  Engine(const Model& model, KvCache& cache, EngineOptions options);
  ~Engine();

  /// Before the first request or between steps; sequences that run are not disturbed. Throws
  /// UsageError for a method that lacks a part.
  MethodId add(Method method);
  std::variant<SequenceId, Refusal> submit(Request request);
  /// One forward: a chunk of every sequence still in its prompt, a tree of every other. News of the
  /// sequences that got tokens or ended; empty when nothing runs, and possibly while prompts are
  /// computed. Throws nothing that a component throws: what one sequence's text, rule or sampler
  /// throws ends it as failed, with its reason; a drafter or policy that throws drops its sequences
  /// to plain decoding; an observer is passed over; a forward that throws, or a step that finds no
  /// memory, ends all that run as failed and leaves nothing of them in the cache.
  std::span<const Progress> step();
  /// The sequence ends with FinishReason::cancelled at the next step(). Unknown ids are ignored.
  void cancel(SequenceId sequence);
  bool idle() const;
  EngineLoad load() const;

  const EngineStatistics& statistics() const;
  /// Statistics of a sequence: waiting, running or among those that finished in the last step().
  /// Throws Error for others.
  const SequenceStatistics& statistics(SequenceId sequence) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace talon
