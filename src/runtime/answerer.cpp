#include "runtime/answerer.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

#include "core/error.h"
#include "tree/policy_registry.h"

namespace talon {
namespace {

/// Takes the first token of what another rule gives.
class OneToken : public Verifier {
 public:
  explicit OneToken(std::unique_ptr<Verifier> rule) : rule_(std::move(rule)) {}
  std::string_view name() const override { return rule_->name(); }
  bool lossless() const override { return rule_->lossless(); }
  VerifyResult verify(const VerifyInput& input) const override {
    VerifyResult result = rule_->verify(input);
    if (result.path.size() > 1) {
      result.next = (*input.tree)[result.path[1]].token;
      result.path.resize(1);
    }
    return result;
  }

 private:
  std::unique_ptr<Verifier> rule_;
};

std::unique_ptr<Verifier> make_rule(const DecodeSettings& settings) {
  auto rule = make_verifier(settings.verify);
  if (!settings.every_position) return rule;
  return std::make_unique<OneToken>(std::move(rule));
}

EngineOptions engine_options(const DecodeSettings& settings, const Model& model,
                             const Tokenizer* tokenizer) {
  EngineOptions options;
  options.chunk = std::min(settings.chunk, model.config.context);
  options.max_nodes = settings.max_nodes;
  options.max_rows = std::max(options.chunk, settings.max_nodes + 1);
  options.tokenizer = tokenizer;
  options.observer = settings.observer;
  return options;
}

EngineParts parts_of(const DecodeSettings& settings, const std::string& drafter, const Model& model,
                     KvCache& cache, const Tokenizer* tokenizer) {
  Method method = make_method(make_drafter(drafter, {.target = &model, .heads = settings.heads}),
                              model, settings.policy);
  method.verifier = make_rule(settings);
  EngineOptions options = engine_options(settings, model, tokenizer);
  if (drafter != "none" && method.policy->traits().uses_costs) {
    const std::string described =
        fmt::format("{}, {} bytes a pass", drafter, method.drafter->traits().pass_bytes);
    method.costs =
        obtain_costs(model, cache.store().shape.type, *method.drafter, described, settings.costs);
    options.costs = method.costs;
  }
  return {std::move(method), std::move(options)};
}

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

double Answer::tau() const {
  const std::vector<int>& accepted = statistics.accepted;
  if (accepted.empty()) return 1;
  const double sum = std::accumulate(accepted.begin(), accepted.end(), 0.0);
  return 1 + sum / static_cast<double>(accepted.size());
}

double Answer::tokens_per_second() const {
  if (tokens.size() < 2 || statistics.decode_ms <= 0) return 0;
  return static_cast<double>(tokens.size() - 1) / statistics.decode_ms * 1000;
}

Answerer::Answerer(const Model& model, KvCache& cache, const Tokenizer* tokenizer,
                   const DecodeSettings& settings)
    : drafter_(resolve_drafter(settings.drafter, settings.heads)),
      engine_(make_engine(model, cache, parts_of(settings, drafter_, model, cache, tokenizer))) {}

Answer Answerer::decode(Request request, const Listener& listener, const StopFlag* stop) {
  const auto submitted = engine_->submit(std::move(request));
  if (const Refusal* refusal = std::get_if<Refusal>(&submitted)) {
    if (refusal->reason == Refusal::Reason::bad_request) throw UsageError(refusal->message);
    throw Error(refusal->message);
  }
  const SequenceId sequence = std::get<SequenceId>(submitted);
  Listening listening(*engine_, sequence);
  Answer answer;
  bool cancelled = false;
  while (answer.finish == FinishReason::none) {
    if (stop && stop->requested() && !std::exchange(cancelled, true)) engine_->cancel(sequence);
    for (const Progress& progress : engine_->step()) {
      if (progress.sequence != sequence) continue;
      answer.tokens.insert(answer.tokens.end(), progress.tokens.begin(), progress.tokens.end());
      answer.text += progress.text;
      answer.finish = progress.finish;
      if (answer.finish != FinishReason::none) listening.end();
      if (answer.finish == FinishReason::failed) throw Error(std::string(progress.error));
      if (listener) listener(progress);
    }
    expects(answer.finish != FinishReason::none || !engine_->idle(),
            "an engine that ends what it takes");
  }
  answer.statistics = engine_->statistics(sequence);
  return answer;
}

}  // namespace talon
