#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "../golden/maker_data.h"
#include "backend/wrap/forwarding.h"
#include "draft/registry.h"
#include "engine/measure_costs.h"
#include "engine/test_model.h"
#include "exactness.h"
#include "io/test_files.h"
#include "model/target.h"
#include "models.h"
#include "random_heads.h"
#include "row_bytes.h"

namespace talon::test::layer_kinds_test {
namespace {

/// A tiny random model of each kind of layer: docs/models.md says what each has.
class LayerKinds : public testing::TestWithParam<std::string> {
 protected:
  ExactnessPlan plan_of(const MakerRecording& model,
                        std::unique_ptr<Backend> (*make_backend)(int)) const {
    ExactnessPlan plan;
    plan.model = model.folder;
    plan.make_backend = make_backend;
    for (const MakerSequence& sequence : model.sequences) plan.prompts.push_back(sequence.ids);
    plan.samplers = {{}, {.temperature = 0.8F}};
    plan.policies = {"fixed"};
    plan.strength = 2;
    return plan;
  }

  /// Of the random DSpark head: each kind for some of the models.
  static MarkovKind markov() { return static_cast<MarkovKind>((GetParam().size() + 1) % 3); }

  TemporaryFolder folder_;
};

/// Every drafter of the table that needs no other model, with random heads.
TEST_P(LayerKinds, NoDrafterChunkThreadOrCompanyChangesAToken) {
  const MakerRecording model = unpack_maker(GetParam());
  ExactnessPlan plan = plan_of(model, cpu_backend);
  const ModelConfig config = read_model_config(open_checkpoint(model.folder));
  plan.heads = write_random_heads(folder_.path(), config, 0, markov());
  plan.heads.push_back(model.folder);  // for mtp
  const bool has_assistant = GetParam() == "gemma4_e";
  if (has_assistant) plan.heads.push_back(unpack_maker("gemma4_e_assistant").folder);
  plan.hits = {0.5, 1};
  plan.chunks = {1, 7, 1024};
  plan.max_new = 12;
  const ExactnessReport report = check_exactness(plan);
  EXPECT_GE(report.cases, 40);
  EXPECT_GT(report.tau.at("random-tree:hit=1 fixed"), 2.5);  // drafts are accepted
  EXPECT_TRUE(!has_assistant || report.tau.contains("mtp fixed"));
  for (const std::string& line : report.differences) ADD_FAILURE() << line;
}

TEST_P(LayerKinds, NorOnTheReference) {
  const MakerRecording model = unpack_maker(GetParam());
  ExactnessPlan plan = plan_of(model, reference_backend);
  plan.samplers.resize(1);
  plan.drafters = {"ngram"};
  plan.hits = {1};
  plan.chunks = {7};
  plan.max_new = 8;
  const ExactnessReport report = check_exactness(plan);
  EXPECT_GT(report.cases, 0);
  for (const std::string& line : report.differences) ADD_FAILURE() << line;
}

TEST_P(LayerKinds, RowsInTreesAndBesideOthersHaveTheirBytes) {
  TestModel model(unpack_maker(GetParam()).folder, cpu_backend(2));
  for (const std::string& difference : differing_rows(model, 5, 90)) ADD_FAILURE() << difference;
}

/// The logits of all rows of `tokens`, `chunk` of them at once.
std::vector<float> logits_of(TestModel& model, const KvShape& shape,
                             std::span<const TokenId> tokens, std::size_t chunk) {
  KvCache cache(*model.backend, shape);
  Target target(model.model, cache, static_cast<int>(chunk));
  KvSequence sequence = cache.start({}, false);
  const auto width = static_cast<std::size_t>(model.vocabulary());
  std::vector<float> logits(tokens.size() * width);
  for (std::size_t begin = 0; begin < tokens.size(); begin += chunk) {
    const auto rows = tokens.subspan(begin, std::min(chunk, tokens.size() - begin));
    if (!sequence.reserve(static_cast<int>(rows.size()))) return {};
    const SequenceRows batch{&sequence, rows, {}, SequenceRows::Logits::all};
    const ForwardResult result = target.forward({&batch, 1});
    model.backend->download(result.logits,
                            std::span(logits).subspan(begin * width, rows.size() * width));
    std::vector<NodeId> path(rows.size());
    std::iota(path.begin(), path.end(), 0);
    sequence.keep(path, rows);
  }
  return logits;
}

TEST_P(LayerKinds, RowsOfALongTextSeeAllThatIsInReach) {
  TestModel model(unpack_maker(GetParam()).folder, cpu_backend(2));
  std::vector<TokenId> tokens(450);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<TokenId>((i * i + 3) % static_cast<std::size_t>(model.vocabulary()));
  }
  KvShape shape = kv_shape(model.model.config, 8, model.backend->traits().cache);
  const std::vector<float> whole = logits_of(model, shape, tokens, tokens.size());
  shape.near.pages = std::min(shape.near.pages, 4);  // most of the text is let go of
  EXPECT_EQ(logits_of(model, shape, tokens, 30), whole);
}

/// Too few for three texts at once: they wait, are set back, and begin with what others left.
TEST_P(LayerKinds, FewPagesOfNearLayersChangeNoAnswer) {
  TestModel model(unpack_maker(GetParam()).folder, cpu_backend(2));
  const KvShape roomy = kv_shape(model.model.config, 24);
  KvShape tight = roomy;
  tight.near.pages = std::min(roomy.near.pages, 5);
  std::vector<Request> requests(3);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].max_new = 40;
    for (int token = 0; token < 250; ++token) {
      const int own = token < 130 ? 0 : static_cast<int>(i);
      requests[i].prompt.push_back((token * token + own) % model.vocabulary());
    }
  }
  const auto answers = [&](const KvShape& shape) {
    TestEngine engine(model, make_drafter("ngram", {.target = &model.model}), {}, shape);
    std::vector<std::vector<TokenId>> tokens;
    for (const Answer& answer : engine.run(requests)) tokens.push_back(answer.tokens);
    return tokens;
  };
  const auto expected = answers(roomy);
  for (const auto& answer : expected) EXPECT_EQ(answer.size(), 40U);
  EXPECT_EQ(answers(tight), expected);
}

