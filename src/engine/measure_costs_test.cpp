#include "engine/measure_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/wrap/forwarding.h"
#include "backend/wrap/tracing.h"
#include "draft/registry.h"
#include "engine/test_model.h"
#include "io/test_files.h"

namespace talon::measure_costs_test {
namespace {

const std::string kGolden = TALON_TEST_DATA "/golden/stories260k/";

test::TestModel& small_model() {
  static test::TestModel model(kGolden + "target", make_cpu_backend({.threads = 1}));
  return model;
}

std::unique_ptr<Drafter> head() {
  return make_drafter("eagle3:nodes=512",
                      {.target = &small_model().model, .head = kGolden + "eagle3_head"});
}

TEST(MeasureCosts, TimesChecksAtTwoContextsWithoutTouchingTheDraftersSequences) {
  const auto drafter = head();
  const CostProfile profile = measure_costs(small_model().model, KvType::f16, *drafter, 50);
  ASSERT_GE(profile.checks.size(), 4u);
  EXPECT_LT(profile.checks.front().context, profile.checks.back().context);
  for (const CostProfile::Check& check : profile.checks) EXPECT_GT(check.ms, 0);
  EXPECT_LE(profile.levels.size(), 2u);
}

TEST(MeasureCosts, TimesWhatTokensTakeThatAHeadHasNotSeen) {
  const CostProfile profile = measure_costs(small_model().model, KvType::f16, *head(), 50);
  ASSERT_TRUE(profile.waiting_row_ms);
  EXPECT_LT(*profile.waiting_row_ms, profile.levels.front().ms) << "they come in one pass";
  const auto table = make_drafter("ngram", {});
  EXPECT_FALSE(measure_costs(small_model().model, KvType::f16, *table, 50).waiting_row_ms);
}

/// Notes what a head says that it has yet to run, in passes that a policy is asked about.
class WatchedHead : public Drafter {
 public:
  DrafterTraits traits() const override { return head_->traits(); }
  std::unique_ptr<DraftState> start() override { return head_->start(); }
  void observe(DraftState& state, const CommittedTokens& committed) override {
    head_->observe(state, committed);
  }
  void propose(std::span<DraftJob> jobs) override {
    for (const DraftJob& job : jobs) {
      Noting noting(*job.policy, most_waiting);
      DraftJob noted = job;
      noted.policy = &noting;
      head_->propose({&noted, 1});
    }
  }
  int most_waiting = 0;

 private:
  class Noting : public PolicyState {
   public:
    Noting(PolicyState& policy, int& most) : policy_(policy), most_(most) {}
    TreePlan plan(const PlanContext& context) override { return policy_.plan(context); }
    bool start(const DraftTree& tree, int waiting) override {
      most_ = std::max(most_, waiting);
      return policy_.start(tree, waiting);
    }
    int expand(std::span<const float> path_log_p) override { return policy_.expand(path_log_p); }

