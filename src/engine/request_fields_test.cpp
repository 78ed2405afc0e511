#include <gtest/gtest.h>

#include "backend/reference/reference.h"
#include "draft/random_tree.h"
#include "draft/registry.h"
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

TEST(RequestFields, WhatIsExpectedSavesRoundsAndChangesNoToken) {
  for (const double temperature : {0.0, 1.0}) {
    Request asked = request(60);
    asked.sampler.temperature = temperature;
    TestEngine plain(small_model(), drafter("none"));
    const auto answer = plain.run(asked).tokens;
    TestOptions options;
    options.policy = "fixed";  // the number of rounds is not to depend on times
    TestEngine test(small_model(), drafter("suffix"), options);
    const int rounds = test.run(asked).statistics.rounds;
    asked.reuse_prefix = false;
    asked.expected = std::make_shared<const std::vector<TokenId>>(answer);
    const auto helped = test.run(asked);
    EXPECT_EQ(helped.tokens, answer);
    EXPECT_LT(helped.statistics.rounds, 12) << "without: " << rounds;
    EXPECT_GT(rounds, 24);
    asked.expected = std::make_shared<const std::vector<TokenId>>(answer.rbegin(), answer.rend());
    EXPECT_EQ(test.run(asked).tokens, answer);
  }
}

TEST(RequestFields, ATextThatIsNotToBeReusedLeavesNoRowsToLaterOnes) {
  TestEngine test(small_model(), drafter("none"));
  Request alone = request(100);
  alone.reuse_prefix = false;
  const auto answer = test.run(alone).tokens;
  Request later = request(3);
  later.prompt.insert(later.prompt.end(), answer.begin(), answer.begin() + 90);
  EXPECT_EQ(test.run(later).statistics.reused_tokens, 0);
  EXPECT_EQ(test.run(later).statistics.reused_tokens, 94);
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
