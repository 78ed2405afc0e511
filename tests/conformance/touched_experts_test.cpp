#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "../golden/maker_data.h"
#include "backend/wrap/forwarding.h"
#include "draft/registry.h"
#include "engine/measure_costs.h"
#include "engine/test_model.h"
#include "models.h"

namespace talon::test::touched_experts_test {
namespace {

/// Notes the experts that each row of the last call of each layer goes to.
class ExpertWatch : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void embed(const Weight& table, const Indices& tokens, const View& out) override {
    first_uses.assign(static_cast<std::size_t>(tokens.count), 0);
    ForwardingBackend::embed(table, tokens, out);
  }
  void experts(const ExpertArgs& args) override {
    std::set<std::int32_t> seen;
    const int k = args.weights.cols;
    for (int i = 0; i < args.ids.count; ++i)
      first_uses[static_cast<std::size_t>(i / k)] += seen.insert(args.ids.data[i]).second ? 1 : 0;
    ForwardingBackend::experts(args);
  }
  std::vector<std::int32_t> first_uses;
};

/// Tiny random mixtures, one of them with states and one with layers that have no experts.
class TouchedExperts : public testing::TestWithParam<std::string> {
 protected:
  TouchedExperts() {
    auto backend = std::make_unique<ExpertWatch>(cpu_backend(2));
    watch_ = backend.get();
    model_.emplace(unpack_maker(GetParam()).folder, std::move(backend));
    for (const LayerPlan& plan : model_->model.config.plans) {
      used_ += plan.experts.used;
      all_ += plan.experts.count;
    }
  }
  /// A check takes 10 ms, and `expert_ms` for each expert beyond those of one row.
  Timekeeper times(double expert_ms) const {
    return [this, expert_ms](StepPart part, double) {
      const std::vector<std::int32_t>& uses = watch_->first_uses;
      const int further = std::accumulate(uses.begin(), uses.end(), 0) - used_;
      return part == StepPart::check ? 10 + expert_ms * further : 0.01;
    };
  }
  /// Of rows that share the experts of the first.
  CostProfile shared_rows(double expert_ms) const {
    CostProfile profile;
    for (const int rows : {1, 2, 4, 8, 16})
      profile.checks.push_back({rows, 64, 10 + 0.01 * rows, static_cast<double>(used_)});
    profile.expert_ms = expert_ms;
    return profile;
  }
  Request request(int first) const {
    Request asked;
    asked.max_new = 24;
    for (int token = 0; token < 40; ++token)
      asked.prompt.push_back((token % 8 * 17 + first) % model_->vocabulary());
    return asked;
  }

  ExpertWatch* watch_ = nullptr;
  std::optional<TestModel> model_;
  int used_ = 0, all_ = 0;  // experts of one row, and of all layers
};

TEST_P(TouchedExperts, OfAForwardAreCountedByTheFirstRowThatGoesToThem) {
  KvCache cache(*model_->backend, kv_shape(model_->model.config, 16));
  Target target(model_->model, cache, 40);
  KvSequence one = cache.start({}, false), two = cache.start({}, false);
  const std::vector<TokenId> text = {3, 9, 4, 9, 9, 7, 1, 3};
  const std::vector<NodeId> tree = {-1, 0, 0, 1, 1, 2, 2, 3};
  for (const int rows : {8, 1, 3}) {
    const auto tokens = std::span(text).first(static_cast<std::size_t>(rows));
    ASSERT_TRUE(one.reserve(rows) && two.reserve(rows));
    const SequenceRows batch[] = {{&one, tokens, std::span(tree).first(tokens.size())},
                                  {&two, tokens, {}}};
    const ForwardResult result = target.forward(batch);
    ASSERT_EQ(result.first_uses.count, 2 * rows);
    std::vector<std::int32_t> found(static_cast<std::size_t>(2 * rows));
    model_->backend->download(result.first_uses, found);
    EXPECT_EQ(found, watch_->first_uses);
    EXPECT_EQ(found.front(), used_);
    EXPECT_LE(std::accumulate(found.begin(), found.end(), 0), all_);
    one.keep(std::vector<NodeId>{0}, tokens.first(1));
    two.keep(std::vector<NodeId>{0}, tokens.first(1));
  }
}

TEST_P(TouchedExperts, AreReportedForEveryNodeOfEveryRound) {
  TestOptions options;
  options.policy = "fixed";
  int drafted = 0;
  options.observer = [&](const RoundReport& report) {
    ASSERT_EQ(std::ssize(report.experts), report.tree->size());
    const auto begin = watch_->first_uses.begin();
    if (report.sequences > 1) return;
    EXPECT_TRUE(std::equal(report.experts.begin(), report.experts.end(), begin));
    EXPECT_EQ(report.experts.front(), used_);
    drafted += report.tree->draft_nodes();
  };
  TestEngine engine(*model_, make_drafter("ngram", {}), options);
  engine.run(request(1));
  EXPECT_GT(drafted, 0);
  int later = 0;  // of rows behind another sequence's
  engine.run({request(1), request(5)}, 2);
  options.observer = [&](const RoundReport& report) {
    if (report.sequences == 2 && report.sequence == 2) later = report.experts.front();
  };
  TestEngine two(*model_, make_drafter("none", {}), options);
  two.run({request(1), request(1)}, 0);
  EXPECT_EQ(later, 0) << "both are at the same place of the same text";
}

/// Rows that share the first one's experts are cheap, as the profile's did; those at hand do not.
TEST_P(TouchedExperts, ArePaidForByThePolicy) {
  const auto drafted = [&](double expert_ms) {
    TestOptions options;
    options.timekeeper = times(expert_ms);
    options.costs = shared_rows(expert_ms);
    Request asked = request(1);
    asked.max_new = 200;
    TestEngine engine(*model_, make_drafter("ngram", {}), options);
    const std::vector<int> nodes = engine.run(asked).statistics.drafted;
    return std::accumulate(nodes.begin(), nodes.end(), 0);
  };
  EXPECT_GT(drafted(0), 20);
  EXPECT_LT(drafted(5), drafted(0) / 2);
}

/// Has one node checked in each round, and shows what the engine has found of the machine.
class OneNode : public TreePolicy {
 public:
  explicit OneNode(const MachineCosts*& machine) : machine_(machine) {}
  std::unique_ptr<PolicyState> start(DrafterEstimates&,
                                     const MachineCosts& machine) const override {
    machine_ = &machine;
    return std::make_unique<State>();
  }

