#include "exactness.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "draft/registry.h"
#include "io/test_files.h"
#include "models.h"
#include "random_heads.h"

namespace talon::test::exactness_test {
namespace {

using Names = std::set<std::string>;

/// Of drafters that need a head, where a plan has none.
Names needing_heads() {
  Names names;
  for (const DrafterEntry& entry : drafters()) {
    if (entry.needs_head) names.emplace(entry.name);
  }
  return names;
}

/// Without accepted drafts the comparison would say nothing. Other policies may draft nothing.
void expect_accepted_drafts(const ExactnessPlan& plan, const ExactnessReport& report) {
  int looked_at = 0;
  for (const double hit : plan.hits) {
    if (hit == 0) continue;
    for (const std::string policy : {"fixed", "eagle2"}) {
      if (std::ranges::find(plan.policies, policy) == plan.policies.end()) continue;
      const std::string name = fmt::format("random-tree:hit={} {}", hit, policy);
      ASSERT_TRUE(report.tau.contains(name)) << name;
      EXPECT_GT(report.tau.at(name), hit == 1 && policy == "fixed" ? 2.5 : 1) << name;
      ++looked_at;
    }
  }
  EXPECT_TRUE(looked_at > 0 || plan.hits.empty()) << "no policy that always drafts";
}

/// skipped: the drafters that cannot be made; stories260K and SmolLM2 have no prediction layer.
void expect_exact(const ExactnessPlan& plan, int least_cases, const Names& skipped = {"mtp"}) {
  const ExactnessReport report = check_exactness(plan);
  EXPECT_GE(report.cases, least_cases);
  for (std::size_t i = 0; i < std::min<std::size_t>(report.differences.size(), 5); ++i) {
    ADD_FAILURE() << report.differences[i];
  }
  EXPECT_EQ(report.differences.size(), 0u);
  expect_accepted_drafts(plan, report);
  Names found;
  for (const std::string& line : report.skipped) found.insert(line.substr(0, line.find(':')));
  EXPECT_EQ(found, skipped) << fmt::format("{}", fmt::join(report.skipped, "\n"));
}

/// Trained EAGLE heads, and random ones for the drafters that have no trained one.
std::vector<std::filesystem::path> stories_heads() {
  static const TemporaryFolder folder;
  static const auto random =
      write_random_heads(folder.path(), read_model_config(open_checkpoint(kStories260k)));
  std::vector<std::filesystem::path> heads;
  for (const char* head : {"eagle1_head", "eagle3_head"}) {
    heads.push_back(std::filesystem::path(TALON_TEST_DATA "/golden/stories260k") / head);
  }
  for (const char* head : {"dflash", "dspark", "peagle"}) {
    heads.push_back(std::filesystem::path(TALON_TEST_DATA "/golden/blocks") / head / "head");
  }
  heads.insert(heads.end(), random.begin(), random.end());
  heads.push_back(kStories260k);  // as a model that drafts
  return heads;
}

ExactnessPlan stories_plan(std::unique_ptr<Backend> (*make_backend)(int)) {
  ExactnessPlan plan;
  plan.model = kStories260k;
  plan.make_backend = make_backend;
  plan.prompts = story_prompts();
  plan.samplers = standard_samplers();
  plan.policies = {"fixed"};
  plan.max_new = 24;
  plan.heads = stories_heads();
  return plan;
}

TEST(Exactness, Stories260kOnCpuGivesTheTokensOfPlainDecodingInEverySetting) {
  ExactnessPlan plan = stories_plan(cpu_backend);
  plan.hits = {0.5, 1};
  plan.chunks = {1, 7, 1024};
  expect_exact(plan, 150);
}

TEST(Exactness, NoPolicyChangesATokenOnCpu) {
  ExactnessPlan plan = stories_plan(cpu_backend);
  plan.policies = all_policies();
  plan.merged = true;
  plan.chunks = {7};
  plan.threads = {1};
  plan.max_new = 40;
  plan.strength = 2;
  expect_exact(plan, 150);
}

TEST(Exactness, Stories260kOnReferenceGivesTheTokensOfPlainDecoding) {
  ExactnessPlan plan = stories_plan(reference_backend);
  plan.chunks = {7};
  plan.hits = {0.9};
  plan.prompts.erase(plan.prompts.begin());
  plan.max_new = 8;
  plan.strength = 2;
  expect_exact(plan, 30);
}

TEST(Exactness, HoldsWithPenaltiesAndEveryCut) {
  ExactnessPlan plan = stories_plan(cpu_backend);
  plan.samplers = {
      {.temperature = 0.3, .top_k = 30},
      {.temperature = 0.9, .top_k = 40, .min_p = 0.02, .typical_p = 0.95},
      {.temperature = 1.2, .top_p = 0.95, .repetition_penalty = 1.3, .penalty_window = 24},
      {.repetition_penalty = 1.2}};
  plan.hits = {0.9};
  plan.chunks = {7};
  plan.threads = {1};
  expect_exact(plan, 100);
}

TEST(Exactness, HoldsWithPenaltiesOnTheAnswerAlone) {
  ExactnessPlan plan = stories_plan(cpu_backend);
  plan.samplers = {{.temperature = 0.7,
                    .presence_penalty = 0.4,
                    .frequency_penalty = 0.2,
                    .logit_bias = {{261, 2.0F}, {298, -3.0F}},
                    .banned = {376}}};
  plan.hits = {0.5, 0.9};
  plan.chunks = {7};
  plan.threads = {1};
  plan.with_reuse = {false};  // a part of the answer would be in the prompt
  expect_exact(plan, 20);
}

TEST(Exactness, HoldsWithStopTexts) {
  ExactnessPlan plan = stories_plan(cpu_backend);
  plan.stop_texts = {"and", "the p"};
  plan.make_tokenizer = [] {
    return Tokenizer::from_llama2c(TALON_TEST_DATA "/models/tok512.bin");
  };
  plan.merged = true;
  plan.hits = {0.9};
  plan.chunks = {7};
  plan.threads = {1};
  plan.with_reuse = {false};  // the first part of a stop text would be in the prompt
  plan.max_new = 48;
  plan.strength = 2;
  expect_exact(plan, 50);
}

const std::vector<GrammarText> kGrammars = {
    {GrammarText::Kind::json_schema,
     R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
         "age": {"type": "integer"}, "friends": {"type": "array", "maxItems": 2, "items":
         {"type": "object", "properties": {"first_name": {"enum": ["Tim", "Lily"]}},
         "required": ["first_name"], "additionalProperties": false}}},
         "required": ["name", "age", "friends"], "additionalProperties": false})"},
    {GrammarText::Kind::regex, "(She was|They were) [a-z ]{4,30}(, and [a-z ]{3,9}){0,2}\\."},
    {GrammarText::Kind::gbnf,
     "root ::= list\nlist ::= \"[\" (item (\", \" item)*)? \"]\"\nitem ::= word | list\n"
     "word ::= [a-z]+"},
    {GrammarText::Kind::json_schema, "true"},
    {GrammarText::Kind::choice,
     R"(["the little girl went home", "the little girl was very happy", "a dog"])"}};

