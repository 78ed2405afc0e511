#pragma once

#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <variant>

#include "core/types.h"
#include "engine/commit_listener.h"
#include "engine/faults.h"
#include "engine/methods/method.h"
#include "engine/progress.h"
#include "engine/request.h"
#include "engine/round/round_report.h"
#include "model/cache/kv_cache.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace talon {

/// How much there is to do, and how large the last forward was.
struct EngineLoad {
  int running = 0;  // sequences that have room in the cache
  int waiting = 0;  // those that wait for it
  // Rows of the last forward:
  int prompt_rows = 0;
  int text_rows = 0;   // the last token of each answer that went on
  int draft_rows = 0;  // nodes of their trees
};

/// As EngineOptions::step_ms: the time in which one answer alone would get some ten tokens on this
/// machine, within bounds (step_budget.cpp).
inline constexpr double kUsualStep = -1;

struct EngineOptions {
  int chunk = 256;     // most prompt rows of one sequence in one forward
  int max_rows = 512;  // most rows of one forward
  int max_nodes = 64;  // most draft nodes of one tree
  int most_waiting = std::numeric_limits<int>::max();  // requests; more are refused: queue_full
  const Tokenizer* tokenizer = nullptr;                // for text and stop texts; borrowed
  RoundObserver observer;                              // may be empty
  CommitListener* listener = nullptr;                  // may be null; borrowed
  Timekeeper timekeeper;                               // empty: what was measured counts
  /// About how long a step may take, in milliseconds, that runs prompts while other answers go on,
  /// which wait as long for their next token: prompts get fewer rows then. 0: no limit; or
  /// kUsualStep.
  double step_ms = 0;
};

/// Runs many sequences at once through one loop: propose, check, accept, commit (docs/design.md).
///
///   const MethodId method = engine.add(...);
///   const auto id = engine.submit(request);     // any time between steps
///   while (!engine.idle()) {
///     for (const Progress& progress : engine.step()) ...
///   }
///
/// The answer to a request depends on the request alone: not on the drafter, policy, other
/// sequences, chunk size, cache state or thread count. The drafts of all methods share the rows of
/// a check by what they are worth. A sequence that finds no room in the cache waits, by priority,
/// then in the order of submission (waiting_line.h). Those that run take room as they grow; when
/// there is none left, the youngest is set back to waiting and its text is run again later. One
/// caller at a time: a program of several threads gives the engine one of its own. Model and cache
/// are borrowed and outlive the engine.
class Engine {
 public:
  /// Throws UsageError for options out of range.
  Engine(const Model& model, KvCache& cache, EngineOptions options);
  ~Engine();

  /// Before the first request or between steps; sequences that run are not disturbed. The first
  /// method that brings costs says where those of the machine start. Throws UsageError for a method
  /// that lacks a part.
  MethodId add(Method method);
  /// Between steps. Lets go of a method that no request has, those that ended in the last step
  /// included: its number may be given again. Else false.
  bool remove(MethodId method);
  /// Whether drafts of the method may know the noise of draws (Verifier::drafts_may_know_noise).
  /// False if there is no such method.
  bool knows_noise(MethodId method) const;
  /// Takes the request for the next step(), or says why not.
  std::variant<SequenceId, Refusal> submit(Request request);
  /// One forward: a chunk of every sequence still in its prompt, a tree of every other. News of the
  /// sequences that got tokens or ended; empty when nothing runs, and possibly while prompts are
  /// computed. Throws nothing that a component throws: what one sequence's text, rule or sampler
  /// throws ends it as failed, with its reason; a drafter or policy that throws drops its sequences
  /// to plain decoding; an observer is passed over; a forward that throws, or a step that finds no
  /// memory, ends all that run as failed and leaves nothing of them in the cache.
  std::span<const Progress> step();
  /// The sequence ends with FinishReason::cancelled at the next step(), where its news say so.
  /// Unknown ids are ignored.
  void cancel(SequenceId sequence);
  bool idle() const;  // nothing runs and nothing waits
  EngineLoad load() const;

  const EngineStatistics& statistics() const;
  /// What the drafter or policy threw whose sequence went on by plain decoding last; empty: none
  /// has. Valid until the next step().
  std::string_view drop_reason() const;
  /// Of one that waits, runs or finished in the last step(); valid until the next. Throws Error for
  /// others.
  const SequenceStatistics& statistics(SequenceId sequence) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace talon
