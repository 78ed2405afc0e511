#include "runtime/answerer.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

#include "core/error.h"
#include "draft/registry.h"
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
      result.next = input.tree->token[static_cast<std::size_t>(result.path[1])];
      result.path.resize(1);
    }
    return result;
  }

 private:
  std::unique_ptr<Verifier> rule_;
};

struct CancelOnLeaving {
  ~CancelOnLeaving() { engine.cancel(sequence); }
  Engine& engine;
  SequenceId sequence;
};

std::unique_ptr<Verifier> make_rule(const DecodeSettings& settings) {
  auto rule = make_verifier(settings.verify);
  if (!settings.every_position) return rule;
  return std::make_unique<OneToken>(std::move(rule));
}

}  // namespace

double Decoded::tau() const {
  const std::vector<int>& accepted = statistics.accepted;
  if (accepted.empty()) return 1;
  const double sum = std::accumulate(accepted.begin(), accepted.end(), 0.0);
  return 1 + sum / static_cast<double>(accepted.size());
}

double Decoded::tokens_per_second() const {
  if (tokens.size() < 2 || statistics.decode_ms <= 0) return 0;
  return static_cast<double>(tokens.size() - 1) / statistics.decode_ms * 1000;
}

Decoder::Decoder(const Model& model, KvCache& cache, const Tokenizer* tokenizer,
                 const DecodeSettings& settings)
    : drafter_(make_drafter(settings.drafter, DrafterContext{&model})),
      verifier_(make_rule(settings)) {
  EngineOptions options;
  options.chunk = std::min(settings.chunk, model.config.context);
  options.max_nodes = settings.max_nodes;
  options.max_rows = std::max(options.chunk, settings.max_nodes + 1);
  options.tokenizer = tokenizer;
  options.policy = settings.policy;
  options.observer = settings.observer;
  if (settings.drafter != "none" && policy_uses_costs(settings.policy)) {
    options.costs =
        obtain_costs(model, cache.store().shape.type, *drafter_, settings.drafter, settings.costs);
  }
  target_ =
      std::make_unique<Target>(model, cache, options.max_rows, taps_for(*drafter_, options.policy));
  engine_ = std::make_unique<Engine>(*target_, *drafter_, *verifier_, options);
}

Decoded Decoder::decode(Request request, const Listener& listener, const StopFlag* stop) {
  const auto submitted = engine_->submit(std::move(request));
  if (const Refusal* refusal = std::get_if<Refusal>(&submitted)) {
    if (refusal->reason == Refusal::Reason::bad_request) throw UsageError(refusal->message);
    throw Error(refusal->message);
  }
  const SequenceId sequence = std::get<SequenceId>(submitted);
  // When the listener throws, the sequence ends with the next answer's first step.
  const CancelOnLeaving cancel_on_leaving{*engine_, sequence};
  Decoded answer;
  bool cancelled = false;
  while (answer.finish == FinishReason::none) {
    if (stop && stop->requested() && !std::exchange(cancelled, true)) engine_->cancel(sequence);
    for (const Progress& progress : engine_->step()) {
      if (progress.sequence != sequence) continue;
      answer.tokens.insert(answer.tokens.end(), progress.tokens.begin(), progress.tokens.end());
      answer.text += progress.text;
      answer.finish = progress.finish;
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
