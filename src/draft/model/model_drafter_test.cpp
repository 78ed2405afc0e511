#include "draft/model/model_drafter.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/wrap/test_device.h"
#include "backend/wrap/tracing.h"
#include "io/checkpoint.h"

namespace talon::model_drafter_test {
namespace {

constexpr const char* kModel = TALON_TEST_DATA "/golden/stories260k/target";

/// Guesses nothing, and keeps what it was told of the draws in the caller's job.
class RecordingStage : public Drafter {
 public:
  explicit RecordingStage(DraftJob& told) : told_(told) {}
  std::unique_ptr<DraftState> start() override { return std::make_unique<DraftState>(); }
  void observe(DraftState&, const CommittedTokens&) override {}
  void propose(std::span<DraftJob> jobs) override { told_ = jobs.front(); }

 private:
  DraftJob& told_;
};

class StagedModel : public testing::Test {
 protected:
  StagedModel()
      : backend_(make_cpu_backend({.threads = 1})),
        files_(open_checkpoint(kModel)),
        target_(load_model(files_, *backend_)) {}

  /// With the ids of the target.
  DraftModel draft_model() { return load_draft_model(kModel, target_, {}); }

  /// What the stage is told when the model drafts after six tokens.
  DraftJob stage_job(DraftModel model, bool races, const Coupling& coupling = {}) {
    DraftJob told;
    ModelDrafterOptions options;
    options.shape = {.width = 1, .children = 1, .levels = 4, .nodes = 8};
    options.coupling = coupling;
    options.stage = std::make_unique<RecordingStage>(told);
    const auto drafter = make_model_drafter(std::make_shared<const DraftModel>(std::move(model)),
                                            target_, std::move(options));
    const std::vector<TokenId> text = {1, 403, 407, 261, 378, 432};
    const auto state = drafter->start();
    drafter->observe(*state, {.tokens = text, .first_has_row = false});
    DraftTree tree(text.back());
    DraftJob job{state.get(), nullptr, {8, 4, 1}, &tree, &random_, 5};
    job.sampler = &sampler_;
    job.changes = &changes_;
    job.penalties = &penalties_;
    job.races = races;
    drafter->propose({&job, 1});
    EXPECT_GT(tree.draft_nodes(), 0);
    return told;
  }

