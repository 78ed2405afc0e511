#include "draft/model/model_drafter.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "backend/cpu/cpu.h"
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
};

TEST_F(StagedModel, TellsTheStageTheNoiseThatItDraftsWith) {
  const DraftJob told = stage_job(draft_model(), true);
  EXPECT_EQ(told.random, &random_);
  EXPECT_EQ(told.position, 5);
  EXPECT_EQ(told.sampler, &sampler_);
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
  EXPECT_FALSE(told.races);
}

}  // namespace
}  // namespace talon::model_drafter_test