   private:
    PolicyState& policy_;
    int& most_;
  };
  std::unique_ptr<Drafter> head_ = head();
};

/// Else what they take would not be timed: of many at once heads run most before a draft.
TEST(MeasureCosts, LeavesTheTokensToADraftWhoseTimeWithThemIsTaken) {
  WatchedHead drafter;
  measure_costs(small_model().model, KvType::f16, drafter, 20);
  EXPECT_EQ(drafter.most_waiting, 31);
}

TEST(MeasureCosts, TimesThePassesOfEachNetworkOfAJoinedDrafter) {
  EXPECT_TRUE(measure_costs(small_model().model, KvType::f16, *head(), 20).networks.empty());
  const auto joined =
      make_drafter("eagle3+suffix+draft:model=self",
                   {.target = &small_model().model, .head = kGolden + "eagle3_head"});
  const CostProfile profile = measure_costs(small_model().model, KvType::f16, *joined, 50);
  ASSERT_EQ(profile.networks.size(), 2u);
  const CostProfile& one_layer = profile.networks[0];
  const CostProfile& whole_model = profile.networks[1];
  EXPECT_EQ(one_layer.source, 1u);
  EXPECT_EQ(whole_model.source, 4u);
  ASSERT_EQ(one_layer.levels.size(), 2u);
  ASSERT_EQ(whole_model.levels.size(), 2u);
  EXPECT_GT(whole_model.levels[0].ms, one_layer.levels[0].ms);
  EXPECT_EQ(profile.levels[0].ms, one_layer.levels[0].ms);
}

TEST(MeasureCosts, NearLayersReadTheEndOfAContext) {
  ModelConfig config = small_model().model.config;
  const auto layers = static_cast<double>(config.plans.size());
  EXPECT_EQ(context_read(config).of(500), 500);
  for (LayerPlan& plan : config.plans) plan.window = 100;
  EXPECT_EQ(context_read(config).of(500), 100);
  config.plans.front().window = 0;
  EXPECT_NEAR(context_read(config).of(500), (500 + 100 * (layers - 1)) / layers, 1e-9);
}

TEST(MeasureCosts, TheFarContextIsLongWhereItsKeysAndValuesAreFew) {
  ModelConfig config = small_model().model.config;
  EXPECT_EQ(far_context(config, KvType::f16), 512 - 32);
  config.context = 8192;
  EXPECT_EQ(far_context(config, KvType::f16), 2048);
  LayerPlan plan = config.plans.front();
  plan.kv_heads = 8;
  plan.head_dim = 128;
  config.plans.assign(32, plan);  // as of 8 billion weights: 128 KiB a position
  EXPECT_EQ(far_context(config, KvType::f16), 512);
  config.plans.resize(16);
  EXPECT_EQ(far_context(config, KvType::f16), 1024);
}

TEST(MeasureCosts, TimesChecksAtTheFarContext) {
  test::TestModel model(kGolden + "target", make_cpu_backend({.threads = 1}));
  model.model.config.context = 8192;
  const auto none = make_drafter("none", {});
  const CostProfile profile = measure_costs(model.model, KvType::f16, *none, 50);
  EXPECT_EQ(profile.checks.back().context, 2048);
}

TEST(MeasureCosts, StartsEachSweepAsADecodingLoopRunsAndNotAfterItsLongestForward) {
  auto backend = make_tracing_backend(make_cpu_backend({.threads = 1}));
  TracingBackend& trace = *backend;
  test::TestModel model(kGolden + "target", std::move(backend));
  const auto none = make_drafter("none", {});
  measure_costs(model.model, KvType::f16, *none, 50);
  std::vector<int> forwards;  // rows
  for (const TraceEntry& entry : trace.entries()) {
    if (entry.operation == "embed") forwards.push_back(entry.rows);
  }
  const auto is_long = [](int rows) { return rows > 1; };
  int sweeps = 0;
  for (auto at = forwards.begin(); at != forwards.end();) {
    const auto next = std::find_if(at, forwards.end(), is_long);
    if (next != forwards.end() && *next == 2) {  // the first row count after one row
      ++sweeps;
      EXPECT_GT(next - at, 3) << "forwards of one row before those that count";
    }
    at = std::find_if_not(next, forwards.end(), is_long);
  }
  EXPECT_GE(sweeps, 2);
}

TEST(MeasureCosts, FindsThePassesOfDraftersThatHaveSome) {
  const auto none = make_drafter("ngram", {});
  EXPECT_EQ(none->traits().pass_bytes, 0u);
  EXPECT_TRUE(measure_passes(small_model().model, KvType::f16, *none, std::array{1}, 20).empty());
  const auto drafter = head();
  EXPECT_GT(drafter->traits().pass_bytes, 50'000u);  // 73 thousand weights of 8 bits
  const auto rows = std::array{1, 8};
  for (const auto& level : measure_passes(small_model().model, KvType::f16, *drafter, rows, 50)) {
    EXPECT_GT(level.ms, 0);
  }
}

/// Notes the depths of the drafts that it was asked for, with known noise and without.
class AskedDrafter : public Drafter {
 public:
  std::unique_ptr<DraftState> start() override { return std::make_unique<DraftState>(); }
  void observe(DraftState&, const CommittedTokens&) override {}
  void propose(std::span<DraftJob> jobs) override {
    for (DraftJob& job : jobs) {
      job.policy->start(*job.tree, 0);
      (job.sampler ? with_noise : without_noise).insert(job.plan.levels);
    }
  }
  std::set<int> with_noise, without_noise;
};

/// Else it could not be told from the noise of each level what a head makes at once.
TEST(MeasureCosts, TimesTheNoiseOfOneLevelAndOfSeveral) {
  AskedDrafter drafter;
  measure_costs(small_model().model, KvType::f16, drafter, 20);
  EXPECT_EQ(drafter.with_noise, (std::set{1, 5}));
  EXPECT_EQ(drafter.without_noise, drafter.with_noise);
}

TEST(ObtainCosts, ReadsWhatWasKeptUnderTheSameKeyOnly) {
  const test::TemporaryFolder folder;
  const auto drafter = head();
  const auto obtain = [&](const std::string& key) {
    return obtain_costs(small_model().model, KvType::f16, *drafter, "eagle3", {folder.path(), key});
  };
  CostProfile first;
  for (int attempt = 0; attempt < 50 && std::filesystem::is_empty(folder.path()); ++attempt) {
    first = obtain("a machine");
  }
  if (std::filesystem::is_empty(folder.path()))
    GTEST_SKIP() << "nothing is kept while the machine is disturbed";
  ASSERT_TRUE(first.steady);
  EXPECT_EQ(obtain("a machine").checks.front().ms, first.checks.front().ms);
  EXPECT_EQ(obtain("a machine").levels.size(), first.levels.size());
  const std::filesystem::path kept = *std::filesystem::directory_iterator(folder.path());
  std::ifstream file(kept);
  Json profile = Json::parse(file);
  for (Json& check : profile["checks"]) check["ms"] = 9000;
  std::ofstream(kept) << profile;
  EXPECT_EQ(obtain("a machine").checks.front().ms, 9000);
  EXPECT_LT(obtain("another machine").checks.front().ms, 9000);
}

/// A backend whose machine is never at rest.
class DisturbedBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  bool is_disturbed() const override { return true; }
};

TEST(ObtainCosts, KeepsNothingThatWasMeasuredBesideOthers) {
  const test::TemporaryFolder folder;
  test::TestModel model(kGolden + "target",
                        std::make_unique<DisturbedBackend>(make_cpu_backend({.threads = 1})));
  const auto none = make_drafter("none", {});
  const CostProfile profile =
      obtain_costs(model.model, KvType::f16, *none, "none", {folder.path(), "a machine"});
  EXPECT_FALSE(profile.empty());
  EXPECT_FALSE(profile.steady);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace talon::measure_costs_test
