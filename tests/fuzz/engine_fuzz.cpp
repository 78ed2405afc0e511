// Random situations of the engine: small caches, odd chunks and rows, all drafters and policies,
// several at once, prompts that share beginnings, requests that come, are cancelled or late at any
// time. Every answer must be the one of plain decoding, and a listener must hear all of it.
// Options: seed_run.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <map>

#include "draft/random_tree.h"
#include "draft/registry.h"
#include "engine_situation.h"
#include "models.h"
#include "seed_run.h"

namespace talon::fuzz {
namespace {

using test::Answer;
using test::TestEngine;
using test::TestModel;

std::vector<std::string> drafter_texts() {
  const std::string heads = TALON_TEST_DATA "/golden/stories260k/";
  const std::string eagle1 = ":head=" + heads + "eagle1_head";
  const std::string eagle3 = ":head=" + heads + "eagle3_head";
  return {"none",
          "ngram",
          "suffix:history=300",
          "ngram+suffix",
          "random",
          "eagle" + eagle1,
          "eagle2" + eagle1,
          "eagle2" + eagle1 + "+ngram",
          "eagle3" + eagle3,
          "eagle3" + eagle3 + "+suffix:history=2000"};
}

/// Hears what becomes text, and wants rows of the target; remembers some beginnings.
class Watch : public CommitListener {
 public:
  explicit Watch(Chooser& choose) : most_known_(choose.one_of<std::size_t>({0, 10, 100})) {}
  std::vector<FeatureTap> taps() const override { return {{1}}; }
  int remembers(std::span<const TokenId> text) override {
    return static_cast<int>(std::min(text.size(), most_known_));
  }
  void begin(SequenceId sequence, std::span<const TokenId> known) override {
    Heard& heard = heard_[sequence];
    heard.tokens.assign(known.begin(), known.end());
    heard.rows = std::max<std::size_t>(known.size(), 1) - 1;
  }
  void committed(SequenceId sequence, const CommittedTokens& committed) override {
    Heard& heard = heard_.at(sequence);
    heard.rows += static_cast<std::size_t>(committed.features.rows);
    heard.tokens.insert(heard.tokens.end(), committed.tokens.begin(), committed.tokens.end());
  }
  void end(SequenceId) override {}

  /// Whether it has heard this text, each token but the first with a row.
  bool has(SequenceId sequence, const std::vector<TokenId>& text) const {
    const auto heard = heard_.find(sequence);
    return heard != heard_.end() && heard->second.tokens == text &&
           heard->second.rows + 1 == text.size();
  }

 private:
  struct Heard {
    std::vector<TokenId> tokens;
    std::size_t rows = 0;
  };
  std::size_t most_known_;
  std::map<SequenceId, Heard> heard_;
};

/// Runs one situation, and notes the answers and what came of them.
class EngineTrial {
 public:
  EngineTrial(TestModel& model, const EngineSituation& situation, Chooser& choose)
      : situation_(situation),
        choose_(choose),
        model_(model),
        watch_(choose),
        test_(model, make(situation.drafter), options(), situation.pages),
        answers_(situation.asked->requests.size()),
        cancelled_(situation.asked->requests.size()),
        late_(situation.asked->requests.size()),
        taken_(situation.asked->requests.size()) {}

  std::optional<std::string> run() {
    constexpr int kMostSteps = 200'000;
    for (int steps = 0; next_ < answers_.size() || !test_.engine.idle(); ++steps) {
      if (steps == kMostSteps) return "the engine does not come to an end";
      if (others_ < situation_.others.size() && choose_.chance(0.1)) add_method();
      submit_some();
      if (!running_.empty() && choose_.chance(0.01)) cancel_one();
      for (const Progress& progress : test_.engine.step()) {
        test_.note(progress, answers_[running_.at(progress.sequence)]);
      }
    }
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      if (auto wrong = taken_[i] ? difference(i) : std::nullopt) return wrong;
    }
    for (const auto& [sequence, i] : running_) {
      if (auto wrong = watches_ ? unheard(sequence, i) : std::nullopt) return wrong;
    }
    if (test_.cache.free_pages() == test_.cache.total_pages()) return std::nullopt;
    return fmt::format("{} of {} pages are free at the end", test_.cache.free_pages(),
                       test_.cache.total_pages());
  }

 private:
  test::TestOptions options() {
    test::TestOptions result = situation_.options;
    watches_ = choose_.chance(0.5);
    if (watches_) result.listener = &watch_;
    return result;
  }

  std::unique_ptr<Drafter> make(const std::string& drafter) const {
    if (drafter != "random") {
      return make_drafter(drafter,
                          {.target = &model_.model, .cache_positions = situation_.draft_positions});
    }
    std::vector<std::vector<TokenId>> texts;
    for (std::size_t i = 0; i < situation_.asked->requests.size(); ++i) {
      texts.push_back(situation_.asked->requests[i].prompt);
      const std::vector<TokenId>& answer = situation_.asked->expected[i].tokens;
      texts.back().insert(texts.back().end(), answer.begin(), answer.end());
    }
    return make_random_tree_drafter({.hit = 0.8, .probes = 0.2, .vocabulary = model_.vocabulary()},
                                    texts);
  }