ExactnessPlan grammar_plan() {
  ExactnessPlan plan = stories_plan(cpu_backend);
  plan.grammars = kGrammars;
  plan.make_tokenizer = [] {
    return Tokenizer::from_llama2c(TALON_TEST_DATA "/models/tok512.bin");
  };
  plan.end_tokens = {2};
  plan.hits = {0.5, 1};
  plan.chunks = {7};
  plan.threads = {1};
  plan.with_reuse = {false};  // a part of the answer would be in the prompt
  plan.max_new = 48;
  return plan;
}

TEST(Exactness, HoldsWithGrammars) {
  ExactnessPlan plan = grammar_plan();
  plan.merged = true;
  plan.strength = 2;
  expect_exact(plan, 50);
}

TEST(Exactness, HoldsWithGrammarsAndPenalties) {
  ExactnessPlan plan = grammar_plan();
  plan.samplers = {{.repetition_penalty = 1.2},
                   {.temperature = 0.8, .min_p = 0.02},
                   {.temperature = 1, .top_k = 5, .presence_penalty = 0.5},
                   {.temperature = 1, .typical_p = 0.9, .logit_bias = {{261, 2.0F}}},
                   {.temperature = 3}};
  plan.policies = {"throughput", "eagle2"};
  expect_exact(plan, 100);
}

