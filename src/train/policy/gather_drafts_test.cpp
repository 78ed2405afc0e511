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

/// What the engine itself decodes with, and what it accepted.
test::Answer decode(const std::string& drafter, const std::string& policy,
                    const std::vector<TokenId>& prompt) {
  test::TestOptions engine;
  engine.policy = policy;
  test::TestEngine with(data_model(), make_drafter(drafter, {.target = &data_model().model}),
                        engine);
  Request request;
  request.prompt = prompt;
  request.max_new = kTokens;
  request.end_tokens = {2};
  return with.run(request);
}

TEST(GatherDrafts, RoundsAcceptWhatTheEngineAcceptsInThem) {
  const auto prompt = prompts(1);
  const auto examples = gather_drafts(data_model().model, prompt, options(false), {}, nullptr);
  const auto answer = decode(fmt::format("eagle3:levels={},nodes={},{}", kLevels, kNodes, kHead),
                             "fixed", prompt.front());
  ASSERT_GT(examples.size(), 5U);
  ASSERT_LE(examples.size(), answer.statistics.accepted.size());
  for (std::size_t round = 0; round < examples.size(); ++round) {
    EXPECT_EQ(examples[round].accepted(), answer.statistics.accepted[round]) << round;
    EXPECT_EQ(examples[round].stops.back().nodes, answer.statistics.drafted[round]);
    EXPECT_EQ(examples[round].states.size(), std::size_t{kLevels} - 1);
  }
}

TEST(GatherDrafts, AStopAfterALevelIsTheTreeOfThatManyLevels) {
  const auto prompt = prompts(1);
  const auto examples = gather_drafts(data_model().model, prompt, options(false), {}, nullptr);
  for (int levels = 1; levels < kLevels; ++levels) {
    const auto answer = decode(fmt::format("eagle3:levels={},nodes={},{}", levels, kNodes, kHead),
                               "fixed", prompt.front());
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
  const auto prompt = prompts(1).front();
  const auto drafted =
      decode("eagle3:" + kHead, "ada_eagle:topk=10,predictor=" + result.file.string(), prompt);
  EXPECT_EQ(drafted.tokens, decode("none", "fixed", prompt).tokens);
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
