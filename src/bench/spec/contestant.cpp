#include "bench/spec/contestant.h"

#include <utility>

namespace talon {
namespace {

class OwnMethod : public Contestant {
 public:
  OwnMethod(const ContestantModel& model, const MethodText& method, DecodeSettings settings)
      : name_(method.text), also_(std::move(settings.observer)) {
    settings = with_method(std::move(settings), method);
    settings.observer = [this](const RoundReport& round) {
      tally_.add(round);
      if (also_) also_(round);
    };
    follows_ = make_verifier(settings.verify)->name() == "follow";
    answerer_ = std::make_unique<Answerer>(model.model, model.cache, &model.tokenizer, settings);
  }

  const std::string& name() const override { return name_; }
  bool claims_same_tokens() const override { return follows_; }

  TurnAnswer answer(const Request& request, const StopFlag* stop) override {
    tally_ = {};
    Answer decoded = answerer_->decode(request, {}, stop);
    TurnAnswer answer;
    answer.tokens = std::move(decoded.tokens);
    answer.text = std::move(decoded.text);
    answer.prefill_ms = decoded.statistics.prefill_ms;
    answer.decode_ms = decoded.statistics.decode_ms;
    answer.draft_ms = decoded.statistics.draft_ms;
    answer.check_ms = decoded.statistics.check_ms;
    answer.rounds = std::move(tally_);
    return answer;
  }

 private:
  std::string name_;
  RoundObserver also_;
  bool follows_ = false;
  RoundTally tally_;
  std::unique_ptr<Answerer> answerer_;  // holds an observer that refers to this
};

}  // namespace

std::unique_ptr<Contestant> make_contestant(const ContestantModel& model, const MethodText& method,
                                            const DecodeSettings& base) {
  return std::make_unique<OwnMethod>(model, method, base);
}

}  // namespace talon
