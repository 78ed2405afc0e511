// Random situations of the engine: models of texts and pictures, states, windows and experts, small
// caches, odd chunks and rows, all drafters, policies and rules, several at once, prompts that
// share beginnings, requests that ask for all that one may, come, are cancelled or late at any
// time. Every answer must be the one of plain decoding where its rule says so, and a listener must
// hear all of it.
// Options: seed_run.h.
#include "engine_trial.h"
#include "seed_run.h"

namespace talon::fuzz {
namespace {

class EngineFuzzer {
 public:
  std::optional<std::string> run(std::uint64_t seed) {
    answer_plainly(seed / kSituationsOfAnswers);
    Chooser choose(seed);
    const EngineSituation situation = make_situation(choose, of_->parts(), answers_);
    const auto found = [&](const std::string& wrong) {
      return of_->name() + ", " + situation.describe() + ": " + wrong;
    };
    try {
      const auto wrong = run_trial(*of_, situation, choose);
      return wrong ? std::optional(found(*wrong)) : std::nullopt;
    } catch (const std::exception& error) {
      return found(error.what());
    }
  }

 private:
  /// Plain answers take half of the time of a situation, so several engines are asked the same.
  static constexpr std::uint64_t kSituationsOfAnswers = 16;

  void answer_plainly(std::uint64_t number) {
    if (number_ == number) return;
    number_.reset();
    Chooser choose(~number);
    of_ = &models_.any(choose);
    answers_ = make_answers(choose, of_->askable(),
                            [&](const Request& request) { return of_->answer(request); });
    number_ = number;
  }

  FuzzModels models_;
  FuzzModel* of_ = nullptr;
  std::optional<std::uint64_t> number_;  // of answers_
  PlainAnswers answers_;
};

}  // namespace
}  // namespace talon::fuzz

int main(int argc, char** argv) {
  return talon::fuzz::run_seeds(argc, argv, [] {
    return [fuzzer = std::make_shared<talon::fuzz::EngineFuzzer>()](std::uint64_t seed) {
      return fuzzer->run(seed);
    };
  });
}
