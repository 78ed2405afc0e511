#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/spec/contestant.h"
#include "bench/spec/spec_cell.h"
#include "bench/spec/spec_questions.h"
#include "core/stop.h"
#include "text/chat_template.h"

namespace talon {

struct SpecSettings {
  SamplerOptions sampler;  // its temperature is not used
  std::vector<double> temperatures = {0};
  std::vector<std::uint64_t> seeds = {
      1};             // at temperature 0 only the first: it makes no difference
  int max_new = 128;  // Spec-Bench: 1024
  int warm_up = 1;    // answers to the first question that are not counted; Spec-Bench: 3
  int repeats = 1;    // of every answer; Spec-Bench: 3
};

/// How a conversation becomes tokens. Borrowed.
struct SpecPrompts {
  const Tokenizer& tokenizer;
  const ChatTemplate* chat_template;  // null: turns are fed as plain text, one after the other
  std::vector<TokenId> end_tokens;
  int context = 0;  // positions that prompt and answer may take
};

/// Who answers; the first decodes plainly, and the others are compared with it.
using Contestants = std::vector<std::unique_ptr<Contestant>>;

/// The Spec-Bench protocol (Spec-Bench @fd2c1cd): batch of one, all turns of a conversation, each
/// contestant's own answers in its history. Contestants take turns within a question, in an order
/// that rotates from question to question and repeat to repeat, so that a slow spell of the machine
/// hits all.
class SpecBench {
 public:
  struct Events {
    /// The cells of one question, temperature and seed: one per contestant, in their order.
    std::function<void(std::vector<SpecCell>)> answered;
    std::function<void(const Question&, const std::string& reason)> skipped;
    /// Whether a condition (condition_of()) is known from before. May be empty.
    std::function<bool(const std::string& condition)> is_done;
    /// After every answer, of those that are not known from before. May be empty.
    std::function<void(std::size_t done, std::size_t total)> progress;
  };

  /// Borrows `prompts`, `contestants` and `stop` (may be null). REQUIRES: a contestant.
  SpecBench(const SpecPrompts& prompts, const Contestants& contestants, SpecSettings settings,
            const StopFlag* stop);

  /// Answers `question` with every contestant, settings.warm_up times, for nothing.
  void warm_up(const Question& question);
  /// False if it was stopped: then the question at hand is dropped. Throws UsageError for a request
  /// that no contestant would take; other errors of a contestant end up in its cell.
  bool run(const std::vector<Question>& questions, const Events& events);

 private:
  struct Condition;
  struct Answers;

  std::vector<Condition> conditions(const std::vector<Question>& questions,
                                    const Events& events) const;
  std::vector<TokenId> prompt_of(const std::vector<ChatMessage>& messages) const;
  bool answer(Contestant& contestant, const Condition& condition, Answers& answers) const;
  std::vector<SpecCell> cells_of(const Condition& condition,
                                 const std::vector<Answers>& answers) const;
  bool stopped() const { return stop_ && stop_->requested(); }

  const SpecPrompts& prompts_;
  const Contestants& contestants_;
  SpecSettings settings_;
  const StopFlag* stop_;
};

}  // namespace talon
