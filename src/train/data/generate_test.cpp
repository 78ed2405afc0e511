#include "train/data/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "core/error.h"
#include "core/half.h"
#include "draft/registry.h"
#include "train/data/recorder.h"
#include "train/data/test_folder.h"

namespace talon::generate_test {
namespace {

using test::contents;
using test::data_model;
using test::DataFolder;
using test::fill;
using test::letters_plan;
using test::small_plan;
using test::small_work;

/// What one forward over all tokens gives, as half floats.
std::vector<std::uint16_t> rows_of_a_fresh_forward(const Conversation& conversation,
                                                   const std::vector<FeatureTap>& taps) {
  const auto& model = data_model();
  KvCache cache(*model.backend, kv_shape(model.model.config, 4));
  const auto tokens = conversation.tokens.first(conversation.tokens.size() - 1);
  Target target(model.model, cache, static_cast<int>(tokens.size()), taps);
  KvSequence sequence = cache.start(tokens, false);
  EXPECT_TRUE(sequence.reserve(static_cast<int>(tokens.size())));
  const SequenceRows rows{&sequence, tokens, {}, SequenceRows::Logits::none};
  const View features = target.forward(std::span(&rows, 1)).features;
  std::vector<float> values(static_cast<std::size_t>(features.rows * features.cols));
  model.backend->download(features, values);
  std::vector<std::uint16_t> halves;
  for (const float value : values) halves.push_back(float_to_half(value));
  return halves;
}

TEST(TrainData, FeaturesAreThoseOfAFreshForward) {
  for (const char* drafter : {"none", "ngram"}) {
    GenerateOptions options = small_work();
    options.drafter = drafter;
    options.policy = "fixed";
    DataFolder folder;
    fill(folder.path(), letters_plan(5), options);
    const Dataset dataset(folder.path());
    ASSERT_GE(dataset.size(), 5u);
    for (std::size_t i = 0; i < dataset.size(); ++i) {
      const Conversation conversation = dataset.read(i);
      const auto fresh = rows_of_a_fresh_forward(conversation, options.taps);
      EXPECT_EQ(test::halves_of(conversation), fresh) << drafter << " conversation " << i;
    }
  }
}

TEST(TrainData, BeginningsThatConversationsShareAreRunOnce) {
  std::vector<Prompt> prompts;
  for (int i = 0; i < 8; ++i)
    prompts.push_back({"everyone" + std::string(3, static_cast<char>('a' + i)), "s", "MIT"});
  const DataPlan plan = plan_prompts(prompts, test::encode_letters, {}, small_plan());
  for (const char* drafter : {"none", "ngram"}) {
    GenerateOptions options = small_work();
    options.drafter = drafter;
    DataFolder folder;
    const GenerateReport report = fill(folder.path(), plan, options);
    // All but those that began before one had ended; the last common token's row is run again.
    const auto later = report.conversations - static_cast<std::uint64_t>(options.batch);
    EXPECT_GE(report.copied_tokens, 8 * later) << drafter;
    const Dataset dataset(folder.path());
    for (std::size_t i = 0; i < dataset.size(); ++i) {
      const Conversation conversation = dataset.read(i);
      EXPECT_EQ(test::halves_of(conversation), rows_of_a_fresh_forward(conversation, options.taps))
          << drafter << " conversation " << i;
    }
  }
}

TEST(TrainData, AnswersAreThoseOfTheEngineAlone) {
  DataFolder folder;
  const DataPlan plan = letters_plan(6);
  fill(folder.path(), plan, small_work());
  const auto all = contents(folder.path());
  ASSERT_EQ(all.size(), plan.jobs.size());
  test::TestEngine engine(data_model(), make_drafter("none", {}));
  for (const DataJob& job : plan.jobs) {
    Request request;
    request.prompt = plan.prompts[job.prompt].tokens;
    request.max_new = small_work().max_new;
    request.sampler.temperature = job.temperature;
    request.seed = job.seed;
    request.end_tokens = small_work().end_tokens;
    std::vector<TokenId> tokens = request.prompt;
    const auto answer = engine.run(request).tokens;
    tokens.insert(tokens.end(), answer.begin(), answer.end());
    const auto found = all.find(tokens);
    ASSERT_NE(found, all.end());
    EXPECT_EQ(found->second.response_begin, static_cast<int>(request.prompt.size()));
    EXPECT_EQ(found->second.source, plan.prompts[job.prompt].source);
  }
}

TEST(TrainData, BatchChunkAndDrafterChangeNothing) {
  DataFolder one, other;
  GenerateOptions options = small_work();
  fill(one.path(), letters_plan(7), options);
  options.batch = 5;
  options.chunk = 100;
  options.max_rows = 64;
  options.drafter = "ngram";
  fill(other.path(), letters_plan(7), options);
  EXPECT_EQ(contents(one.path()), contents(other.path()));
}

TEST(TrainData, TwoShardsHoldWhatOneRunDoes) {
  DataFolder one, two;
  fill(one.path(), letters_plan(9), small_work());
  for (int shard = 0; shard < 2; ++shard) {
    PlanOptions options = small_plan();
    options.shard = shard;
    options.shards = 2;
    fill(two.path(), letters_plan(9, options), small_work(), options);
  }
  EXPECT_EQ(list_shards(two.path()).size(), 2u);
  EXPECT_EQ(contents(one.path()), contents(two.path()));
}

TEST(TrainData, KilledAtAnyByteAndStartedAgainItHoldsTheSame) {
  DataFolder folder;
  fill(folder.path(), letters_plan(4), small_work());
  const auto whole = contents(folder.path());
  const auto shard = folder.only_shard();
  const auto bytes = std::filesystem::file_size(shard);
  for (const std::uintmax_t end : {std::uintmax_t{0}, std::uintmax_t{20}, std::uintmax_t{64},
                                   std::uintmax_t{65}, bytes / 2, bytes - 1}) {
    std::filesystem::resize_file(shard, end);
    EXPECT_LT(Dataset(folder.path()).size(), whole.size());
    std::string notes;
    const GenerateReport report = fill(folder.path(), letters_plan(4), small_work(), {}, &notes);
    EXPECT_TRUE(report.complete);
    EXPECT_EQ(report.conversations + report.resumed_conversations, whole.size());
    EXPECT_EQ(contents(folder.path()), whole) << "cut at byte " << end;
    if (end > 64) {
      EXPECT_NE(notes.find("cut off"), std::string::npos) << notes;
    }
  }
}

TEST(TrainData, StopsWhenAskedAndGoesOn) {
  DataFolder whole, folder;
  fill(whole.path(), letters_plan(6), small_work());
  StopFlag stop;
  const auto stop_soon = [&](const GenerateReport& report, std::uint64_t) {
    if (report.conversations >= 2) stop.request();
  };
  const GenerateReport first =
      fill(folder.path(), letters_plan(6), small_work(), {}, nullptr, stop_soon, stop);
  EXPECT_FALSE(first.complete);
  EXPECT_GE(first.conversations, 2u);
  EXPECT_LT(first.conversations, letters_plan(6).jobs.size());
  const GenerateReport second = fill(folder.path(), letters_plan(6), small_work());
  EXPECT_TRUE(second.complete);
  EXPECT_EQ(second.resumed_conversations, first.conversations);
  EXPECT_EQ(contents(folder.path()), contents(whole.path()));
}

TEST(TrainData, EndsNearTheTokensAskedFor) {
  DataFolder folder;
  GenerateOptions options = small_work();
  options.tokens = 60;
  const GenerateReport report = fill(folder.path(), letters_plan(20), options);
  EXPECT_TRUE(report.complete);
  EXPECT_GE(report.response_tokens, 40u);
  EXPECT_LE(report.response_tokens, 60u + 3 * 12);
}

TEST(TrainData, ReadsReadyMadeResponsesAsTheyAre) {
  const std::vector<ReadyResponse> ready = {{{1, 300, 301}, {302, 303, 2}, 0.5, "s"},
                                            {{1, 300, 301}, {302, 303, 2}, 0.5, "s"},
                                            {{1, 310}, {311}, 0, "t"}};
  const DataPlan plan = plan_responses(ready, small_plan());
  EXPECT_EQ(plan.duplicates, 1);
  DataFolder folder;
  const GenerateReport report = fill(folder.path(), plan, small_work());
  EXPECT_EQ(report.response_tokens, 4u);
  const Dataset dataset(folder.path());
  ASSERT_EQ(dataset.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const Conversation c = dataset.read(i);
    const ReadyResponse& from = c.source == "s" ? ready[0] : ready[2];
    EXPECT_EQ(c.temperature, from.temperature);
    EXPECT_EQ(std::vector(c.tokens.begin(), c.tokens.begin() + c.response_begin), from.prompt);
    EXPECT_EQ(std::vector(c.tokens.begin() + c.response_begin, c.tokens.end()), from.response);
    const auto fresh = rows_of_a_fresh_forward(c, small_work().taps);
    EXPECT_EQ(test::halves_of(c), fresh);
  }
}

/// The last token needs no row.
TEST(TrainData, ReadsResponsesThatFillTheContextAndLeavesLongerOnesOut) {
  PlanOptions options = small_plan();
  options.max_new = options.max_prompt = options.context = data_model().model.config.context;
  std::vector<ReadyResponse> ready = {{{1, 300}, {}, 0, "fills"}, {{1, 301}, {}, 0, "longer"}};
  ready[0].response.assign(static_cast<std::size_t>(options.context - 2), 302);
  ready[1].response.assign(static_cast<std::size_t>(options.context - 1), 302);
  const DataPlan plan = plan_responses(ready, options);
  EXPECT_EQ(plan.too_long, 1);
  DataFolder folder;
  EXPECT_TRUE(fill(folder.path(), plan, small_work()).complete);
  const Dataset dataset(folder.path());
  ASSERT_EQ(dataset.size(), 1u);
  EXPECT_EQ(dataset.read(0).rows(), options.context - 1);
}

TEST(TrainData, FeaturesOf8BitsAreThoseOf16Rounded) {
  DataFolder halves, bytes;
  GenerateOptions options = small_work();
  fill(halves.path(), letters_plan(5), options);
  options.features = FeatureType::q8;
  fill(bytes.path(), letters_plan(5), options);
  const Dataset exact(halves.path()), rounded(bytes.path());
  ASSERT_EQ(rounded.size(), exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const Conversation from = exact.read(i), to = rounded.read(i);
    ASSERT_TRUE(std::ranges::equal(from.tokens, to.tokens));
    EXPECT_LT(to.features.size(), from.features.size() * 54 / 100);
    const auto wanted = test::halves_of(from), found = test::halves_of(to);
    ASSERT_EQ(wanted.size(), found.size());
    for (std::size_t group = 0; group < wanted.size(); group += FeatureRows::kGroup) {
      float largest = 0, worst = 0;
      for (std::size_t j = group; j < group + FeatureRows::kGroup; ++j) {
        largest = std::max(largest, std::abs(half_to_float(wanted[j])));
        worst = std::max(worst, std::abs(half_to_float(wanted[j]) - half_to_float(found[j])));
      }
      ASSERT_LE(worst, largest / 127 * 0.65F + 1e-6F) << "conversation " << i;
      ASSERT_TRUE(largest == 0 || worst > 0) << "rounding shows";
    }
  }
  EXPECT_EQ(Dataset({halves.path(), bytes.path()}).size(), 2 * exact.size());
}

TEST(TrainData, AFolderOfTokensBecomesOneWithFeatures) {
  DataFolder tokens, features, fresh;
  GenerateOptions options = small_work();
  fill(fresh.path(), letters_plan(5), options);
  options.taps.clear();
  fill(tokens.path(), letters_plan(5), options);
  const int vocabulary = data_model().model.config.vocabulary;
  const auto responses = read_responses(tokens.path(), vocabulary);
  EXPECT_EQ(responses.size(), Dataset(tokens.path()).size());
  fill(features.path(), plan_responses(responses, small_plan()), small_work());
  const auto found = contents(features.path());
  const auto wanted = contents(fresh.path());
  EXPECT_EQ(std::map(found.begin(), found.end()), std::map(wanted.begin(), wanted.end()));
  EXPECT_THROW(read_responses(tokens.path(), vocabulary + 1), Error);
}

TEST(TrainData, WithoutFeaturesItHoldsTokens) {
  DataFolder with, without;
  GenerateOptions options = small_work();
  fill(with.path(), letters_plan(5), options);
  options.taps.clear();
  fill(without.path(), letters_plan(5), options);
  const Dataset dataset(without.path());
  EXPECT_EQ(dataset.read(0).rows(), 0);
  EXPECT_EQ(dataset.tokens(), Dataset(with.path()).tokens());
}

/// Of half floats.
std::vector<float> floats_of(const Recording& recording) {
  std::vector<std::uint16_t> halves(recording.own.bytes.size() / sizeof(std::uint16_t));
  std::memcpy(halves.data(), recording.own.bytes.data(), recording.own.bytes.size());
  std::vector<float> floats;
  for (const std::uint16_t half : halves) floats.push_back(half_to_float(half));
  return floats;
}

TEST(Recorder, StoresValuesBeyondHalfFloatsAsTheLargestAndSaysSo) {
  Backend& backend = *data_model().backend;
  const auto rows = backend.allocate(1, 4);
  const std::vector<float> values = {1e6F, -1e6F, 65504.0F, 0.5F};
  backend.upload(values, rows.view());
  Recorder recorder({{1}}, FeatureType::f16, backend);
  recorder.begin(7, {});
  const TokenId token = 5;
  recorder.committed(7, {std::span(&token, 1), 1, rows.view(), true});
  recorder.end(7);
  const Recording recording = recorder.take(7);
  EXPECT_EQ(recording.own.saturated, 2u);
  EXPECT_EQ(floats_of(recording), (std::vector{65504.0F, -65504.0F, 65504.0F, 0.5F}));

  const std::vector<float> bad = {0, 0, NAN, 0};
  backend.upload(bad, rows.view());
  recorder.begin(8, {});
  EXPECT_THROW(recorder.committed(8, {std::span(&token, 1), 1, rows.view(), true}), Error);
  EXPECT_NE(recorder.take(8).problem.find("NaN"), std::string::npos);
}

TEST(Recorder, CopiesWhatATextHasInCommonWithTheLast) {
  Backend& backend = *data_model().backend;
  const auto rows = backend.allocate(2, 1);
  const std::vector<float> values = {1, 2};
  backend.upload(values, rows.view());
  const std::vector<TokenId> text = {5, 6, 7};
  Recorder recorder({{1}}, FeatureType::f16, backend);
  EXPECT_EQ(recorder.remembers(text), 0);
  recorder.begin(1, {});
  recorder.committed(1, {text, 0, rows.view(), false});
  recorder.end(1);
  const std::vector<TokenId> other = {5, 6, 8, 9};
  ASSERT_EQ(recorder.remembers(other), 2);
  for (int begins = 1; begins <= 2; ++begins) {  // the second time after it was set back
    recorder.begin(2, std::span(other).first(2));
    EXPECT_EQ(recorder.copied_rows(), static_cast<std::uint64_t>(begins));
  }
  recorder.committed(2, {std::span(other).subspan(2), 2, rows.view(), true});
  recorder.end(2);
  EXPECT_EQ(floats_of(recorder.take(2)), (std::vector<float>{1, 1, 2}));
}

}  // namespace
}  // namespace talon::generate_test
