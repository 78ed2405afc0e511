#include <gtest/gtest.h>

#include "backend/reference/reference.h"
#include "draft/random_tree.h"
#include "draft/registry.h"
#include "engine/admission/prompt_costs.h"
#include "engine/test_model.h"

// What a request may ask for beside its sampler.
namespace talon::request_fields_test {
namespace {

using test::TestEngine;
using test::TestModel;
using test::TestOptions;

TestModel& small_model() {
  static TestModel model(TALON_TEST_DATA "/golden/stories260k/target", make_reference_backend(1));
  return model;
}

Request request(int max_new = 40) {
  Request result;
  result.prompt = {1, 403, 407, 261, 378};
  result.max_new = max_new;
  return result;
}

std::unique_ptr<Drafter> drafter(const char* name) { return make_drafter(name, {}); }

/// Of all tokens of an answer.
std::vector<TokenLogprobs> logprobs_of(std::unique_ptr<Drafter> by, const Request& asked) {
  TestOptions options;
  options.policy = "fixed";
  TestEngine test(small_model(), std::move(by), options);
  test.submit(asked);
  std::vector<TokenLogprobs> all;
  while (!test.engine.idle()) {
    for (const Progress& progress : test.engine.step()) {
      EXPECT_EQ(progress.logprobs.size(), progress.tokens.size());
      for (std::size_t i = 0; i < progress.logprobs.size(); ++i) {
        EXPECT_EQ(progress.logprobs[i].token, progress.tokens[i]);
        all.push_back(progress.logprobs[i]);
      }
    }
  }
  return all;
}

TEST(RequestFields, LogprobsAreTheSameBytesWithAndWithoutDrafts) {
  for (const double temperature : {0.0, 1.0}) {
    Request asked = request(60);
    asked.sampler.temperature = temperature;
    asked.logprobs = 3;
    const auto plain = logprobs_of(drafter("none"), asked);
    std::vector<TokenId> text = asked.prompt;
    for (const TokenLogprobs& token : plain) text.push_back(token.token);
    const auto drafted = logprobs_of(
        make_random_tree_drafter({.hit = 0.7, .vocabulary = small_model().vocabulary()}, {text}),
        asked);
    ASSERT_EQ(plain.size(), 60u);
    ASSERT_EQ(drafted.size(), plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(plain[i].token, drafted[i].token);
      EXPECT_EQ(plain[i].log_p, drafted[i].log_p);
      EXPECT_EQ(plain[i].top, drafted[i].top);
      EXPECT_TRUE(temperature > 0 || plain[i].top[0].first == plain[i].token);
    }
  }
}

TEST(RequestFields, AnEndTokenIsNotDrawnBeforeTheLeastLength) {
  TestEngine test(small_model(), drafter("suffix"));
  const auto free = test.run(request()).tokens;
  Request asked = request();
  asked.end_tokens = {free[3]};
  EXPECT_EQ(test.run(asked).tokens.size(), 4u);
  asked.min_new = 12;
  const auto answer = test.run(asked);
  EXPECT_GE(answer.tokens.size(), 12u);
  EXPECT_EQ(std::find(answer.tokens.begin(), answer.tokens.begin() + 12, free[3]),
            answer.tokens.begin() + 12);
  TestEngine plain(small_model(), drafter("none"));
  EXPECT_EQ(plain.run(asked).tokens, answer.tokens);
}

TEST(RequestFields, OfThoseThatWaitTheLowerPriorityNumberComesFirst) {
  TestEngine test(small_model(), drafter("none"), {}, 2);
  std::vector<SequenceId> ids;
  for (const int priority : {0, 5, 0, -1}) {
    Request asked = request(100);
    asked.priority = priority;
    ids.push_back(test.submit(asked));
  }
  std::vector<SequenceId> ended;
  while (!test.engine.idle()) {
    for (const Progress& progress : test.engine.step()) {
      if (progress.finish != FinishReason::none) ended.push_back(progress.sequence);
    }
  }
  EXPECT_EQ(ended, (std::vector<SequenceId>{ids[3], ids[0], ids[2], ids[1]}));
}

TEST(RequestFields, PromptRowsOfAStepFitItsTime) {
  CostProfile profile;
  for (const int rows : {1, 2, 32}) profile.checks.push_back({rows, 64, 4.0 + 0.5 * (rows - 1)});
  const MachineCosts costs(512, profile);
  PromptCosts prompts;
  const int guessed = prompts.rows_within(20, 1, costs);
  EXPECT_GE(guessed, 20);
  EXPECT_LE(guessed, 40);
  for (int i = 0; i < 40; ++i) prompts.observe(100, 100);
  EXPECT_EQ(prompts.rows_within(20, 1, costs), 16);
  EXPECT_EQ(prompts.rows_within(1, 1, costs), PromptCosts::kLeastRows);
}

TEST(RequestFields, AStepWithATimeRunsLongPromptsInPiecesWhileOthersAnswer) {
  Request slow = request(30);
  slow.prompt.assign(300, 261);
  slow.prompt[0] = 1;
  // Steps of the prompt, beside an answer and alone.
  const auto steps_with = [&](double step_ms, bool alone) {
    TestOptions options;
    options.step_ms = step_ms;
    TestEngine test(small_model(), drafter("none"), options);
    if (!alone) {
      test.submit(request(200));
      test.engine.step();
    }
    const SequenceId id = test.submit(slow);
    for (int steps = 1;; ++steps) {
      for (const Progress& progress : test.engine.step()) {
        if (progress.sequence == id) return steps;
      }
    }
  };
  EXPECT_EQ(steps_with(0, false), 2);
  EXPECT_EQ(steps_with(1e-3, false), (300 + PromptCosts::kLeastRows - 1) / PromptCosts::kLeastRows);
  EXPECT_EQ(steps_with(1e-3, true), 2);
}

TEST(RequestFields, AreRefusedWhereTheyContradictEachOther) {
  TestEngine test(small_model(), drafter("none"));
  Request asked = request(4);
  asked.min_new = 5;
  const auto result = test.engine.submit(asked);
  const auto* refusal = std::get_if<Refusal>(&result);
  ASSERT_NE(refusal, nullptr);
  EXPECT_EQ(refusal->message, "min_new: expected from 0 to max_new, 4, found 5");
}

}  // namespace
}  // namespace talon::request_fields_test
