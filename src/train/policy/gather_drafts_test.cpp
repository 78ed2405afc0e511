#include "train/policy/gather_drafts.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "draft/registry.h"
#include "train/data/test_folder.h"
#include "train/policy/train_policy.h"

namespace talon::gather_drafts_test {
namespace {

using test::data_model;

constexpr int kLevels = 5;
constexpr int kNodes = 20;
constexpr int kTokens = 40;
const std::string kHead = "head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head";

std::vector<std::vector<TokenId>> prompts(int count) {
  std::vector<std::vector<TokenId>> all;
  for (int i = 0; i < count; ++i)
    all.push_back(test::encode_letters(std::string(5, static_cast<char>('A' + i))));
  return all;
}

GatherOptions options(bool every_position) {
  GatherOptions gather;
  gather.drafter = "eagle3:nodes=1024," + kHead;
  gather.drafts = {.levels = kLevels,
                   .width = 10,
                   .most_nodes = kNodes,
                   .every_position = every_position,
                   .features = every_position,
                   .end_tokens = {2}};
  gather.max_new = kTokens;
  gather.batch = 2;
  return gather;
}

Request request_of(const std::vector<TokenId>& prompt) {
  Request request;
  request.prompt = prompt;
  request.max_new = kTokens;
  request.end_tokens = {2};
  return request;
}

/// What the engine itself decodes with, and what it accepted.
test::Answer decode(const std::string& drafter, const std::string& policy, const Request& request) {
  test::TestOptions engine;
  engine.policy = policy;
  test::TestEngine with(data_model(), make_drafter(drafter, {.target = &data_model().model}),
                        engine);
  return with.run(request);
}

TEST(GatherDrafts, RoundsAcceptWhatTheEngineAcceptsInThem) {
  const auto prompt = prompts(1);
  const auto examples = gather_drafts(data_model().model, prompt, options(false), {}, nullptr);
  const auto answer = decode(fmt::format("eagle3:levels={},nodes={},{}", kLevels, kNodes, kHead),
                             "fixed", request_of(prompt.front()));
  ASSERT_GT(examples.size(), 5U);
  ASSERT_LE(examples.size(), answer.statistics.accepted.size());
  for (std::size_t round = 0; round < examples.size(); ++round) {
    EXPECT_EQ(examples[round].accepted(), answer.statistics.accepted[round]) << round;
    EXPECT_EQ(examples[round].stops.back().nodes, answer.statistics.drafted[round]);
    EXPECT_EQ(examples[round].states.size(), std::size_t{kLevels} - 1);
  }
}

/// A draft is of the noise that the text is drawn with, as it is when the engine decodes.
TEST(GatherDrafts, AboveTemperatureZeroRoundsAcceptWhatTheEngineAcceptsInThem) {
  for (const double temperature : {0.7, 1.0}) {
    GatherOptions gather = options(false);
    gather.temperatures = {temperature};
    gather.seed = 11;
    const auto examples = gather_drafts(data_model().model, prompts(2), gather, {}, nullptr);
    for (int text = 0; text < 2; ++text) {
      Request request = request_of(prompts(2)[static_cast<std::size_t>(text)]);
      request.sampler.temperature = temperature;
      request.seed = gather.seed + static_cast<std::uint64_t>(text);
      const auto answer = decode(
          fmt::format("eagle3:levels={},nodes={},{}", kLevels, kNodes, kHead), "fixed", request);
      std::size_t round = 0;
      for (const DraftExample& example : examples) {
        if (example.text != text) continue;
        ASSERT_LT(round, answer.statistics.accepted.size());
        EXPECT_EQ(example.accepted(), answer.statistics.accepted[round]) << text << " " << round;
        EXPECT_EQ(example.stops.back().nodes, answer.statistics.drafted[round]);
        EXPECT_EQ(example.temperature, temperature);
        ++round;
      }
      EXPECT_GT(round, 3U) << text;
    }
  }
}

/// One number a draft of a text, in order.
std::vector<int> accepted_in(const std::vector<DraftExample>& examples, int text) {
  std::vector<int> accepted;
  for (const DraftExample& example : examples)
    if (example.text == text) accepted.push_back(example.accepted());
  return accepted;
}

TEST(GatherDrafts, AnswersAreDrawnAtTheTemperaturesInTurn) {
  GatherOptions gather = options(true);
  gather.temperatures = {0, 1};
  const std::vector<std::vector<TokenId>> same(4, prompts(1).front());
  const auto examples = gather_drafts(data_model().model, same, gather, {}, nullptr);
  for (const DraftExample& example : examples) EXPECT_EQ(example.temperature, example.text % 2);
  EXPECT_EQ(accepted_in(examples, 0), accepted_in(examples, 2));
  EXPECT_NE(accepted_in(examples, 0), accepted_in(examples, 1));
  EXPECT_NE(accepted_in(examples, 1), accepted_in(examples, 3));
  gather.seed = 2;
  const auto others = gather_drafts(data_model().model, same, gather, {}, nullptr);
  EXPECT_EQ(accepted_in(examples, 0), accepted_in(others, 0));
  EXPECT_NE(accepted_in(examples, 1), accepted_in(others, 1));
}

TEST(GatherDrafts, AStopAfterALevelIsTheTreeOfThatManyLevels) {
  const auto prompt = prompts(1);
  const auto examples = gather_drafts(data_model().model, prompt, options(false), {}, nullptr);
  for (int levels = 1; levels < kLevels; ++levels) {
    const auto answer = decode(fmt::format("eagle3:levels={},nodes={},{}", levels, kNodes, kHead),
                               "fixed", request_of(prompt.front()));
    const StopOutcome& stop = examples.front().stops[static_cast<std::size_t>(levels) - 1];
    EXPECT_EQ(stop.accepted, answer.statistics.accepted.front()) << levels;
    EXPECT_EQ(stop.nodes, answer.statistics.drafted.front()) << levels;
  }
}

TEST(GatherDrafts, EveryPositionHasItsDraftAndFeature) {
  const auto examples = gather_drafts(data_model().model, prompts(2), options(true), {}, nullptr);
  const auto rounds = gather_drafts(data_model().model, prompts(2), options(false), {}, nullptr);
  EXPECT_GT(examples.size(), rounds.size());
  for (const DraftExample& example : examples) {
    EXPECT_EQ(example.feature.size(),
              2 * static_cast<std::size_t>(data_model().model.config.hidden));
    EXPECT_LE(example.accepted(), kLevels);
  }
}

TEST(GatherDrafts, WhatIsLearnedRunsAsPolicyAndChangesNoToken) {
  const test::DataFolder out;
  PolicyTrainOptions train;
  train.out = out.path().string();
  train.width = 16;
  train.epochs = 3;
  auto examples = gather_drafts(data_model().model, prompts(4), options(true), {}, nullptr);
  const FitHooks hooks{[](std::string_view) {}, nullptr};
  const auto result = train_policy(train, std::move(examples), flat_costs(0.1), {}, hooks);
  const Request request = request_of(prompts(1).front());
  const auto drafted =
      decode("eagle3:" + kHead, "ada_eagle:topk=10,predictor=" + result.file.string(), request);
  EXPECT_EQ(drafted.tokens, decode("none", "fixed", request).tokens);
}

TEST(GatherDrafts, StopsWhenAsked) {
  StopFlag stop;
  stop.request();
  EXPECT_TRUE(gather_drafts(data_model().model, prompts(2), options(true), {}, &stop).empty());
}

TEST(GatherDrafts, WhatDoesNotFitIsNamed) {
  EXPECT_THROW(gather_drafts(data_model().model, {}, options(true), {}, nullptr), Error);
  GatherOptions unknown = options(true);
  unknown.drafter = "nonsense";
  EXPECT_THROW(gather_drafts(data_model().model, prompts(1), unknown, {}, nullptr), UsageError);
  EXPECT_THROW(with_whole_pool("eagle3+ngram"), UsageError);
  EXPECT_EQ(with_whole_pool("eagle3"), "eagle3:nodes=1024");
  EXPECT_EQ(with_whole_pool("eagle3:nodes=7"), "eagle3:nodes=7");
}

}  // namespace
}  // namespace talon::gather_drafts_test
