#include "engine/round/round_report.h"

#include <gtest/gtest.h>

#include <map>

#include "backend/cpu/cpu.h"
#include "draft/registry.h"
#include "engine/engine.h"
#include "engine/test_model.h"
#include "tree/policies/test_files.h"
#include "tree/policy_registry.h"

namespace talon::round_report_test {
namespace {

using test::Answer;
using test::TestEngine;
using test::TestModel;

TestModel& small_model() {
  static TestModel model(TALON_TEST_DATA "/golden/stories260k/target",
                         make_cpu_backend({.threads = 1}));
  return model;
}

Request request(std::uint64_t seed = 1) {
  Request result;
  result.prompt = {1, 403, 407, 261, 378};
  result.max_new = 40;
  result.seed = seed;
  result.sampler.temperature = 0.8;
  return result;
}

/// What an observer saw, with the trees.
struct Seen {
  RoundReport report;
  DraftTree tree{0};
  std::vector<NodeId> accepted;
  std::vector<TokenId> emitted;
};
test::TestOptions observed(std::vector<Seen>& seen, std::string policy = "fixed") {
  test::TestOptions options;
  options.policy = std::move(policy);
  options.observer = [&seen](const RoundReport& report) {
    seen.push_back({report,
                    *report.tree,
                    {report.accepted.begin(), report.accepted.end()},
                    {report.emitted.begin(), report.emitted.end()}});
  };
  return options;
}

TEST(RoundObserver, SeesEveryRoundOfEverySequenceAsItBecameText) {
  std::vector<Seen> seen;
  TestEngine engine(small_model(), make_drafter("ngram", {}), observed(seen));
  const std::vector<Answer> answers = engine.run(std::vector<Request>{request(1), request(2)}, 3);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    std::vector<TokenId> text = {answers[i].tokens.front()};  // of the prefill
    int rounds = 0;
    for (const Seen& round : seen) {
      if (round.report.sequence != i + 1) continue;
      EXPECT_EQ(round.report.round, ++rounds);
      EXPECT_EQ(round.report.position, 5 + static_cast<int>(text.size()) - 1);
      EXPECT_EQ(round.tree[0].token, text.back());
      EXPECT_EQ(round.accepted, round.tree.path(round.accepted.back()));
      ASSERT_EQ(round.emitted.size(), round.accepted.size());
      for (std::size_t k = 1; k < round.accepted.size(); ++k) {
        EXPECT_EQ(round.tree[round.accepted[k]].token, round.emitted[k - 1]);
      }
      EXPECT_GE(round.report.draft_ms, 0);
      EXPECT_GT(round.report.check_ms, 0);
      EXPECT_EQ(round.report.distortion, 0);
      text.insert(text.end(), round.emitted.begin(), round.emitted.end());
    }
    EXPECT_EQ(text, answers[i].tokens);
    EXPECT_EQ(rounds, answers[i].statistics.rounds);
  }
}

/// Draws children from a law over ten frequent tokens: three below the root, one below each of
/// those.
class DrawingDrafter : public Drafter {
 public:
  DrafterTraits traits() const override { return {.draws = true}; }
  std::unique_ptr<DraftState> start() override { return std::make_unique<DraftState>(); }
  void observe(DraftState&, const CommittedTokens&) override {}
  void propose(std::span<DraftJob> jobs) override {
    for (DraftJob& job : jobs) {
      std::uint32_t used = 0;
      const auto uniform = [&](int) {
        return job.random->uniform(static_cast<std::uint64_t>(job.position), RandomUse::draft,
                                   used++);
      };
      Law<double> law;
      for (const TokenId token : {261, 267, 269, 286, 300, 337, 378, 403, 426, 432})
        law.entries.push_back({token, 1.0});
      job.tree->draw_children(0, law, 3, uniform);
      for (NodeId node = 1; node <= 3; ++node) job.tree->draw_children(node, law, 1, uniform);
      proposed[job.position] = job.tree->tokens();
    }
  }
  std::map<int, std::vector<TokenId>> proposed;  // by the root's position
};

TEST(RoundObserver, ARelaxedRulesDistortionAddsUp) {
  std::vector<Seen> seen;
  TestEngine engine(small_model(), std::make_unique<DrawingDrafter>(), observed(seen), 64,
                    make_verifier("typical:epsilon=0.02"));
  const Answer answer = engine.run(request());
  double sum = 0;
  for (const Seen& round : seen) sum += round.report.distortion;
  EXPECT_GT(sum, 0);
  EXPECT_DOUBLE_EQ(answer.statistics.distortion, sum);
}

TEST(DrawnTrees, AreCheckedAsTheyWereDrawnUnderEveryPolicy) {
  for (const PolicyEntry& policy : policies()) {
    std::vector<Seen> seen;
    auto drafter = std::make_unique<DrawingDrafter>();
    DrawingDrafter& drawing = *drafter;
    TestEngine engine(small_model(), std::move(drafter), observed(seen, test::policy_text(policy)),
                      64, make_verifier("traversal"));
    Request asked = request();
    asked.max_new = 200;
    const Answer answer = engine.run(asked);
    EXPECT_EQ(answer.tokens.size(), 200u);
    std::size_t accepted = 0;
    for (const Seen& round : seen) {
      if (round.tree.draft_nodes() == 0) continue;
      // Near the end of the answer fewer levels fit; else nothing is dropped.
      const auto& proposed = drawing.proposed.at(round.report.position);
      ASSERT_LE(round.tree.nodes.size(), proposed.size());
      const std::vector<TokenId> checked = round.tree.tokens();
      EXPECT_TRUE(std::equal(checked.begin(), checked.end(), proposed.begin())) << policy.name;
      accepted += round.accepted.size() - 1;
    }
    if (policy.name == "fixed") {
      EXPECT_GT(accepted, 3u);
    }
  }
}

TEST(DrawnTrees, AtTemperatureZeroEveryLosslessRuleGivesThePlainTokens) {
  Request greedy = request();
  greedy.sampler.temperature = 0;
  test::TestOptions fixed;
  fixed.policy = "fixed";
  const auto expected = TestEngine(small_model(), make_drafter("none", {})).run(greedy).tokens;
  for (const VerifierEntry& rule : verifiers()) {
    TestEngine engine(small_model(), std::make_unique<DrawingDrafter>(), fixed, 64,
                      make_verifier(rule.name));
    EXPECT_EQ(engine.run(greedy).tokens, expected) << rule.name;
  }
}

TEST(MergedDrafters, GiveTheTokensOfPlainDecoding) {
  for (const double temperature : {0.0, 0.8}) {
    Request asked = request();
    asked.max_new = 120;
    asked.sampler.temperature = temperature;
    const auto expected = TestEngine(small_model(), make_drafter("none", {})).run(asked).tokens;
    for (const char* drafter :
         {"suffix", "ngram+suffix", "suffix:history=1000+ngram:nodes=4", "none+suffix"}) {
      for (const PolicyEntry& policy : policies()) {
        test::TestOptions options;
        options.policy = test::policy_text(policy);
        TestEngine engine(small_model(), make_drafter(drafter, {}), options);
        EXPECT_EQ(engine.run(asked).tokens, expected) << drafter << " " << policy.name;
        EXPECT_EQ(engine.run(asked).tokens, expected) << drafter << " again";
      }
    }
  }
}

/// Has one node checked that is never right, and notes what it is told.
class NotingPolicy : public TreePolicy {
 public:
  explicit NotingPolicy(std::vector<PlanContext>& contexts) : contexts_(contexts) {}
  std::unique_ptr<PolicyState> start(DrafterEstimates&, const MachineCosts&) const override {
    return std::make_unique<State>(contexts_);
  }

