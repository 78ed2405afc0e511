#include "learn/served_recorder.h"

#include <gtest/gtest.h>

#include "draft/registry.h"
#include "train/data/test_folder.h"

namespace talon::test::served_recorder_test {
namespace {

const std::vector<FeatureTap> kTaps = {{1}, {2}, {4}, {FeatureTap::kFinalNorm}};

Request request_of(const std::vector<TokenId>& prompt, int max_new = 10) {
  Request request;
  request.prompt = prompt;
  request.max_new = max_new;
  return request;
}

/// An engine on the tiny model whose answers are recorded.
struct Recorded {
  explicit Recorded(int pages = 64)
      : recorder(kTaps, FeatureType::f16, *data_model().backend),
        engine(data_model(), make_drafter("none", {}), options(), pages) {}

  TestOptions options() {
    TestOptions result;
    result.listener = &recorder;
    return result;
  }
  std::optional<Record> answer(const Request& request) {
    const SequenceId id = engine.submit(request);
    while (!engine.engine.idle()) engine.engine.step();
    return recorder.take(id, ServedAnswer(request));
  }

  ServedRecorder recorder;
  TestEngine engine;
};

const std::vector<TokenId> kPrompt = {1, 403, 407, 261, 378, 432, 300, 301, 302};

TEST(ServedRecorder, RecordsTheRowsOfEveryTokenButTheLast) {
  const std::optional<Record> record = Recorded().answer(request_of(kPrompt));
  ASSERT_TRUE(record);
  EXPECT_EQ(record->tokens.size(), kPrompt.size() + 10);
  EXPECT_EQ(record->response_begin, static_cast<int>(kPrompt.size()));
  const std::size_t row = 4 * static_cast<std::size_t>(data_model().model.config.hidden) * 2;
  EXPECT_EQ(record->features.size(), (record->tokens.size() - 1) * row);
  EXPECT_EQ(ServedSource::parse(record->source)->first, 0);
}

TEST(ServedRecorder, CopiesTheBeginningThatTheCacheRemembersAndCostsNoRow) {
  const std::vector<TokenId> longer = {1, 403, 407, 261, 378, 432, 350, 351, 352, 353};
  const std::optional<Record> alone = Recorded().answer(request_of(longer));
  Recorded recorded;
  recorded.answer(request_of(kPrompt));
  const SequenceId id = recorded.engine.submit(request_of(longer));
  int reused = 0;
  while (!recorded.engine.engine.idle()) {
    recorded.engine.engine.step();
    reused = recorded.engine.engine.statistics(id).reused_tokens;
  }
  EXPECT_GT(reused, 0);
  const auto after = recorded.recorder.take(id, ServedAnswer(request_of(longer)));
  ASSERT_TRUE(alone && after);
  EXPECT_EQ(after->tokens, alone->tokens);
  EXPECT_EQ(after->features, alone->features);
}

TEST(ServedRecorder, BeginsBehindWhatNoTextRemembers) {
  std::vector<TokenId> longer = kPrompt;
  Recorded recorded;
  const std::optional<Record> first = recorded.answer(request_of(kPrompt, 300));
  ASSERT_TRUE(first);
  // The next turn of the conversation: its beginning is longer than what is kept of it.
  std::vector<TokenId> turn = first->tokens;
  turn.insert(turn.end(), {300, 301, 302});
  const std::optional<Record> second = recorded.answer(request_of(turn));
  ASSERT_TRUE(second);
  const int from = ServedSource::parse(second->source)->first;
  EXPECT_GT(from, 256);
  std::vector<TokenId> rest(turn.begin() + from, turn.end());
  EXPECT_EQ(second->response_begin, static_cast<int>(rest.size()));
  rest.insert(rest.end(), second->tokens.begin() + second->response_begin, second->tokens.end());
  EXPECT_EQ(second->tokens, rest);
  // Its rows are those of the same text run whole.
  Recorded apart;
  Request whole = request_of(turn);
  const std::optional<Record> all = apart.answer(whole);
  ASSERT_TRUE(all);
  const std::size_t row = all->features.size() / (all->tokens.size() - 1);
  const std::vector<std::byte> tail(
      all->features.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(from) * row),
      all->features.end());
  EXPECT_EQ(second->features, tail);
}

TEST(ServedRecorder, LeavesOutAnswersWithTooLittleToLearnFrom) {
  EXPECT_FALSE(Recorded().answer(request_of(kPrompt, 3)));
}

TEST(ServedRecorder, SaysOfAGreedyAnswerThatItIsOneAndOfOthersWhetherDraftsKnewTheNoise) {
  Request request = request_of(kPrompt);
  request.sampler.temperature = 0.5;
  EXPECT_EQ(ServedAnswer(request).temperature, 0.5);
  request.sampler.top_k = 1;
  EXPECT_EQ(ServedAnswer(request).temperature, 0);
  for (const bool races : {true, false}) {
    Recorded recorded;
    const SequenceId id = recorded.engine.submit(request);
    while (!recorded.engine.engine.idle()) recorded.engine.engine.step();
    ServedAnswer answer(request);
    answer.races = races;
    const std::optional<Record> record = recorded.recorder.take(id, answer);
    ASSERT_TRUE(record);
    EXPECT_EQ(ServedSource::parse(record->source)->races, races);
  }
}

TEST(ServedSource, IsReadAsItIsWritten) {
  for (const bool races : {true, false}) {
    const ServedSource source{
        18446744073709551615ULL, 3, 26, races, {{5, 9}, {{7, 2.5F}, {3, -0.1F}, {0, 1e-7F}}}};
    const std::optional<ServedSource> read = ServedSource::parse(source.text());
    ASSERT_TRUE(read);
    EXPECT_EQ(read->seed, source.seed);
    EXPECT_EQ(read->choice, source.choice);
    EXPECT_EQ(read->first, source.first);
    EXPECT_EQ(read->races, races);
    EXPECT_EQ(read->changes, source.changes);
  }
  EXPECT_FALSE(ServedSource::parse("teknium1/GPTeacher"));
}

/// Texts of earlier servers do not say whether drafts knew the noise.
TEST(ServedSource, IsReadAsEarlierServersWroteIt) {
  const std::optional<ServedSource> read = ServedSource::parse("served seed=7 choice=1 first=3");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->first, 3);
  EXPECT_TRUE(read->races);
  EXPECT_EQ(read->changes, ServedChanges());
}

/// Of a folder that was damaged: a drafter would look up what is no token.
TEST(ServedSource, LeavesOutChangesThatNoRequestCanHave) {
  const std::optional<ServedSource> read = ServedSource::parse(
      "served seed=7 choice=1 first=3 ban=-4,x,6,,8 bias=2:nan,-1:2,3,4:inf,5:1.5,");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->changes, (ServedChanges{{6, 8}, {{5, 1.5F}}}));
}

TEST(ServedAnswer, TellsOfAFewBansAndBiasesAndOfManyNothing) {
  Request request = request_of(kPrompt);
  request.sampler.banned = {7, 9};
  request.sampler.logit_bias = {{3, 1.5F}};
  EXPECT_EQ(ServedAnswer(request).changes, (ServedChanges{{7, 9}, {{3, 1.5F}}}));
  request.sampler.banned.assign(ServedChanges::kMost, 7);
  EXPECT_EQ(ServedAnswer(request).changes, ServedChanges());
}

}  // namespace
}  // namespace talon::test::served_recorder_test