 private:
  class State : public PolicyState {
   public:
    TreePlan plan(const PlanContext&) override { return {}; }
    void select(DraftTree& tree, const TreePlan&, const PlanContext& context, RowBudget&) override {
      if (context.rows_available > 0) tree.add(0, 0, -1);
    }
  };

  const MachineCosts*& machine_;
};

/// Two sequences at the same place of the same text: the second one's rows add no experts, so that
/// by the order of the rows it is the second row that adds some, and not the first draft.
TEST_P(TouchedExperts, OfTextsAreToldApartFromThoseOfDrafts) {
  const MachineCosts* machine = nullptr;
  double text_ms = 0, draft_ms = 0;  // that a row in such a place is believed to add
  TestOptions options;
  options.timekeeper = times(0.5);
  options.costs = shared_rows(0.5);
  options.observer = [&](const RoundReport& report) {
    if (report.sequences < 2) return;
    text_ms += machine->check_ms(2) - machine->check_ms(1);
    draft_ms += machine->check_ms(3) - machine->check_ms(2);
  };
  TestEngine engine(*model_, make_drafter("ngram", {}), options);
  Request asked = request(1);
  asked.method = engine.engine.add(
      {make_drafter("ngram", {}), std::make_shared<OneNode>(machine), make_verifier("follow")});
  engine.run({asked, asked}, 0);
  EXPECT_GT(draft_ms, 0);
  EXPECT_GT(draft_ms, 2 * text_ms);
}

TEST_P(TouchedExperts, AreCountedWhereCostsAreMeasured) {
  const auto none = make_drafter("none", {});
  const CostProfile profile = measure_costs(model_->model, KvType::f16, *none, 100);
  double before = 0;
  int context = 0;
  for (const CostProfile::Check& check : profile.checks) {
    if (check.rows == 1) {
      EXPECT_EQ(check.experts, used_);
    }
    if (check.context == context) {
      EXPECT_GE(check.experts, before);
    }
    before = check.experts;
    context = check.context;
    EXPECT_LE(check.experts, all_);
  }
  EXPECT_GE(profile.expert_ms, 0);
  EXPECT_LT(profile.expert_ms, profile.checks.back().ms);
}

INSTANTIATE_TEST_SUITE_P(Models, TouchedExperts,
                         testing::Values("qwen3_moe", "deepseek_v3", "qwen3_next"),
                         [](const auto& tested) { return tested.param; });

TEST(TouchedExpertsOfADenseModel, AreNotReported) {
  TestModel model(kStories260k, cpu_backend(1));
  int rounds = 0;
  TestOptions options;
  options.observer = [&](const RoundReport& report) {
    EXPECT_TRUE(report.experts.empty());
    ++rounds;
  };
  Request asked;
  asked.prompt = {1, 403, 407};
  asked.max_new = 8;
  TestEngine(model, make_drafter("ngram", {}), options).run(asked);
  EXPECT_GT(rounds, 0);
  const auto none = make_drafter("none", {});
  EXPECT_EQ(measure_costs(model.model, KvType::f16, *none, 20).expert_ms, 0);
}

}  // namespace
}  // namespace talon::test::touched_experts_test