 private:
  class State : public PolicyState {
   public:
    explicit State(std::vector<PlanContext>& contexts) : contexts_(contexts) {}
    TreePlan plan(const PlanContext&) override { return {}; }
    void select(DraftTree& tree, const TreePlan&, const PlanContext& context, RowBudget&) override {
      contexts_.push_back(context);
      if (context.rows_available > 0) tree.add(0, 0, -1);
    }

   private:
    std::vector<PlanContext>& contexts_;
  };

  std::vector<PlanContext>& contexts_;
};

TEST(RoundPlan, TellsTheRowsOfOthersApartByPromptsAndDrafts) {
  test::TestOptions options;
  options.chunk = 7;
  TestEngine engine(small_model(), make_drafter("none", {}), options);
  std::vector<PlanContext> contexts;
  const MethodId noting =
      engine.engine.add({make_drafter("ngram", {}), std::make_shared<NotingPolicy>(contexts),
                         make_verifier("follow")});
  Request first;
  first.prompt = {1, 403, 407};
  first.max_new = 12;
  first.method = noting;
  Request second = first;
  second.prompt.assign(16, 261);  // read in chunks of 7, 7 and 2 rows from step 3 on
  engine.run({first, second}, 3);

  std::vector<std::vector<int>> told;
  for (const PlanContext& context : contexts) {
    told.push_back(
        {context.sequences, context.other_rows, context.prompt_rows, context.drafted_rows});
  }
  const std::vector<std::vector<int>> expected = {{1, 0, 0, 0}, {1, 0, 0, 0}, {1, 7, 7, 0},
                                                  {1, 7, 7, 0}, {1, 2, 2, 0}, {2, 1, 0, 0},
                                                  {2, 1, 0, 1}};
  ASSERT_GE(told.size(), expected.size());
  told.resize(expected.size());
  EXPECT_EQ(told, expected);
  EXPECT_EQ(contexts[4].mean_position, contexts[4].position);
  EXPECT_NE(contexts[5].position, contexts[6].position);
  for (const std::size_t i : {5, 6})
    EXPECT_EQ(contexts[i].mean_position, (contexts[5].position + contexts[6].position) / 2);
}

}  // namespace
}  // namespace talon::round_report_test
