#include <gtest/gtest.h>

#include "backend/reference/reference.h"
#include "core/error.h"
#include "draft/registry.h"
#include "engine/test_model.h"
#include "text/tokenizer.h"

namespace talon::refusal_test {
namespace {

using test::TestEngine;
using test::TestModel;
using test::TestOptions;

TestModel& small_model() {
  static TestModel model(TALON_TEST_DATA "/golden/stories260k/target", make_reference_backend(1));
  return model;
}

Request request() {
  Request result;
  result.prompt = {1, 403, 407, 261, 378};
  result.max_new = 3;
  return result;
}

std::unique_ptr<Drafter> plain() { return make_drafter("none", {}); }

std::pair<Refusal::Reason, std::string> refusal_of(TestEngine& test, const Request& asked) {
  const auto result = test.engine.submit(asked);
  const auto* refusal = std::get_if<Refusal>(&result);
  if (!refusal) return {Refusal::Reason::bad_request, "accepted"};
  return {refusal->reason, refusal->message};
}

TEST(Engine, RefusesRequestsItCannotServeSayingWhy) {
  using Reason = Refusal::Reason;
  TestEngine test(small_model(), plain(), {}, 2);
  const auto check = [&](auto&& change, Reason reason, std::string_view message) {
    Request asked = request();
    change(asked);
    const auto [found_reason, found_message] = refusal_of(test, asked);
    EXPECT_EQ(found_message, message);
    EXPECT_EQ(found_reason, reason);
  };
  check([](Request& r) { r.prompt.clear(); }, Reason::bad_request,
        "prompt: expected at least one token, found none");
  check([](Request& r) { r.prompt[2] = 512; }, Reason::bad_request,
        "prompt token 2: expected an id from 0 to 511, found 512");
  check([](Request& r) { r.prompt[0] = -1; }, Reason::bad_request,
        "prompt token 0: expected an id from 0 to 511, found -1");
  check([](Request& r) { r.prompt.assign(512, 1); }, Reason::too_long,
        "prompt: expected at most 511 tokens, one less than the context, found 512");
  check([](Request& r) { r.prompt.assign(128, 1); }, Reason::no_room,
        "prompt: expected at most 127 tokens, one less than the cache holds, found 128");
  const auto expects = [](std::size_t count, TokenId token) {
    return [=](Request& r) {
      r.expected = std::make_shared<const std::vector<TokenId>>(count, token);
    };
  };
  check(expects(2, -1), Reason::bad_request, "expected: expected ids from 0 to 511, found -1");
  check(expects(513, 1), Reason::bad_request,
        "expected: expected at most 512 tokens, the context, found 513");
  check([](Request& r) { r.max_new = 0; }, Reason::bad_request,
        "max_new: expected at least 1, found 0");
  check([](Request& r) { r.sampler.top_p = 2; }, Reason::bad_request,
        "sampler top_p: expected more than 0 and at most 1, found 2");
  check([](Request& r) { r.stop_texts = {"x"}; }, Reason::bad_request,
        "stop_texts: expected an engine with a tokenizer, found one without");
  check([](Request& r) { r.end_tokens.assign(513, 1); }, Reason::bad_request,
        "end_tokens: expected at most 512 tokens, found 513");
  check([](Request& r) { r.end_tokens.push_back(-1); }, Reason::bad_request,
        "end_tokens: expected ids from 0 to 511, found -1");
  check([](Request& r) { r.end_tokens.push_back(512); }, Reason::bad_request,
        "end_tokens: expected ids from 0 to 511, found 512");
  check([](Request& r) { r.sampler.banned.assign(513, 1); }, Reason::bad_request,
        "sampler banned: expected at most 512 tokens, found 513");
  check(
      [](Request& r) {
        r.sampler.logit_bias.assign(513, {1, 0.5F});
      },
      Reason::bad_request, "sampler logit_bias: expected at most 512 tokens, found 513");
  EXPECT_TRUE(test.engine.idle());
}

TEST(Engine, RefusesMoreOrLongerStopTextsThanItCanCompare) {
  const Tokenizer tokenizer = Tokenizer::from_llama2c(TALON_TEST_DATA "/models/tok512.bin");
  TestOptions options;
  options.tokenizer = &tokenizer;
  TestEngine test(small_model(), plain(), options);
  Request asked = request();
  asked.stop_texts.assign(65, "x");
  EXPECT_EQ(refusal_of(test, asked).second, "stop_texts: expected at most 64 texts, found 65");
  asked.stop_texts = {std::string(4097, 'x')};
  EXPECT_EQ(refusal_of(test, asked).second,
            "stop_texts: expected texts of at most 4096 bytes, found 4097");
  asked.stop_texts.assign(64, std::string(4096, 'x'));
  EXPECT_EQ(refusal_of(test, asked).second, "accepted");
}

TEST(Engine, RefusesARequestWhileAsManyWaitAsMay) {
  TestOptions options;
  options.most_waiting = 2;
  TestEngine test(small_model(), plain(), options);
  for (int i = 0; i < 2; ++i) test.submit(request());
  const auto [reason, message] = refusal_of(test, request());
  EXPECT_EQ(reason, Refusal::Reason::queue_full);
  EXPECT_EQ(message, "queue: expected fewer than 2 requests that wait, found 2");
  test.engine.step();  // there is room for both
  EXPECT_EQ(refusal_of(test, request()).second, "accepted");
}

TEST(Engine, RefusesBadOptionsOfItsOwn) {
  TestOptions options;
  options.chunk = 0;
  EXPECT_THROW(TestEngine(small_model(), plain(), options), UsageError);
  options = {};
  options.policy = "guess";
  EXPECT_THROW(TestEngine(small_model(), plain(), options), UsageError);
}

}  // namespace
}  // namespace talon::refusal_test