/// A prompt that is longer than all that near layers can hold is read without being set back.
TEST_P(LayerKinds, FewPagesOfNearLayersAreEnoughForALongPrompt) {
  TestModel model(unpack_maker(GetParam()).folder, cpu_backend(2));
  KvShape shape = kv_shape(model.model.config, 24);
  shape.near.pages = std::min(shape.near.pages, 5);
  Request request;
  request.max_new = 2;
  request.reuse_prefix = false;
  const int length = std::min(640, model.model.config.context - 2);
  for (int token = 0; token < length; ++token)
    request.prompt.push_back((token * token) % model.vocabulary());
  TestOptions options;
  options.chunk = 64;
  TestEngine engine(model, make_drafter("none", {}), options, shape);
  const SequenceId id = engine.submit(request);
  Answer answer;
  for (int step = 0; step < 20 && answer.finish == FinishReason::none; ++step) {
    for (const Progress& progress : engine.engine.step()) engine.note(progress, answer);
  }
  ASSERT_NE(answer.finish, FinishReason::none) << "sequence " << id << " still runs";
  EXPECT_EQ(answer.statistics.preemptions, 0);
}

std::unique_ptr<Drafter> assistant_for(const TestModel& model) {
  const std::string head = unpack_maker("gemma4_e_assistant").folder.string();
  return make_drafter(fmt::format("mtp:head={},topk=2,levels=3,nodes=8", head),
                      {.target = &model.model});
}

/// Its rows attend to the pages of texts that wait, are set back, and begin with what others left.
TEST(Gemma4Assistants, DraftFromTheTextsOfAnEngine) {
  TestModel model(unpack_maker("gemma4_e").folder, cpu_backend(2));
  KvShape tight = kv_shape(model.model.config, 24);
  tight.near.pages = std::min(tight.near.pages, 5);
  std::vector<Request> requests(3);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].max_new = 40;
    for (int token = 0; token < 250; ++token) {
      const int own = token < 130 ? 0 : static_cast<int>(i);
      requests[i].prompt.push_back((token * token + own) % model.vocabulary());
    }
  }
  TestOptions options;
  options.policy = "fixed";
  const auto answers = [&](std::unique_ptr<Drafter> drafter) {
    TestEngine engine(model, std::move(drafter), options, tight);
    return engine.run(requests, 2);
  };
  const auto expected = answers(make_drafter("none", {}));
  const auto found = answers(assistant_for(model));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(found[i].error, "");
    EXPECT_EQ(found[i].tokens, expected[i].tokens);
    const std::vector<int>& nodes = found[i].statistics.drafted;
    EXPECT_GT(std::accumulate(nodes.begin(), nodes.end(), 0), 40);
  }
}

