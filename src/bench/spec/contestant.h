#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/answerer.h"
#include "runtime/method.h"
#include "trace/round_tally.h"

namespace talon {

/// The answer to one turn and where its time went.
struct TurnAnswer {
  std::vector<TokenId> tokens;
  std::string text;
  double prefill_ms = 0;  // until the first token
  double decode_ms = 0;   // of the other tokens
  double draft_ms = 0;    // the part of decode_ms in the drafter
  double check_ms = 0;    // the part of decode_ms in the target
  RoundTally rounds;      // empty where the engine does not tell
};

/// What answers the questions of `talon bench spec`: a method of ours, or another engine.
class Contestant {
 public:
  virtual ~Contestant() = default;
  /// How the results name it.
  virtual const std::string& name() const = 0;
  /// What another engine says that it is, "b9844-6c5de1cc8"; empty where it says nothing.
  virtual std::string version() const { return ""; }
  /// Whether its tokens must be those of plain decoding. Then a question that it answers otherwise
  /// is a failure and counts in no mean; else (a relaxed rule, another engine's arithmetic) it is
  /// only marked.
  virtual bool claims_same_tokens() const = 0;
  /// Answers one prompt. Throws Error if it cannot; the others go on without it. When `stop` is
  /// requested it may end early, and what it returns is not used.
  virtual TurnAnswer answer(const Request& request, const StopFlag* stop) = 0;
};

/// What a contestant of ours needs. Borrowed; the tokenizer too.
struct ContestantModel {
  const Model& model;
  KvCache& cache;
  const Tokenizer& tokenizer;
};

/// One of Talon's own methods. `base`: chunk, node limit, and policy and rule where the method
/// names none; its observer also sees every round. Throws UsageError for names and options that do
/// not exist.
std::unique_ptr<Contestant> make_contestant(const ContestantModel& model, const MethodText& method,
                                            const DecodeSettings& base);

}  // namespace talon