  void add_method() {
    const EngineSituation::Other& other = situation_.others[others_++];
    const PolicyContext context{model_.model.config.hidden};
    test_.engine.add(
        {make(other.drafter), make_policy(other.policy, context), make_verifier("follow")});
  }

  void submit_some() {
    while (next_ < answers_.size() && (test_.engine.idle() || choose_.chance(0.25))) {
      Request request = situation_.asked->requests[next_];
      request.method = static_cast<MethodId>(choose_.below(others_ + 1));
      late_[next_] = choose_.chance(0.05);
      if (late_[next_]) {
        request.deadline =
            std::chrono::steady_clock::now() + std::chrono::milliseconds(choose_.below(20));
      }
      const auto result = test_.engine.submit(std::move(request));
      if (const auto* id = std::get_if<SequenceId>(&result)) {
        running_[*id] = next_;
        taken_[next_] = true;
      }
      ++next_;
    }
  }

  void cancel_one() {
    const auto chosen =
        std::next(running_.begin(), static_cast<std::ptrdiff_t>(choose_.below(running_.size())));
    test_.engine.cancel(chosen->first);
    cancelled_[chosen->second] = true;
  }

  std::optional<std::string> difference(std::size_t i) const {
    const Answer& found = answers_[i];
    const Answer& expected = situation_.asked->expected[i];
    const bool beginning =
        found.tokens.size() <= expected.tokens.size() &&
        std::equal(found.tokens.begin(), found.tokens.end(), expected.tokens.begin());
    bool right = false;
    if (found.finish == FinishReason::cancelled) {
      right = beginning && cancelled_[i];
    } else if (found.finish == FinishReason::deadline) {
      right = beginning && late_[i];
    } else if (found.finish == FinishReason::no_room) {
      const std::size_t positions =
          situation_.asked->requests[i].prompt.size() + found.tokens.size();
      right = beginning && positions == static_cast<std::size_t>(situation_.pages * kPageRows);
    } else {
      right = found.tokens == expected.tokens && found.finish == expected.finish &&
              found.error == expected.error;
    }
    if (right) return std::nullopt;
    return fmt::format("request {} of {} prompt tokens: expected {} {} {}, found {} {} {}", i,
                       situation_.asked->requests[i].prompt.size(), expected.tokens,
                       name_of(expected.finish), expected.error, found.tokens,
                       name_of(found.finish), found.error);
  }

  /// Of a sequence that began: one that ends while it waits is not heard of again.
  std::optional<std::string> unheard(SequenceId sequence, std::size_t i) const {
    const Answer& answer = answers_[i];
    if (answer.finish == FinishReason::cancelled || answer.finish == FinishReason::deadline ||
        answer.finish == FinishReason::failed) {
      return std::nullopt;
    }
    std::vector<TokenId> text = situation_.asked->requests[i].prompt;
    text.insert(text.end(), answer.tokens.begin(), answer.tokens.end());
    if (watch_.has(sequence, text)) return std::nullopt;
    return fmt::format("request {}: the listener heard another text", i);
  }

  const EngineSituation& situation_;
  Chooser& choose_;
  TestModel& model_;
  Watch watch_;
  bool watches_ = false;
  TestEngine test_;
  std::vector<Answer> answers_;
  std::vector<bool> cancelled_, late_, taken_;
  std::map<SequenceId, std::size_t> running_;
  std::size_t next_ = 0, others_ = 0;
};

/// A model and the engine that answers plainly.
struct PlainModel {
  explicit PlainModel(WeightLayout weights)
      : model(test::kStories260k, test::cpu_backend(1), 0, weights) {}

  Answer answer(Request request) {
    request.reuse_prefix = false;
    return engine.run(request);
  }

  static test::TestOptions options() {
    test::TestOptions result;
    result.policy = "fixed";
    return result;
  }

  TestModel model;
  TestEngine engine{model, make_drafter("none", {}), options()};
};

class EngineFuzzer {
 public:
  std::optional<std::string> run(std::uint64_t seed) {
    answer_plainly(seed / kSituationsOfAnswers);
    Chooser choose(seed);
    const EngineSituation situation = make_situation(choose, drafters_, answers_);
    try {
      const auto wrong = EngineTrial(of_->model, situation, choose).run();
      if (!wrong) return std::nullopt;
      return situation.describe() + ": " + *wrong;
    } catch (const std::exception& error) {
      return situation.describe() + ": " + error.what();
    }
  }

 private:
  /// Plain answers take half of the time of a situation, so several engines are asked the same.
  static constexpr std::uint64_t kSituationsOfAnswers = 16;

  void answer_plainly(std::uint64_t number) {
    if (number_ == number) return;
    number_.reset();
    Chooser choose(~number);
    of_ = choose.chance(0.25) ? &floats_ : &integers_;
    answers_ = make_answers(choose, of_->model.vocabulary(),
                            [&](const Request& request) { return of_->answer(request); });
    number_ = number;
  }

  PlainModel floats_{WeightLayout::as_stored};
  PlainModel integers_{WeightLayout::int8};  // faster
  PlainModel* of_ = nullptr;
  std::optional<std::uint64_t> number_;  // of answers_
  PlainAnswers answers_;
  std::vector<std::string> drafters_ = drafter_texts();
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
