#include "draft/model/model_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/wrap/forwarding.h"
#include "draft/model/model_drafter.h"
#include "draft/registry.h"
#include "io/checkpoint.h"
#include "model/target.h"

namespace talon::model_stage_test {
namespace {

constexpr const char* kModel = TALON_TEST_DATA "/golden/stories260k/target";
constexpr const char* kHead = TALON_TEST_DATA "/golden/stories260k/eagle3_head";
constexpr int kLevels = 5;
constexpr TokenId kOther = 300;

/// How many drafted tokens the text goes on with, and whether another one follows.
struct Turn {
  int taken;
  bool other;
};
constexpr Turn kTurns[] = {{4, false}, {5, false}, {2, true}, {0, true},  {5, true}, {3, false},
                           {5, false}, {1, true},  {4, true}, {5, false}, {5, true}, {5, false}};

std::vector<TokenId> opening(int length) {
  const std::vector<TokenId> start = {1,   403, 407, 261, 378, 432, 383, 286,
                                      261, 376, 298, 315, 421, 395, 317, 426};
  std::vector<TokenId> tokens;
  for (int i = 0; i < length; ++i) tokens.push_back(start[static_cast<std::size_t>(i) % 16]);
  return tokens;
}

using Rows = std::vector<std::vector<float>>;

void append_rows(Backend& backend, const View& view, Rows& rows) {
  for (int row = 0; row < view.rows; ++row) {
    auto& values = rows.emplace_back(static_cast<std::size_t>(view.cols));
    backend.download(view.row_range(row, 1), values);
  }
}

/// Counts the passes of a model by those of one of its matrices.
class CountingBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  void linear(const LinearArgs& args) override {
    for (const Projection& projection : args.outputs) {
      passes += projection.weight == counted ? 1 : 0;
    }
    ForwardingBackend::linear(args);
  }

  const Weight* counted = nullptr;
  int passes = 0;
};

struct Notes {
  std::vector<TokenId> tokens;
  Rows features;  // of each token but the first
};

/// Guesses what it knows of the story, of three tokens one wrong, and notes what it is shown.
class NotingStage : public Drafter {
 public:
  NotingStage(Backend& backend, std::vector<TokenId> story, Notes& notes)
      : backend_(backend), story_(std::move(story)), notes_(notes) {}

  static std::vector<FeatureTap> wanted() { return {FeatureTap{1}, FeatureTap{}}; }
  DrafterTraits traits() const override { return {.taps = wanted()}; }
  std::unique_ptr<DraftState> start() override { return std::make_unique<DraftState>(); }
  void observe(DraftState&, const CommittedTokens& committed) override {
    EXPECT_EQ(committed.first_position, static_cast<int>(notes_.tokens.size()));
    EXPECT_EQ(committed.first_has_row, !notes_.tokens.empty());
    notes_.tokens.insert(notes_.tokens.end(), committed.tokens.begin(), committed.tokens.end());
    append_rows(backend_, committed.features, notes_.features);
    EXPECT_EQ(notes_.features.size() + 1, notes_.tokens.size());
  }
  void propose(std::span<DraftJob> jobs) override {
    DraftJob& job = jobs.front();
    EXPECT_EQ((*job.tree)[0].token, notes_.tokens.back());
    NodeId node = 0;
    for (int level = 0; level < job.plan.levels; ++level) {
      const std::size_t at = notes_.tokens.size() + static_cast<std::size_t>(level);
      if (at >= story_.size()) return;
      node = job.tree->add(node, at % 3 == 0 ? kOther : story_[at], 0.0F);
    }
  }

 private:
  Backend& backend_;
  std::vector<TokenId> story_;
  Notes& notes_;
};

class StagedByAHead : public testing::Test {
 protected:
  StagedByAHead()
      : backend_(std::make_unique<CountingBackend>(make_cpu_backend({.threads = 1}))),
        files_(open_checkpoint(kModel)),
        target_(load_model(files_, *backend_)),
        draft_(std::make_shared<const DraftModel>(load_draft_model(kModel, target_, {}))) {
    backend_->counted = draft_->model.layers.front().o.get();
  }

  std::unique_ptr<Drafter> drafter(std::unique_ptr<Drafter> stage) {
    ModelDrafterOptions options;
    options.shape = {.width = 1, .children = 1, .levels = kLevels, .nodes = 8};
    options.stage = std::move(stage);
    return make_model_drafter(draft_, target_, std::move(options));
  }
  std::unique_ptr<Drafter> head() const {
    return make_drafter("eagle3:topk=1,levels=4,nodes=4",
                        {.target = &draft_->model, .head = kHead});
  }