TEST(Exactness, EveryLosslessRuleKeepsToGrammarsAtTemperatureZero) {
  ExactnessPlan plan = grammar_plan();
  plan.samplers.assign(kGrammars.size(), {});
  plan.rules = lossless_rules();
  plan.hits = {0.9};
  expect_exact(plan, 100);
}

TEST(Exactness, EveryLosslessRuleGivesTheTokensOfPlainDecodingAtTemperatureZero) {
  ExactnessPlan plan = stories_plan(cpu_backend);
  plan.samplers = {{}, {.repetition_penalty = 1.2}};
  plan.rules = lossless_rules();
  plan.hits = {0.9};
  plan.chunks = {7};
  plan.threads = {1};
  EXPECT_GE(plan.rules.size(), 4U);
  expect_exact(plan, 150);
}

TEST(Exactness, Stories15mGivesTheTokensOfPlainDecoding) {
  if (!std::filesystem::exists(kStories15m)) GTEST_SKIP() << "needs " << kStories15m;
  ExactnessPlan plan;
  plan.model = kStories15m;
  plan.make_backend = cpu_backend;
  plan.prompts = {
      {1, 9038, 2501, 263, 931}, {1, 450, 6635, 3290, 373, 278}, {1, 4335, 322, 3685, 3512}};
  plan.max_new = 12;
  plan.samplers = standard_samplers();
  plan.policies = {"fixed"};
  plan.hits = {0.9};
  plan.chunks = {2};
  plan.strength = 2;
  expect_exact(plan, 15, needing_heads());
}

TEST(Exactness, Smollm2GivesTheTokensOfPlainDecoding) {
  if (!std::filesystem::exists(kSmollm2)) GTEST_SKIP() << "needs " << kSmollm2;
  ExactnessPlan plan;
  plan.model = kSmollm2;
  plan.make_backend = cpu_backend;
  plan.prompts = question_prompts(kSmollm2, 3, 60);
  plan.max_new = 10;
  plan.samplers = {{}, {.temperature = 1.2, .top_p = 0.95}};
  plan.policies = {"throughput", "fixed"};
  plan.hits = {0.9};
  plan.chunks = {7};
  plan.threads = {2};
  plan.strength = 2;
  expect_exact(plan, 15, needing_heads());
}

/// Heads of the real model's sizes, with penalties, biases and stop texts. Their weights are
/// random: what they draft is rarely right, and must not matter.
TEST(ExactnessLong, Smollm2WithDraftHeadsGivesTheTokensOfPlainDecoding) {
  if (!std::filesystem::exists(kSmollm2)) GTEST_SKIP() << "needs " << kSmollm2;
  constexpr int kDraftVocabulary = 2000;
  const TemporaryFolder folder;
  ExactnessPlan plan;
  plan.model = kSmollm2;
  plan.make_backend = cpu_backend;
  plan.prompts = question_prompts(kSmollm2, 3, 60);
  plan.max_new = 12;
  plan.samplers = {{.repetition_penalty = 1.2},
                   {.temperature = 0.7, .frequency_penalty = 0.3, .logit_bias = {{28, 1.5F}}}};
  plan.policies = {"fixed"};
  plan.stop_texts = {".\n"};
  plan.make_tokenizer = [] { return Tokenizer::for_checkpoint(open_checkpoint(kSmollm2)); };
  plan.hits = {};
  plan.chunks = {7};
  plan.threads = {2};
  plan.with_companions = {true};
  plan.with_reuse = {false};
  plan.heads = write_random_heads(folder.path(), read_model_config(open_checkpoint(kSmollm2)),
                                  kDraftVocabulary, MarkovKind::rnn);
  expect_exact(plan, 40, {"draft", "mtp"});
}

}  // namespace
}  // namespace talon::test::exactness_test