  std::unique_ptr<Backend> backend_;
  Checkpoint files_;
  Model target_;
  PositionRandom random_{3, 0};
  SamplerOptions sampler_{.temperature = 1};
  LogitChanges changes_{SamplerOptions{.logit_bias = {{7, 1.0F}}}};
  TextPenalties penalties_{1, {{7, 0.5, false}}};
};

TEST_F(StagedModel, TellsTheStageTheNoiseThatItDraftsWith) {
  const DraftJob told = stage_job(draft_model(), true);
  EXPECT_EQ(told.random, &random_);
  EXPECT_EQ(told.position, 5);
  EXPECT_EQ(told.sampler, &sampler_);
  EXPECT_EQ(told.changes, &changes_);
  EXPECT_EQ(told.penalties, &penalties_);
  EXPECT_TRUE(told.races);
}

TEST_F(StagedModel, TellsTheStageTheTemperatureAloneWhereItDraftsWithoutNoise) {
  for (const DraftJob& told :
       {stage_job(draft_model(), false), stage_job(draft_model(), true, {.on = false})}) {
    EXPECT_EQ(told.sampler, &sampler_);
    EXPECT_FALSE(told.races);
  }
}

TEST_F(StagedModel, TellsTheStageNothingOfDrawsWhereItsTokensAreTranslated) {
  DraftModel other = draft_model();
  other.vocabulary.same = false;
  for (TokenId id = 0; id < target_.config.vocabulary; ++id) {
    other.vocabulary.target_of.push_back(id);
    other.vocabulary.draft_of.push_back({id});
  }
  const DraftJob told = stage_job(std::move(other), true);
  EXPECT_EQ(told.random, nullptr);
  EXPECT_EQ(told.sampler, nullptr);
  EXPECT_EQ(told.changes, nullptr);
  EXPECT_EQ(told.penalties, nullptr);
  EXPECT_FALSE(told.races);
}

TEST_F(StagedModel, DraftsNoTokenThatTheRequestBans) {
  ModelDrafterOptions options;
  options.shape = {.width = 2, .children = 2, .levels = 3, .nodes = 12};
  const auto drafter = make_model_drafter(std::make_shared<const DraftModel>(draft_model()),
                                          target_, std::move(options));
  const std::vector<TokenId> text = {1, 403, 407, 261, 378, 432};
  const auto state = drafter->start();
  drafter->observe(*state, {.tokens = text, .first_has_row = false});
  const auto draft = [&](const LogitChanges& changes, bool races) {
    DraftTree tree(text.back());
    DraftJob job{state.get(), nullptr, {12, 3, 2}, &tree, &random_, 5};
    job.sampler = &sampler_;
    job.changes = &changes;
    job.races = races;
    drafter->propose({&job, 1});
    const std::vector<TokenId> tokens = tree.tokens();
    return std::set<TokenId>(tokens.begin() + 1, tokens.end());
  };
  for (const bool races : {false, true}) {
    const std::set<TokenId> plain = draft(LogitChanges(), races);
    ASSERT_FALSE(plain.empty());
    SamplerOptions banning;
    banning.banned.assign(plain.begin(), plain.end());
    const std::set<TokenId> others = draft(LogitChanges(banning), races);
    EXPECT_FALSE(others.empty());
    for (const TokenId token : others) EXPECT_FALSE(plain.contains(token)) << token;
  }
}

/// Rows that the model runs to draft after a text for which it has drafted for `earlier` before.
int rows_again(const TextOwner& earlier, const TextOwner& owner) {
  const auto backend = make_tracing_backend(make_cpu_backend({.threads = 1}));
  const Model target = load_model(open_checkpoint(kModel), *backend);
  ModelDrafterOptions options;
  options.shape = {.width = 1, .children = 1, .levels = 2, .nodes = 4};
  const auto drafter =
      make_model_drafter(std::make_shared<const DraftModel>(load_draft_model(kModel, target, {})),
                         target, std::move(options));
  const std::vector<TokenId> text(3 * kPageRows, 403);
  const auto draft = [&](const TextOwner& of) {
    const auto state = drafter->resume({}, of, {});
    drafter->observe(*state, {.tokens = text, .first_has_row = false});
    DraftTree tree(text.back());
    DraftJob job{state.get(), nullptr, {4, 2, 1}, &tree, nullptr, 3 * kPageRows - 1};
    drafter->propose({&job, 1});
    EXPECT_GT(tree.draft_nodes(), 0);
  };
  draft(earlier);
  backend->clear();
  draft(owner);
  int rows = 0;
  for (const TraceEntry& entry : backend->entries()) {
    if (entry.operation == "embed") rows += entry.rows;
  }
  return rows;
}

TEST(ModelDrafter, RunsATextAgainUnlessItsOwnerLeftIt) {
  const TextOwner shared{.tenant = 7}, alone{.tenant = 7, .reuses = false}, other{.tenant = 8};
  EXPECT_LT(rows_again(shared, shared), kPageRows);
  EXPECT_GE(rows_again(shared, other), 3 * kPageRows);
  EXPECT_GE(rows_again(shared, alone), 3 * kPageRows);
  EXPECT_GE(rows_again(alone, shared), 3 * kPageRows);
  EXPECT_GE(rows_again(alone, alone), 3 * kPageRows);
}

TEST(ModelDrafter, WaitsOnceAPassForTheLawsOfAllChains) {
  test::TestDevice device(make_cpu_backend({.threads = 1}));
  const Model target = load_model(open_checkpoint(kModel), device);
  ModelDrafterOptions options;
  options.shape = {.width = 1, .children = 1, .levels = 3, .nodes = 3};
  options.draws = true;
  const auto drafter =
      make_model_drafter(std::make_shared<const DraftModel>(load_draft_model(kModel, target, {})),
                         target, std::move(options));
  const std::vector<std::vector<TokenId>> texts = {{1, 403, 407}, {1, 378, 432, 261}, {1, 286}};
  const PositionRandom random(3, 0);
  const SamplerOptions sampler{.temperature = 1};
  const auto draft = [&](std::span<const std::vector<TokenId>> of) {
    std::vector<std::unique_ptr<DraftState>> states;
    std::vector<DraftTree> trees;
    for (const auto& text : of) {
      states.push_back(drafter->start());
      drafter->observe(*states.back(), {.tokens = text, .first_has_row = false});
      trees.emplace_back(text.back());
    }
    std::vector<DraftJob> jobs;
    for (std::size_t i = 0; i < of.size(); ++i) {
      const auto position = static_cast<int>(of[i].size()) - 1;
      jobs.push_back({states[i].get(), nullptr, {3, 3, 1}, &trees[i], &random, position});
      jobs.back().sampler = &sampler;
    }
    drafter->propose(jobs);
    return trees;
  };
  const std::vector<DraftTree> together = draft(texts);
  EXPECT_EQ(device.waits(), 3) << "one for each of its levels";
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(together[i].draft_nodes(), 3);
    EXPECT_EQ(together[i].tokens(), draft({&texts[i], 1}).front().tokens());
  }
}

}  // namespace
}  // namespace talon::model_drafter_test
