#include <gtest/gtest.h>

#include <cmath>

#include "backend/reference/reference.h"
#include "core/half.h"
#include "draft/eagle/eagle_drafter.h"
#include "draft/head/head_weights.h"
#include "draw/picture_prompt.h"
#include "engine/test_model.h"
#include "io/test_pictures.h"
#include "model/target.h"
#include "train/data/manifest.h"
#include "train/head/export_head.h"
#include "train/head/target/target_weights.h"
#include "train/head/test_training.h"

// Heads for models that draw: their data, their training, and the engine that runs them.
namespace talon::picture_head_test {
namespace {

using test::DataFolder;
using test::quiet;
using test::small_run;
using test::TestModel;

constexpr float kGuidance = 2;
const std::vector<FeatureTap> kTaps = {{0}, {1}, {2}, {FeatureTap::kFinalNorm}};

/// A tiny model that is asked by words, a cell of which turns by its row and column.
class PictureHead : public testing::Test {
 protected:
  PictureHead()
      : file_(test::unpack_picture("talon_picture_head", "words/model.safetensors").parent_path()),
        target_(prepared(file_), make_reference_backend(1)) {}

  /// Pictures of words, drawn with a guide, until there are so many codes; 0: all of the plan.
  GenerateReport draw_pictures(std::uint64_t codes = 0) {
    PlanOptions plan;
    plan.samples = 6;
    plan.temperatures = TemperatureMix("1");
    GenerateOptions work;
    work.batch = 3;
    work.taps = kTaps;
    work.guidance = kGuidance;
    work.tokens = codes;
    work.max_new = plan.max_new = target_.model.config.image->answer_tokens();
    const DataPlan jobs = plan_prompts(
        std::vector<Prompt>{
            {"red cat flat", "s", ""}, {"moon line", "s", ""}, {"tree round", "s", ""}},
        [&](const std::string& text) {
          PicturePrompt prompt = text_prompt(target_.model, nullptr, text);
          work.guide_prompt = std::move(prompt.guide);
          return std::move(prompt.own);
        },
        {}, plan);
    Manifest manifest;
    const ModelConfig& config = target_.model.config;
    manifest.info = {"words", "sum", config.hidden, config.input_count(), {}};
    for (const FeatureTap& tap : kTaps) manifest.info.taps.push_back(tap.layer);
    manifest = add_run(data_.path(), manifest, Json::object());
    ShardWriter writer({data_.path(), 0, 1, manifest.shard_kind()}, [](const std::string&) {});
    guide_ = work.guide_prompt;
    const FinishedJobs finished = finished_jobs(data_.path(), manifest.shard_kind());
    const GenerateReport report = generate(target_.model, jobs, finished, writer, work, {}, {});
    EXPECT_TRUE(report.complete);
    return report;
  }

  /// The target's rows of a text, all taps and the last.
  View rows_of(const Conversation& text, Target& target, KvSequence& sequence) const {
    const auto tokens = text.tokens.first(text.tokens.size() - 1);
    EXPECT_TRUE(sequence.reserve(static_cast<int>(tokens.size())));
    SequenceRows rows{&sequence, tokens, {}, SequenceRows::Logits::none};
    rows.picture_prompt = text.response_begin;
    return target.forward(std::span(&rows, 1)).features;
  }

  HeadTrainOptions options(const std::string& kind, const DataFolder& out) const {
    HeadTrainOptions options = small_run(data_, out);
    options.kind = kind;
    options.epochs = 4;
    options.loss_tokens = target_.model.config.vocabulary;
    return options;
  }

  double tau_of(const HeadTrainResult& result) const {
    HeadMeasure measure;
    for (const char* text : {"dog round", "red moon line", "cat tree line", "dog flat"})
      measure.prompts.push_back(text_prompt(target_.model, nullptr, text).own);
    measure.temperature = 1;
    measure.guidance = kGuidance;
    measure.guide_prompt = guide_;
    return measure_acceptance(target_.model, measure,
                              "eagle2:topk=4,levels=3,nodes=12,head=" + result.head.string());
  }

  static std::filesystem::path prepared(const std::filesystem::path& folder) {
    std::filesystem::copy_file(test::kPictureGoldens / "words/words.json", folder / "words.json",
                               std::filesystem::copy_options::overwrite_existing);
    return folder;
  }

