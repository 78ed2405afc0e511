// Random situations of the engine: small caches, odd chunks and rows, all drafters and policies,
// prompts that share beginnings, requests that come and are cancelled at any time. Every answer
// must be the one of plain decoding. Options: seed_run.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

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

/// Runs one situation, and notes the answers and what came of them.
class EngineTrial {
 public:
  EngineTrial(TestModel& model, const EngineSituation& situation, Chooser& choose)
      : situation_(situation),
        choose_(choose),
        test_(model, make(model), situation.options, situation.pages),
        answers_(situation.requests.size()),
        cancelled_(situation.requests.size()),
        taken_(situation.requests.size()) {}

  std::optional<std::string> run() {
    constexpr int kMostSteps = 200'000;
    for (int steps = 0; next_ < answers_.size() || !test_.engine.idle(); ++steps) {
      if (steps == kMostSteps) return "the engine does not come to an end";
      submit_some();
      if (!running_.empty() && choose_.chance(0.01)) cancel_one();
      for (const Progress& progress : test_.engine.step()) {
        test_.note(progress, answers_[running_.at(progress.sequence)]);
      }
    }
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      if (auto wrong = taken_[i] ? difference(i) : std::nullopt) return wrong;
    }
    if (test_.cache.free_pages() == test_.cache.total_pages()) return std::nullopt;
    return fmt::format("{} of {} pages are free at the end", test_.cache.free_pages(),
                       test_.cache.total_pages());
  }

 private:
  std::unique_ptr<Drafter> make(TestModel& model) const {
    if (situation_.drafter != "random") {
      return make_drafter(situation_.drafter,
                          {.target = &model.model, .cache_positions = situation_.draft_positions});
    }
    std::vector<std::vector<TokenId>> texts;
    for (std::size_t i = 0; i < situation_.requests.size(); ++i) {
      texts.push_back(situation_.requests[i].prompt);
      const std::vector<TokenId>& answer = situation_.expected[i].tokens;
      texts.back().insert(texts.back().end(), answer.begin(), answer.end());
    }
    return make_random_tree_drafter({.hit = 0.8, .probes = 0.2, .vocabulary = model.vocabulary()},
                                    texts);
  }

  void submit_some() {
    while (next_ < answers_.size() && (test_.engine.idle() || choose_.chance(0.25))) {
      const auto result = test_.engine.submit(situation_.requests[next_]);
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
    const Answer& expected = situation_.expected[i];
    const bool beginning =
        found.tokens.size() <= expected.tokens.size() &&
        std::equal(found.tokens.begin(), found.tokens.end(), expected.tokens.begin());
    bool right = false;
    if (found.finish == FinishReason::cancelled) {
      right = beginning && cancelled_[i];
    } else if (found.finish == FinishReason::no_room) {
      const std::size_t positions = situation_.requests[i].prompt.size() + found.tokens.size();
      right = beginning && positions == static_cast<std::size_t>(situation_.pages * kPageRows);
    } else {
      right = found.tokens == expected.tokens && found.finish == expected.finish &&
              found.error == expected.error;
    }
    if (right) return std::nullopt;
    return fmt::format("request {} of {} prompt tokens: expected {} {} {}, found {} {} {}", i,
                       situation_.requests[i].prompt.size(), expected.tokens,
                       name_of(expected.finish), expected.error, found.tokens,
                       name_of(found.finish), found.error);
  }

  const EngineSituation& situation_;
  Chooser& choose_;
  TestEngine test_;
  std::vector<Answer> answers_;
  std::vector<bool> cancelled_, taken_;
  std::map<SequenceId, std::size_t> running_;
  std::size_t next_ = 0;
};

class EngineFuzzer {
 public:
  std::optional<std::string> run(std::uint64_t seed) {
    Chooser choose(seed);
    const EngineSituation situation = make_situation(choose, drafters_, model_.vocabulary(),
                                                     [this](const Request& r) { return plain(r); });
    try {
      const auto wrong = EngineTrial(model_, situation, choose).run();
      if (!wrong) return std::nullopt;
      return situation.describe() + ": " + *wrong;
    } catch (const std::exception& error) {
      return situation.describe() + ": " + error.what();
    }
  }

 private:
  Answer plain(Request request) {
    request.reuse_prefix = false;
    return plain_.run(request);
  }

  static test::TestOptions plain_options() {
    test::TestOptions options;
    options.policy = "fixed";
    return options;
  }

  TestModel model_{test::kStories260k, test::cpu_backend(1)};
  TestEngine plain_{model_, make_drafter("none", {}), plain_options()};
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
