#include "runtime/answerer.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "runtime/cache_budget.h"
#include "runtime/loaded_model.h"

namespace talon::answerer_test {
namespace {

ModelSource small_model() {
  ModelSource source;
  source.model = TALON_TEST_DATA "/models/stories260K.bin";
  return source;
}

Request story(const LoadedModel& loaded, const char* text) {
  Request request;
  request.prompt = loaded.tokenizer->encode(text, {.parse_special = false, .add_start = true});
  request.max_new = 40;
  request.end_tokens = loaded.end_tokens;
  return request;
}

class AnswererTest : public testing::Test {
 protected:
  Answerer make(const std::string& drafter, const HeadFinder& heads = {}) {
    DecodeSettings settings;
    settings.drafter = drafter;
    settings.heads = heads;
    return Answerer(loaded_.model, *cache_, loaded_.tokenizer_or_null(), settings);
  }

  LoadedModel loaded_ = open_model(small_model());
  std::unique_ptr<KvCache> cache_ = open_cache(loaded_.model);
};

TEST_F(AnswererTest, ThatLostAnAnswerToItsListenerAnswersTheNextAsIfItHadNot) {
  const Request first = story(loaded_, "Once upon a time"), second = story(loaded_, "Tom saw a");
  const Answer expected = make("none").decode(second);
  for (const char* drafter : {"none", "suffix"}) {
    Answerer answerer = make(drafter);
    int rounds = 0;
    const auto fail_in_round_5 = [&](const Progress&) {
      if (++rounds == 5) throw Error("nobody reads this");
    };
    EXPECT_THROW(answerer.decode(first, fail_in_round_5), Error);
    const Answer answer = answerer.decode(second);
    EXPECT_EQ(answer.tokens, expected.tokens) << drafter;
    EXPECT_EQ(answer.text, expected.text) << drafter;
  }
}

TEST_F(AnswererTest, ThatLostAnAnswerHoldsNothingOfTheCacheForIt) {
  Answerer answerer = make("none");
  const auto fail_at_once = [](const Progress&) { throw Error("nobody reads this"); };
  EXPECT_THROW(answerer.decode(story(loaded_, "Once upon a time"), fail_at_once), Error);
  EXPECT_EQ(cache_->free_pages(), cache_->total_pages());
}

TEST_F(AnswererTest, AutoDraftsWithSuffixWhereThereIsNoHead) {
  Answerer answerer = make("auto");
  EXPECT_EQ(answerer.drafter(), "suffix");
  const Request request = story(loaded_, "Once upon a time");
  EXPECT_EQ(answerer.decode(request).tokens, make("none").decode(request).tokens);
}

TEST_F(AnswererTest, EachRequestNamesItsMethod) {
  Answerer answerer = make("none");
  Request request = story(loaded_, "Once upon a time");
  request.max_new = 80;  // at last it repeats itself
  const Answer plain = answerer.decode(request);
  request.method = answerer.method("suffix@policy=fixed");
  const Answer drafted = answerer.decode(request);
  EXPECT_EQ(plain.tau(), 1);
  EXPECT_GT(drafted.tau(), 1);
  EXPECT_EQ(drafted.tokens, plain.tokens);
  EXPECT_EQ(answerer.method("suffix@policy=fixed"), request.method);
  EXPECT_EQ(answerer.method(""), 0);
  EXPECT_EQ(answerer.method("ngram"), 2) << "a method was made twice";
  EXPECT_THROW(answerer.method("suffix@policy=nothing"), UsageError);
  EXPECT_THROW(answerer.method("nothing"), UsageError);
}

TEST_F(AnswererTest, AHeadThatTwoMethodsHaveIsLoadedOnce) {
  int asked = 0;
  const HeadFinder heads = [&](std::string_view) {
    ++asked;
    return std::string(TALON_TEST_DATA "/golden/stories260k/eagle3_head");
  };
  Answerer answerer = make("eagle3", heads);
  EXPECT_EQ(asked, 1);
  Request request = story(loaded_, "Once upon a time");
  const Answer expected = answerer.decode(request);
  for (const char* method : {"eagle3@policy=fixed", "eagle3@policy=eagle2", "auto@policy=fixed"}) {
    request.method = answerer.method(method);
    EXPECT_EQ(answerer.decode(request).tokens, expected.tokens) << method;
  }
  EXPECT_EQ(asked, 3) << "auto asks which heads there are, then loads one for eagle3+suffix";
}

TEST_F(AnswererTest, AHeadIsFoundByItsKindAndOneThatOptionsNameComesFirst) {
  std::vector<std::string> asked;
  const HeadFinder heads = [&](std::string_view kind) {
    asked.emplace_back(kind);
    return std::string("/no/such/head");
  };
  EXPECT_THROW(make("eagle3", heads), Error);
  EXPECT_THROW(make("eagle+ngram", heads), Error);
  EXPECT_EQ(asked, (std::vector<std::string>{"eagle3", "eagle2"}));
  EXPECT_THROW(make("eagle3:head=/nor/this", heads), Error);
  EXPECT_EQ(asked.size(), 2u);
}

TEST_F(AnswererTest, RefusesDraftersThatDoNotExist) {
  EXPECT_THROW(make("nothing"), UsageError);
  EXPECT_THROW(make("eagle3"), UsageError);  // without a head
}

}  // namespace
}  // namespace talon::answerer_test