/// On a text, without which there are none.
TEST(Gemma4Assistants, HavePassesWhoseCostsAreMeasured) {
  TestModel model(unpack_maker("gemma4_e").folder, cpu_backend(1));
  const auto drafter = assistant_for(model);
  EXPECT_FALSE(measure_costs(model.model, KvType::f16, *drafter, 50).levels.empty());
}

/// Its cache has no more near pages than a long prompt needs at a time.
TEST(DraftModels, ReadPromptsThatAreLongerThanTheirNearPages) {
  const TemporaryFolder windowed;
  std::filesystem::copy(kStories260k, windowed.path(), std::filesystem::copy_options::recursive);
  const std::filesystem::path file = windowed.path() / "config.json";
  Json config = Json::parse(std::ifstream(file));
  config["architectures"] = {"MistralForCausalLM"};
  config["model_type"] = "mistral";
  config["sliding_window"] = 64;
  config["max_position_embeddings"] = 8192;
  std::ofstream(file) << config.dump();
  TestModel model(windowed.path(), cpu_backend(2));
  Request request;
  request.max_new = 24;
  for (int token = 0; token < 3000; ++token)
    request.prompt.push_back((token * token) % model.vocabulary());
  TestOptions options;
  options.policy = "fixed";
  const auto drafter = "draft:model=self,topk=1,levels=3";
  TestEngine engine(model, make_drafter(drafter, {.target = &model.model}), options,
                    kv_shape(model.model.config, 60));
  const std::vector<int> nodes = engine.run(request).statistics.drafted;
  EXPECT_GT(std::accumulate(nodes.begin(), nodes.end(), 0), 10);
}

/// Notes the tokens of the first forward of four rows.
class FourRows : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void embed(const Weight& table, const Indices& tokens, const View& out) override {
    if (tokens.count == 4 && seen.empty()) seen.assign(tokens.data, tokens.data + tokens.count);
    ForwardingBackend::embed(table, tokens, out);
  }
  std::vector<TokenId> seen;
};

/// What a check of a mixture costs depends on its tokens.
TEST_P(LayerKinds, CostsOfMixturesAreTimedOnATextThatTheModelWrites) {
  auto backend = std::make_unique<FourRows>(cpu_backend(1));
  FourRows& rows = *backend;
  TestModel model(unpack_maker(GetParam()).folder, std::move(backend));
  const auto none = make_drafter("none", {});
  measure_costs(model.model, KvType::f16, *none, 1000);
  std::vector<TokenId> arbitrary;
  for (int i = 0; i < 4; ++i) arbitrary.push_back((i * 7919 + 13) % model.vocabulary());
  const bool is_mixture = std::ranges::any_of(
      model.model.config.plans, [](const LayerPlan& plan) { return plan.experts.count > 0; });
  ASSERT_EQ(rows.seen.size(), 4U);
  EXPECT_EQ(rows.seen == arbitrary, !is_mixture);
}

INSTANTIATE_TEST_SUITE_P(
    Models, LayerKinds,
    testing::Values("gemma2",       // windows, caps
                    "cohere2",      // parallel halves, layers that do not turn
                    "ministral3",   // queries scaled by position
                    "gpt_oss",      // experts, sinks
                    "qwen3_moe",    // experts, head norms
                    "llama4",       // chunks, experts whose input is weighed, a shared expert
                    "deepseek_v3",  // latents, groups of experts
                    "mistral4",     // queries of latents scaled by their positions
                    "gemma4_e",     // two head sizes, shared cache layers, per-layer embeddings
                    "mimo",  // sinks in windows, values smaller than keys, key-value heads by layer
                    "qwen3_next",           // states, gated attention, a gated shared expert
                    "qwen3_5",              // states
                    "granite4_hybrid",      // states of Mamba-2 that share a key head
                    "granite4_hybrid_moe",  // states of Mamba-2 of several key heads, experts
                    "falcon_h1",            // attention and states in one layer, factors
                    "falcon_h1_norm",       // the same with a norm, several key heads
                    "nemotron_h",           // layers of one part each
                    "nemotron_h_moe",       // the same with experts without gates
                    "lfm2",                 // short convolutions
                    "lfm2_moe",             // short convolutions, experts
                    "hunyuan",              // head norms behind the rotation
                    "afmoe",                // gated attention beside windows, experts
                    "nemotron",             // a network without a gate
                    "stablelm_12b",         // a LayerNorm for each head
                    "phi2"),                // a bias of the output matrix
    [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace talon::test::layer_kinds_test
