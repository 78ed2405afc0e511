#include <gtest/gtest.h>

#include <thread>

#include "backend/cpu/cpu.h"
#include "draft/registry.h"
#include "engine/test_model.h"

// What a server asks of an engine beside tokens: deadlines, how many run and wait, how long.

namespace talon::service_test {
namespace {

using test::Answer;
using test::TestEngine;
using test::TestModel;
using test::TestOptions;
using Clock = std::chrono::steady_clock;

TestModel& small_model() {
  static TestModel model(TALON_TEST_DATA "/golden/stories260k/target",
                         make_cpu_backend({.threads = 1, .pin = false}));
  return model;
}

Request request() {
  Request result;
  result.prompt = {1, 403, 407, 261, 378};
  result.max_new = 30;
  return result;
}

TEST(Service, AnAnswerEndsAtItsDeadlineWithTheTokensItHas) {
  const Answer whole = TestEngine(small_model(), make_drafter("none", {})).run(request());
  Request late = request();
  late.deadline = Clock::now() + std::chrono::milliseconds(200);
  TestOptions options;
  options.observer = [&](const RoundReport& round) {
    if (round.round == 3) std::this_thread::sleep_until(late.deadline);
  };
  TestEngine test(small_model(), make_drafter("none", {}), options);
  const Answer answer = test.run(late);
  EXPECT_EQ(answer.finish, FinishReason::deadline);
  EXPECT_EQ(name_of(answer.finish), "deadline");
  ASSERT_LE(answer.tokens.size(), 4u);
  EXPECT_TRUE(std::equal(answer.tokens.begin(), answer.tokens.end(), whole.tokens.begin()));
  EXPECT_EQ(test.cache.free_pages(), test.cache.total_pages());
  EXPECT_TRUE(test.engine.idle());
}

TEST(Service, AnAnswerThatEndsInItsPromptTellsHowMuchWasNotRun) {
  TestOptions options;
  options.chunk = 2;
  TestEngine test(small_model(), make_drafter("none", {}), options);
  const SequenceId id = test.submit(request());
  test.engine.step();
  test.engine.cancel(id);
  ASSERT_EQ(test.engine.step().size(), 1u);
  EXPECT_EQ(test.engine.statistics(id).unread_tokens, 3);
  EXPECT_EQ(test.run(request()).statistics.unread_tokens, 0);
}

TEST(Service, OneThatWaitsEndsAtItsDeadlineAsWell) {
  TestEngine test(small_model(), make_drafter("none", {}), {}, /*pages=*/1);
  Request late = request();
  late.deadline = Clock::now();
  const auto answers = test.run({request(), late});
  EXPECT_EQ(answers[0].finish, FinishReason::length);
  EXPECT_EQ(answers[1].finish, FinishReason::deadline);
  EXPECT_TRUE(answers[1].tokens.empty());
}

TEST(Service, NewsLastUntilTheNextStepWhateverIsSubmittedBefore) {
  TestEngine test(small_model(), make_drafter("none", {}));
  const SequenceId first = test.submit(request());
  const std::span<const Progress> news = test.engine.step();
  ASSERT_EQ(news.size(), 1u);
  const std::vector<TokenId> tokens(news[0].tokens.begin(), news[0].tokens.end());
  for (int i = 0; i < 20; ++i) test.submit(request());
  EXPECT_EQ(news[0].sequence, first);
  EXPECT_EQ(std::vector<TokenId>(news[0].tokens.begin(), news[0].tokens.end()), tokens);
  EXPECT_EQ(test.engine.step().size(), 21u);
}

TEST(Service, TellsHowManyRunAndWaitAndForHowLong) {
  TestEngine test(small_model(), make_drafter("none", {}), {}, /*pages=*/1);
  const SequenceId first = test.submit(request()), second = test.submit(request());
  EXPECT_EQ(test.engine.load().running, 0);
  EXPECT_EQ(test.engine.load().waiting, 2);
  test.engine.step();
  EXPECT_EQ(test.engine.load().running, 1);
  EXPECT_EQ(test.engine.load().waiting, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  double waited_ms = 0, waited_first_ms = 0;
  while (!test.engine.idle()) {
    for (const Progress& progress : test.engine.step()) {
      (progress.sequence == first ? waited_first_ms : waited_ms) =
          test.engine.statistics(progress.sequence).waiting_ms;
    }
  }
  EXPECT_GE(waited_ms, 20);
  EXPECT_LT(waited_first_ms, waited_ms);
  EXPECT_EQ(test.engine.load().running + test.engine.load().waiting, 0);
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace talon::service_test