  struct Run {
    std::vector<TokenId> text;
    std::vector<std::vector<TokenId>> drafts;
    std::vector<std::vector<float>> chances;
    int passes = 0;
  };
  Run run(Drafter& drafts, int opening_length) {
    Run done;
    done.text = opening(opening_length);
    const int before = backend_->passes;
    const auto state = drafts.start();
    std::size_t seen = 0;
    for (const Turn& turn : kTurns) {
      drafts.observe(*state, {.tokens = std::span(done.text).subspan(seen),
                              .first_position = static_cast<int>(seen),
                              .first_has_row = seen > 0});
      seen = done.text.size();
      DraftTree tree(done.text.back());
      DraftJob job{.state = state.get(), .plan = {8, kLevels, 1}, .tree = &tree};
      job.position = static_cast<int>(seen) - 1;
      drafts.propose({&job, 1});
      const std::vector<TokenId> tokens = tree.tokens();
      done.drafts.push_back(tokens);
      done.chances.push_back(tree.log_ps());
      EXPECT_EQ(tree.depth(tree.size() - 1), kLevels);
      if (tree.size() != kLevels + 1) break;
      done.text.insert(done.text.end(), tokens.begin() + 1, tokens.begin() + 1 + turn.taken);
      if (turn.other) done.text.push_back(kOther);
    }
    done.passes = backend_->passes - before;
    return done;
  }
  /// Of each token of a text, as one pass of the draft model has them.
  Rows features_of(std::span<const TokenId> text) {
    const int rows = static_cast<int>(text.size());
    KvCache cache(*backend_, kv_shape(draft_->model.config, 8));
    Target model(draft_->model, cache, rows, NotingStage::wanted());
    KvSequence sequence = cache.start({}, /*reuse=*/false);
    EXPECT_TRUE(sequence.reserve(rows));
    const SequenceRows all{&sequence, text, {}, SequenceRows::Logits::none};
    Rows features;
    append_rows(*backend_, model.forward({&all, 1}).features, features);
    return features;
  }

  std::unique_ptr<CountingBackend> backend_;
  Checkpoint files_;
  Model target_;
  std::shared_ptr<const DraftModel> draft_;
};

TEST_F(StagedByAHead, DraftsTheSameInFewerPassesOfTheModel) {
  const Run plain = run(*drafter(nullptr), 6);
  const Run staged = run(*drafter(head()), 6);
  EXPECT_EQ(staged.drafts, plain.drafts);
  EXPECT_EQ(staged.chances, plain.chances);
  EXPECT_LT(staged.passes, plain.passes);
}

TEST_F(StagedByAHead, DraftsTheSameBehindATextThatBeganAnEarlierOne) {
  const Run plain = run(*drafter(nullptr), 150);
  const auto staged = drafter(head());
  const Run first = run(*staged, 150), second = run(*staged, 150);
  EXPECT_EQ(first.drafts, plain.drafts);
  EXPECT_EQ(second.drafts, plain.drafts);
  EXPECT_LT(second.passes, first.passes) << "the pages of the earlier text were run again";
}

TEST_F(StagedByAHead, ShowsTheStageEachTokenOnceWithTheModelsOwnFeatures) {
  for (const int length : {1, 6, 150}) {
    SCOPED_TRACE(length);
    const Run plain = run(*drafter(nullptr), length);
    Notes notes;
    const auto staged = drafter(std::make_unique<NotingStage>(*backend_, plain.text, notes));
    const Run told = run(*staged, length);
    ASSERT_EQ(told.drafts, plain.drafts);
    ASSERT_EQ(told.text, plain.text);
    ASSERT_GT(notes.tokens.size(), static_cast<std::size_t>(length) + 30);
    ASSERT_LE(notes.tokens.size(), plain.text.size());
    const auto shown = std::span(plain.text).first(notes.tokens.size());
    EXPECT_TRUE(std::ranges::equal(notes.tokens, shown));
    const Rows expected = features_of(shown);
    ASSERT_EQ(notes.features.size() + 1, expected.size());
    for (std::size_t row = 0; row < notes.features.size(); ++row) {
      ASSERT_EQ(notes.features[row].size(), expected[row].size());
      for (std::size_t i = 0; i < expected[row].size(); ++i) {
        ASSERT_NEAR(notes.features[row][i], expected[row][i], 1e-4) << "row " << row;
      }
    }
  }
}

}  // namespace
}  // namespace talon::model_stage_test
