#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/types.h"
#include "draft/drafter.h"
#include "model/target.h"
#include "text/tokenizer.h"
#include "verify/sampler.h"
#include "verify/verifier.h"

namespace talon {

enum class FinishReason { none, stop_token, stop_text, length, cancelled, no_room };
std::string_view name_of(FinishReason reason);  // "stop", "stop_text", "length", "cancelled", "no_room"

struct Request {
  std::vector<TokenId> prompt;         // at least one token
  int max_new = 128;
  SamplerOptions sampler;
  std::uint64_t seed = 1;
  std::uint32_t choice = 0;            // which of several answers to one prompt
  std::vector<TokenId> end_tokens;     // each ends the answer and is its last token
  std::vector<std::string> stop_texts; // need EngineOptions::tokenizer
  bool reuse_prefix = true;
};

/// Why a request was not taken. Ordinary, not an error of the program.
struct Refusal {
  enum class Reason { bad_request, too_long, no_room } reason;
  std::string message;
};

/// One round's news of a sequence.
struct Progress {
  SequenceId sequence = 0;
  std::span<const TokenId> tokens;  // new this round; valid until the next step
  int accepted = 0;                 // how many of the first of them had been drafted
  std::string_view text;            // new text when the engine has a tokenizer, held back by stop texts; valid until the next step
  FinishReason finish = FinishReason::none;
};

struct SequenceStatistics {
  int prompt_tokens = 0;
  int reused_tokens = 0;             // of the prompt, found in the cache
  int rounds = 0;                    // checks after the prefill
  std::vector<int> accepted;         // draft nodes accepted per round, root excluded
  std::vector<int> drafted;          // draft nodes checked per round
  double prefill_ms = 0, decode_ms = 0, draft_ms = 0, check_ms = 0;
};

struct EngineOptions {
  int chunk = 256;      // most prompt rows of one sequence in one forward
  int max_rows = 512;   // most rows of one forward
  int max_nodes = 64;   // most draft nodes of one tree
  const Tokenizer* tokenizer = nullptr;  // for text and stop texts; borrowed
  std::string policy = "throughput";
};

/// Runs many sequences at once through one loop: propose, check, accept, commit (DESIGN 2). The answer to a request depends on
/// the request alone: not on the drafter, policy, other sequences, chunk size, cache state or thread count.
/// One caller at a time. Target, drafter and verifier are borrowed and outlive the engine.
class Engine {
 public:
  Engine(Target& target, Drafter& drafter, Verifier& verifier, EngineOptions options);
  ~Engine();

  std::variant<SequenceId, Refusal> submit(Request request);
  /// One forward: a chunk of every sequence still in its prompt, a tree of every other. Empty when nothing runs.
  std::span<const Progress> step();
  /// The sequence ends with FinishReason::cancelled at the next step(). Unknown ids are ignored.
  void cancel(SequenceId sequence);
  bool idle() const;

  /// Statistics of a sequence, running or among those that finished in the last step().
  const SequenceStatistics& statistics(SequenceId sequence) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace talon
