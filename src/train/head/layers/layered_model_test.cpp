#include "train/head/layers/layered_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/half.h"
#include "draft/registry.h"
#include "model/load/fingerprint.h"
#include "train/data/test_folder.h"
#include "train/head/export_head.h"
#include "train/head/layers/anchors.h"
#include "train/head/math/gradient_check.h"
#include "train/head/measure_head.h"
#include "train/head/target/target_weights.h"

namespace talon {

void PrintTo(HeadKind kind, std::ostream* out) { *out << name_of(kind); }

}  // namespace talon

namespace talon::layered_model_test {
namespace {

using test::data_model;
using test::DataFolder;
using torch::Tensor;

constexpr int kPlaces = 3;

HeadShape tiny_shape(HeadKind kind) {
  HeadShape shape;
  shape.kind = kind;
  shape.hidden = shape.intermediate = 4;
  shape.heads = shape.head_dim = 2;
  shape.kv_heads = 1;
  shape.taps = 2;
  shape.layers = 2;
  shape.mask_token = 5;
  shape.norm_epsilon = 1e-5;
  shape.tap_scale = {0.5, 2};
  shape.stream_scale = 2;
  return shape;
}

Tensor integers(std::vector<std::int64_t> values) { return torch::tensor(values, torch::kLong); }

/// Two conversations of five and four pairs, with two anchors and one, and a row of padding.
Batch tiny_batch() {
  Batch batch;
  batch.sequences = {{0, 5, 0, 2}, {5, 4, 2, 1}};
  batch.taps = torch::randn({9, 2 * 4}).to(torch::kHalf);
  batch.pair_token = integers({0, 1, 2, 3, 4, 3, 2, 1, 0});
  batch.query_pair = integers({2, 4, 7, 0});
  batch.position = integers({0, 1, 2, 3, 4, 0, 1, 2, 3});
  batch.step_token.assign(kPlaces, integers({2, 4, 1, 0}));
  batch.real_queries = 3;
  return batch;
}

TargetTables tiny_tables() {
  const Tensor angle = torch::randn({16, 1}, torch::kDouble);
  return {torch::randn({6, 4}, torch::kDouble), torch::randn({6, 4}, torch::kDouble), angle.cos(),
          angle.sin()};
}

/// In double, with random parameters.
struct TinyModel {
  explicit TinyModel(HeadKind kind)
      : parameters(parameter_shapes(tiny_shape(kind)), torch::kDouble, torch::kDouble, torch::kCPU),
        tables(tiny_tables()),
        model(tiny_shape(kind), parameters, tables) {
    parameters.values().normal_();
  }
  ParameterStore parameters;
  TargetTables tables;
  HeadModel model;
};

class LayeredKinds : public ::testing::TestWithParam<HeadKind> {
 protected:
  void SetUp() override { torch::manual_seed(11); }
  void TearDown() override { data_model().model.config.embedding_scale = 1; }
};
class BlockKinds : public LayeredKinds {};

TEST_P(LayeredKinds, GradientsOfAllParameters) {
  TinyModel tiny(GetParam());
  const Batch batch = tiny_batch();
  const auto outputs = [&] {
    std::vector<Tensor> rows;
    for (const Tensor& place : tiny.model.forward(batch, kPlaces)) {
      rows.push_back(tiny.model.output_input(place).narrow(0, 0, batch.real_queries));
    }
    return at::cat(rows);
  };
  const Tensor weights = torch::randn(outputs().sizes(), torch::kDouble);
  const auto scalar = [&] { return (outputs() * weights).sum(); };
  for (const std::string& name : tiny.parameters.names()) {
    SCOPED_TRACE(name);
    test::expect_gradients(scalar, {tiny.parameters[name].value});
  }
}

/// What is guessed behind an anchor depends on nothing that comes after it.
TEST_P(BlockKinds, GuessesDoNotSeeWhatFollowsTheAnchor) {
  const TinyModel tiny(GetParam());
  const Batch batch = tiny_batch();
  Batch changed = batch;
  changed.taps = batch.taps.clone();
  changed.taps.narrow(0, 3, 2).add_(1);  // of the pairs behind the first anchor's
  changed.pair_token = integers({0, 1, 2, 1, 1, 3, 2, 1, 0});
  const auto before = tiny.model.forward(batch, kPlaces);
  const auto after = tiny.model.forward(changed, kPlaces);
  for (std::size_t place = 0; place < kPlaces; ++place) {
    EXPECT_TRUE(before[place][0].allclose(after[place][0], 1e-12)) << place;
    EXPECT_FALSE(before[place][1].allclose(after[place][1], 1e-3)) << place;
    EXPECT_TRUE(before[place][2].allclose(after[place][2], 1e-12)) << place;
  }
}

/// A head of stories260K that is exported, and read back as its file has it.
struct ExportedHead {
  explicit ExportedHead(HeadKind kind, const Dataset& data, const std::filesystem::path& folder)
      : shape(shape_of(kind, data)),
        parameters(parameter_shapes(shape), torch::kFloat, torch::kFloat, torch::kCPU),
        tables(read_target_tables(data_model().checkpoint, config(), 128, torch::kFloat,
                                  torch::kCPU)) {
    set_initial_values(parameters, shape, data_model().checkpoint, config(), measure_features(data),
                       /*seed=*/1);
    parameters.values() += 0.02 * torch::randn_like(parameters.values());
    export_head({shape,
                 parameters,
                 parameters.values(),
                 tables,
                 {},
                 config(),
                 kPlaces,
                 {{"tap_layers", {1, 2, 4}},
                  {"target_fingerprint", fingerprint_of(data_model().checkpoint, config())}}},
                folder);
    import_head(folder, shape, parameters);
  }
  static const ModelConfig& config() { return data_model().model.config; }
  static HeadShape shape_of(HeadKind kind, const Dataset& data) {
    HeadShape shape = head_shape(kind, config(), measure_features(data));
    shape.layers = 2;
    shape.mask_token = config().vocabulary - 1;
    return shape;
  }
  HeadShape shape;
  ParameterStore parameters;
  TargetTables tables;
};

/// The chain that the engine's drafter proposes behind the first `known` tokens. width: of the
/// vectors that it reads of the target; 0: none.
DraftTree drafted(Drafter& drafter, const Conversation& text, int known, int width) {
  std::vector<float> features;
  std::vector<std::uint16_t> halves(static_cast<std::size_t>(width));
  for (int row = 0; row < known - 1; ++row) {
    text.copy_row(row, 0, halves);
    for (const std::uint16_t half : halves) features.push_back(half_to_float(half));
  }
  Buffer rows;
  if (width > 0) {
    rows = data_model().backend->allocate(known - 1, width);
    data_model().backend->upload(features, rows.view());
  }
  const auto state = drafter.start();
  const auto tokens = text.tokens.first(static_cast<std::size_t>(known));
  drafter.observe(*state, {tokens, 0, rows.view(), /*first_has_row=*/false});
  DraftTree tree(tokens.back());
  DraftJob job{state.get(), nullptr, {64, 64, 64}, &tree};
  job.position = known - 1;
  drafter.propose(std::span(&job, 1));
  return tree;
}

/// The same recorded text, the same file: what was trained is what drafts. The engine keeps keys of
/// P-EAGLE and draft models in half floats.
void expect_drafts_that_the_trainer_guesses(HeadKind kind) {
  const bool is_model = kind == HeadKind::draft;
  const int places = is_model ? 1 : kPlaces;
  DataFolder folder, head_folder;
  PlanOptions plan;
  plan.max_new = 24;
  GenerateOptions work = test::small_work();
  work.max_new = plan.max_new;
  test::fill(folder.path(), test::letters_plan(2, plan), work);
  const Dataset data(folder.path());
  const ExportedHead head(kind, data, head_folder.path());
  const BatchOptions options{.steps = places, .with_taps = !is_model, .tokens_alone = is_model};
  const Batch batch = pack_batch(data, {0}, options, torch::kFloat, torch::kCPU);
  const HeadModel model(head.shape, head.parameters, head.tables);
  const torch::NoGradGuard no_gradient;
  const auto guesses = model.forward(batch, places);

  const std::string text =
      with_head(fmt::format("{}:weights=f32,topk=1", name_of(kind)), head_folder.path());
  const auto drafter = make_drafter(text, {.target = &data_model().model, .cache_positions = 256});
  const Conversation conversation = data.read(0);
  const int width = head.shape.taps * head.shape.hidden;
  ASSERT_GE(batch.real_queries, 8);
  for (std::int64_t query = 0; query < batch.real_queries; query += 3) {
    const int known = conversation.response_begin + 1 + static_cast<int>(query);
    const DraftTree tree = drafted(*drafter, conversation, known, width);
    ASSERT_GE(tree.draft_nodes(), places) << text;
    double log_p = 0;
    for (int place = 0; place < places; ++place) {
      const Tensor& guess = guesses[static_cast<std::size_t>(place)];
      const Tensor row = model.output_input(guess.narrow(0, query, 1))[0];
      const Tensor laws = at::log_softmax(at::mv(head.tables.output, row), 0);
      log_p += laws.max().item<double>();
      EXPECT_EQ(tree[place + 1].token, laws.argmax().item<std::int64_t>()) << query;
      EXPECT_NEAR(tree[place + 1].log_p, log_p, 1e-2) << query << " at place " << place;
    }
  }
}

TEST_P(LayeredKinds, TheEngineDraftsWhatTheTrainerGuesses) {
  expect_drafts_that_the_trainer_guesses(GetParam());
}

TEST_P(LayeredKinds, TheEngineDraftsWhatTheTrainerGuessesForATargetThatScalesEmbeddings) {
  data_model().model.config.embedding_scale = 8;
  expect_drafts_that_the_trainer_guesses(GetParam());
}

constexpr auto kind_name = [](const auto& test) { return std::string(name_of(test.param)); };
INSTANTIATE_TEST_SUITE_P(All, LayeredKinds,
                         ::testing::Values(HeadKind::dflash, HeadKind::peagle, HeadKind::draft),
                         kind_name);
INSTANTIATE_TEST_SUITE_P(All, BlockKinds, ::testing::Values(HeadKind::dflash, HeadKind::peagle),
                         kind_name);

TEST(Anchors, AreDrawnOfEachConversationAndTheRestWeighsNothing) {
  Batch batch;
  batch.sequences = {{0, 60, 0, 50}, {60, 20, 50, 10}};
  batch.query_pair = at::arange(10, 70);
  batch.step_token = batch.step_wanted = {at::arange(60) * 2};
  batch.step_weight = {torch::ones({60})};
  const Batch few = with_anchors(batch, 16, 5);
  EXPECT_EQ(few.real_queries, 26);
  EXPECT_EQ(few.query_pair.size(0), 32);
  EXPECT_EQ(few.sequences[1].query_begin, 16);
  EXPECT_EQ(few.sequences[1].query_count, 10);
  EXPECT_EQ(few.step_weight[0].sum().item<double>(), 26);
  for (std::int64_t i = 0; i < few.real_queries; ++i) {
    const std::int64_t pair = few.query_pair[i].item<std::int64_t>();
    EXPECT_EQ(pair < 60, i < 16);
    EXPECT_GT(pair, i == 0 ? 9 : few.query_pair[i - 1].item<std::int64_t>());
    EXPECT_EQ(few.step_token[0][i].item<std::int64_t>(), 2 * (pair - 10));
  }
  EXPECT_TRUE(few.query_pair.equal(with_anchors(batch, 16, 5).query_pair));
  EXPECT_FALSE(few.query_pair.equal(with_anchors(batch, 16, 6).query_pair));
}

}  // namespace
}  // namespace talon::layered_model_test
