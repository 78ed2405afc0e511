#include "learn/replay.h"

#include <gtest/gtest.h>

#include <numeric>

#include "draft/registry.h"
#include "learn/served_recorder.h"
#include "learn/text_ring.h"
#include "train/data/test_folder.h"

namespace talon::test::replay_test {
namespace {

const std::string kTree =
    "eagle3:topk=8,levels=6,nodes=15,head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head";

/// Tokens per check of the engine, whose answers are kept in `folder`.
double served_tau(const std::filesystem::path& folder, const SamplerOptions& sampler,
                  const std::string& rule = "follow") {
  std::vector<FeatureTap> taps = make_drafter(kTree, {.target = &data_model().model})->taps();
  taps.push_back({FeatureTap::kFinalNorm});
  TextRing ring(folder, data_target(taps), 1 << 26, [](const std::string&) {});
  ServedRecorder recorder(taps, FeatureType::f16, *data_model().backend);
  TestOptions options;
  options.listener = &recorder;
  options.policy = "fixed";
  TestEngine engine(data_model(), make_drafter(kTree, {.target = &data_model().model}), options, 64,
                    make_verifier(rule));
  int rounds = 0, tokens = 0;
  for (int i = 0; i < 12; ++i) {
    Request request;
    request.prompt = {1, 300 + i, 407, 261};
    request.max_new = 80;
    request.seed = static_cast<std::uint64_t>(i);
    request.sampler = sampler;
    const SequenceId id = engine.submit(request);
    while (!engine.engine.idle()) engine.engine.step();
    const SequenceStatistics& statistics = engine.engine.statistics(id);
    rounds += statistics.rounds;
    tokens += std::accumulate(statistics.accepted.begin(), statistics.accepted.end(), 0);
    ServedAnswer answer(request);
    answer.races = engine.engine.knows_noise(request.method);
    ring.append(*recorder.take(id, answer));
  }
  return 1 + static_cast<double>(tokens) / rounds;
}

double replayed_tau(const std::filesystem::path& folder) {
  const Dataset data(folder);
  Replay replay(data_model().model, kTree, newest_texts(data, 1 << 20));
  while (replay.step()) {
  }
  EXPECT_GT(replay.rounds(), 0);
  return replay.tau();
}

TEST(Replay, OfGreedyTextsFindsWhatTheEngineAccepted) {
  const DataFolder folder;
  const double served = served_tau(folder.path(), {});
  EXPECT_GT(served, 1.2);
  EXPECT_NEAR(replayed_tau(folder.path()), served, 0.02 * served);
}

TEST(Replay, OfDrawnTextsKnowsTheNoiseAsTheEngineDid) {
  const DataFolder folder;
  const double served = served_tau(folder.path(), {.temperature = 1});
  EXPECT_GT(served, 1.2);
  EXPECT_NEAR(replayed_tau(folder.path()), served, 0.02 * served);
}

/// Answers then hold much that a head which is not told would rank far below.
TEST(Replay, KnowsTheBansAndTheBiasOfTheRequestsAsTheEngineDid) {
  for (const double temperature : {0.0, 1.0}) {
    const DataFolder folder;
    const SamplerOptions sampler{.temperature = temperature,
                                 .logit_bias = {{410, 5.0F}, {420, 5.0F}, {430, 5.0F}, {440, 5.0F}},
                                 .banned = {261, 432}};
    const double served = served_tau(folder.path(), sampler);
    EXPECT_GT(served, 1);
    EXPECT_NEAR(replayed_tau(folder.path()), served, 0.02 * served) << temperature;
  }
}

TEST(Replay, OfTextsDrawnByAnotherRuleKnowsNoNoiseEither) {
  const DataFolder folder;
  const double served = served_tau(folder.path(), {.temperature = 1}, "token");
  EXPECT_GT(served, 1);
  EXPECT_NEAR(replayed_tau(folder.path()), served, 0.02 * served);
}

TEST(Replay, OfTextsWithoutTheVectorsOfAHeadIsAnError) {
  const DataFolder folder;
  fill(folder.path(), letters_plan(4), [] {
    GenerateOptions work = small_work();
    work.taps = {{FeatureTap::kFinalNorm}};
    return work;
  }());
  const Dataset data(folder.path());
  Replay replay(data_model().model, kTree, newest_texts(data, 100));
  EXPECT_THROW(replay.step(), Error);
}

TEST(Replay, NewestTextsAreThoseThatWereWrittenLast) {
  const DataFolder folder;
  fill(folder.path(), letters_plan(6), small_work());
  const Dataset data(folder.path());
  const ReplayTexts texts = newest_texts(data, 13);
  ASSERT_EQ(texts.chosen.size(), 2U);
  EXPECT_EQ(texts.chosen[0], data.size() - 1);
  EXPECT_EQ(texts.chosen[1], data.size() - 2);
}

}  // namespace
}  // namespace talon::test::replay_test
