#include "train/data/plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/error.h"
#include "train/data/test_folder.h"

namespace talon::plan_test {
namespace {

using test::encode_letters;
using test::small_plan;
using test::some_prompts;

std::set<std::uint64_t> ids_of(const DataPlan& plan) {
  std::set<std::uint64_t> ids;
  for (const DataJob& job : plan.jobs) ids.insert(job.id);
  EXPECT_EQ(ids.size(), plan.jobs.size());
  return ids;
}

TEST(DataPlan, AsksEachTextOnceAndLeavesOutLongOnes) {
  const std::vector<Prompt> prompts = {
      {"one", "a", ""}, {" one\n", "b", ""}, {"two", "a", ""}, {std::string(100, 'x'), "a", ""}};
  PlanOptions options = small_plan();
  options.max_prompt = 50;
  const DataPlan plan = plan_prompts(prompts, encode_letters, {}, options);
  EXPECT_EQ(plan.read, 4);
  EXPECT_EQ(plan.duplicates, 1);
  EXPECT_EQ(plan.too_long, 1);
  ASSERT_EQ(plan.prompts.size(), 2u);
  EXPECT_EQ(plan.prompts[0].source, "a");
}

TEST(DataPlan, AnswersAPromptGreedilyAtMostOnceAndKeepsTheMix) {
  PlanOptions options = small_plan();
  options.samples = 8;
  const DataPlan plan = plan_prompts(some_prompts(26), encode_letters, {}, options);
  std::map<std::uint32_t, int> greedy;
  int sampled = 0;
  for (const DataJob& job : plan.jobs) {
    if (job.temperature == 0) {
      ++greedy[job.prompt];
    } else {
      ++sampled;
      EXPECT_GE(job.temperature, 0.7F);
      EXPECT_LE(job.temperature, 1.0F);
    }
  }
  EXPECT_EQ(greedy.size(), plan.prompts.size());
  for (const auto& [prompt, times] : greedy) EXPECT_EQ(times, 1);
  EXPECT_NEAR(sampled / (8.0 * 26), 0.5, 0.05);
}

TEST(DataPlan, ShardsShareTheJobsAndNamesDoNotDependOnOrder) {
  const DataPlan whole = plan_prompts(some_prompts(20), encode_letters, {}, small_plan());
  std::set<std::uint64_t> together;
  std::size_t jobs = 0;
  for (int shard = 0; shard < 3; ++shard) {
    PlanOptions options = small_plan();
    options.shard = shard;
    options.shards = 3;
    auto prompts = some_prompts(20);
    std::reverse(prompts.begin(), prompts.end());
    const DataPlan part = plan_prompts(prompts, encode_letters, {}, options);
    jobs += part.jobs.size();
    together.merge(ids_of(part));
  }
  EXPECT_EQ(jobs, whole.jobs.size());
  EXPECT_EQ(together, ids_of(whole));
}

TEST(DataPlan, AnotherSeedLengthOrGuidanceIsAnotherAnswer) {
  PlanOptions other_seed = small_plan(), longer = small_plan(), guided = small_plan();
  other_seed.seed = 2;
  longer.max_new = 13;
  guided.guidance = 2;
  const auto ids = ids_of(plan_prompts(some_prompts(9), encode_letters, {}, small_plan()));
  for (const PlanOptions& options : {longer, guided}) {
    for (const auto id : ids_of(plan_prompts(some_prompts(9), encode_letters, {}, options))) {
      EXPECT_FALSE(ids.contains(id));
    }
  }
  EXPECT_NE(ids, ids_of(plan_prompts(some_prompts(9), encode_letters, {}, other_seed)));
  guided.guidance = 1;  // no guide
  EXPECT_EQ(ids, ids_of(plan_prompts(some_prompts(9), encode_letters, {}, guided)));
}

TEST(Overlap, FindsThirteenEqualWordsAndWholeShortQuestions) {
  Overlap overlap;
  overlap.hold_out(
      "One two three four five six seven eight nine ten eleven twelve thirteen fourteen?");
  overlap.hold_out("Who are you?");
  EXPECT_TRUE(overlap.touches(
      "Say: two THREE four, five six seven eight nine ten eleven twelve thirteen fourteen. Why"));
  EXPECT_FALSE(overlap.touches("three four five six seven eight nine ten eleven twelve thirteen"));
  EXPECT_TRUE(overlap.touches(" who are you "));
  EXPECT_FALSE(overlap.touches("Who are you, my friend?"));
  EXPECT_FALSE(overlap.touches(""));
}

TEST(DataPlan, KeepsHeldOutQuestionsOut) {
  Overlap overlap;
  overlap.hold_out("Name three colours.");
  const std::vector<Prompt> prompts = {{"name three colours", "a", ""}, {"name two", "a", ""}};
  const DataPlan plan = plan_prompts(prompts, encode_letters, overlap, small_plan());
  EXPECT_EQ(plan.held_out, 1);
  EXPECT_EQ(plan.prompts.size(), 1u);
}

TEST(TemperatureMix, GivesEachPartItsWeight) {
  const TemperatureMix mix("0:1,0.5-1:3");
  EXPECT_EQ(mix.at(0), 0);
  EXPECT_EQ(mix.at(0.2499), 0);
  EXPECT_NEAR(mix.at(0.25), 0.5, 1e-9);
  EXPECT_NEAR(mix.at(0.625), 0.75, 1e-9);
  EXPECT_NEAR(mix.at(0.999999), 1, 1e-5);
  EXPECT_EQ(TemperatureMix("0.8").at(0.3), 0.8);
  EXPECT_EQ(TemperatureMix("1:1,0:0").at(0.9999999), 1);
}

TEST(TemperatureMix, RefusesWhatIsNoMix) {
  for (const char* text : {"", "a", "0.5-", "-1", "1:x", "1:0", "0:1,,1:1", "0:1,", "nan", "1e9"}) {
    EXPECT_THROW(TemperatureMix{text}, UsageError) << text;
  }
}

}  // namespace
}  // namespace talon::plan_test