  std::filesystem::path file_;
  TestModel target_;
  DataFolder data_;
  std::vector<TokenId> guide_;
};

TEST_F(PictureHead, GuidesAreConversationsOfTheirOwn) {
  draw_pictures();
  const Dataset data(data_.path());
  ASSERT_EQ(data.size(), 2U * 3 * 6);
  int guides = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const Conversation text = data.read(i);
    const auto prompt = text.tokens.first(static_cast<std::size_t>(text.response_begin));
    guides += std::ranges::equal(prompt, guide_) ? 1 : 0;
    KvCache cache(*target_.backend, kv_shape(target_.model.config, 4, KvType::f16));
    Target target(target_.model, cache, static_cast<int>(text.tokens.size()), kTaps);
    KvSequence sequence = cache.start({}, false);
    const View fresh = rows_of(text, target, sequence);
    std::vector<float> values(static_cast<std::size_t>(fresh.rows * fresh.cols));
    target_.backend->download(fresh, values);
    std::vector<std::uint16_t> halves;
    for (const float value : values) halves.push_back(float_to_half(value));
    EXPECT_EQ(test::halves_of(text), halves) << i;
  }
  EXPECT_EQ(guides, 3 * 6);
}

TEST_F(PictureHead, TokensAskedForAreThoseOfPicturesAlsoWhenItIsGoneOnWith) {
  const auto picture = static_cast<std::uint64_t>(target_.model.config.image->answer_tokens());
  const GenerateReport first = draw_pictures(6 * picture);
  EXPECT_EQ(first.response_tokens, 6 * picture);
  EXPECT_EQ(first.conversations, 6U);
  EXPECT_EQ(Dataset(data_.path()).size(), 2U * 6) << "each with its guide";
  const GenerateReport again = draw_pictures(6 * picture);
  EXPECT_EQ(again.conversations, 0U);
  EXPECT_EQ(again.resumed_response_tokens, 6 * picture);
}

class KindOfPictureHead : public PictureHead, public testing::WithParamInterface<std::string> {};

/// What the trainer's head says of the next code, the engine's says, too.
TEST_P(KindOfPictureHead, IsRunAsItWasTrained) {
  draw_pictures();
  DataFolder out;
  const HeadTrainResult result =
      train_head(options(GetParam(), out), open_checkpoint(file_), quiet());
  const Dataset data(data_.path());
  const Conversation text = data.read(0);
  const ModelConfig& config = target_.model.config;
  const HeadKind kind = GetParam() == "eagle" ? HeadKind::eagle : HeadKind::eagle3;
  const HeadShape shape = head_shape(kind, config, measure_features(data));
  ParameterStore parameters(parameter_shapes(shape), torch::kFloat, torch::kFloat, torch::kCPU);
  import_head(result.head, shape, parameters);
  const TargetTables tables =
      read_target_tables(target_.checkpoint, config, 64, torch::kFloat, torch::kCPU);
  const HeadModel head(shape, parameters, tables);
  const torch::NoGradGuard no_gradient;
  const Batch batch = pack_batch(data, {0}, {.with_taps = reads_taps(kind), .by_cell = true},
                                 torch::kFloat, torch::kCPU);
  const torch::Tensor expected = at::log_softmax(
      at::matmul(head.output_input(head.forward(batch, 1)[0]), tables.output.t()), 1);

  KvCache cache(*target_.backend, kv_shape(config, 4, KvType::f16));
  EagleOptions eagle;
  eagle.dynamic = {.width = 5, .children = 5, .levels = 1, .nodes = 5};
  eagle.coupling.on = false;
  const auto drafter =
      make_eagle_drafter(load_head(open_checkpoint(result.head), target_.model,
                                   {.layout = WeightLayout::as_stored, .tap_layers = {}}),
                         target_.model, eagle);
  Target target(target_.model, cache, static_cast<int>(text.tokens.size()), drafter->traits().taps);
  KvSequence sequence = cache.start({}, false);
  const View features = rows_of(text, target, sequence);
  for (int shown = text.response_begin + 1; shown < static_cast<int>(text.tokens.size()); ++shown) {
    const auto state = drafter->start();
    drafter->observe(*state, {.tokens = text.tokens.first(static_cast<std::size_t>(shown)),
                              .features = features.row_range(0, shown - 1),
                              .first_has_row = false});
    DraftTree tree(text.tokens[static_cast<std::size_t>(shown) - 1]);
    DraftJob job{state.get(), nullptr, {1000, 1000, 1000}, &tree};
    drafter->propose({&job, 1});
    ASSERT_EQ(tree.draft_nodes(), 5);
    for (const NodeId node : tree.children(0)) {
      const double chance =
          expected[shown - text.response_begin - 1][tree[node].token].item<double>();
      EXPECT_NEAR(tree[node].log_p, chance, 0.01) << shown;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, KindOfPictureHead, testing::Values("eagle", "eagle3"),
                         [](const auto& test) { return test.param; });

TEST_F(PictureHead, RaisesTau) {
  draw_pictures();
  DataFolder before, after;
  HeadTrainOptions some = options("eagle", before);
  some.epochs = 0.001;  // one step
  const double untrained = tau_of(train_head(some, open_checkpoint(file_), quiet()));
  some.out = after.path().string();
  some.epochs = 60;
  const double trained = tau_of(train_head(some, open_checkpoint(file_), quiet()));
  RecordProperty("untrained", std::to_string(untrained));
  RecordProperty("trained", std::to_string(trained));
  EXPECT_GT(trained, untrained + 0.1) << untrained << " to " << trained;
}

TEST_F(PictureHead, OtherKindsAreRefused) {
  draw_pictures();
  DataFolder out;
  try {
    train_head(options("medusa", out), open_checkpoint(file_), quiet());
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("expected eagle or eagle3"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace talon::picture_head_test
