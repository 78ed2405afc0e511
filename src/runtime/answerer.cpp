#include "runtime/answerer.h"

#include <utility>
#include <variant>

#include "core/error.h"

namespace talon {
namespace {

/// Ends a sequence that nobody listens to any more when an exception takes its answer away.
class Listening {
 public:
  Listening(Engine& engine, SequenceId sequence) : engine_(engine), sequence_(sequence) {}
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  ~Listening() {
    if (ended_) return;
    engine_.cancel(sequence_);
    try {
      engine_.step();  // gives its room in the cache back
    } catch (...) {
      // The next answer's first step does.
    }
  }
  void end() { ended_ = true; }

 private:
  Engine& engine_;
  SequenceId sequence_;
  bool ended_ = false;
};

}  // namespace

Answerer::Answerer(const Model& model, KvCache& cache, const Tokenizer* tokenizer,
                   const DecodeSettings& settings)
    : engine_(model, cache, engine_options(settings, model, tokenizer)),
      methods_(engine_, model, cache, settings) {}

Answer Answerer::decode(Request request, const Listener& listener, const StopFlag* stop) {
  const auto submitted = engine_.submit(std::move(request));
  if (const Refusal* refusal = std::get_if<Refusal>(&submitted)) {
    if (refusal->reason == Refusal::Reason::bad_request) throw UsageError(refusal->message);
    throw Error(refusal->message);
  }
  const SequenceId sequence = std::get<SequenceId>(submitted);
  Listening listening(engine_, sequence);
  Answer answer;
  bool cancelled = false;
  while (answer.finish == FinishReason::none) {
    if (stop && stop->requested() && !std::exchange(cancelled, true)) engine_.cancel(sequence);
    for (const Progress& progress : engine_.step()) {
      if (progress.sequence != sequence) continue;
      answer.tokens.insert(answer.tokens.end(), progress.tokens.begin(), progress.tokens.end());
      answer.text += progress.text;
      answer.finish = progress.finish;
      if (answer.finish != FinishReason::none) listening.end();
      if (answer.finish == FinishReason::failed) throw Error(std::string(progress.error));
      if (listener) listener(progress);
    }
    expects(answer.finish != FinishReason::none || !engine_.idle(),
            "an engine that ends what it takes");
  }
  answer.statistics = engine_.statistics(sequence);
  return answer;
}

}  // namespace talon
