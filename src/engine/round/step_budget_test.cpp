#include "engine/round/step_budget.h"

#include <gtest/gtest.h>

#include <deque>

#include "backend/reference/reference.h"
#include "draft/registry.h"
#include "engine/test_model.h"

namespace talon::step_budget_test {
namespace {

using test::TestEngine;
using test::TestModel;
using test::TestOptions;

/// Checks of n rows take 4 + 0.5 (n - 1) ms.
CostProfile profile() {
  CostProfile profile;
  for (const int rows : {1, 2, 32}) profile.checks.push_back({rows, 64, 4.0 + 0.5 * (rows - 1)});
  return profile;
}
MachineCosts costs() { return MachineCosts(512, profile()); }

/// Likewise, and 0.1 ms for each position of a text beyond 64.
CostProfile long_profile() {
  CostProfile profile;
  for (const int context : {64, 1064}) {
    for (const int rows : {1, 2, 32})
      profile.checks.push_back({rows, context, 4.0 + 0.5 * (rows - 1) + 0.1 * (context - 64)});
  }
  return profile;
}

AnswerRows answers(int rows, int texts = 1, int context = 0) {
  return {rows, texts, static_cast<long>(texts) * context};
}

Request request(int prompt, int max_new) {
  Request result;
  result.prompt.assign(static_cast<std::size_t>(prompt), 261);
  result.prompt[0] = 1;
  result.max_new = max_new;
  return result;
}

TEST(StepBudget, PromptRowsFitTheTime) {
  const MachineCosts machine = costs();
  StepBudget budget(20, machine);
  const int guessed = budget.rows_beside(answers(1));
  EXPECT_GE(guessed, 20);
  EXPECT_LE(guessed, 40);
  for (int i = 0; i < 40; ++i) budget.observe(100, 100);
  EXPECT_EQ(budget.rows_beside(answers(1)), 16);
  EXPECT_EQ(budget.rows_beside(answers(1), 6), 10);
  EXPECT_EQ(budget.rows_beside(answers(5)), 14);
  EXPECT_EQ(StepBudget(1, machine).rows_beside(answers(1)), StepBudget::kLeastRows);
}

TEST(StepBudget, AnswersBehindLongTextsTakeMoreOfTheTime) {
  const MachineCosts machine(512, long_profile());
  StepBudget budget(60.5, machine);
  for (int i = 0; i < 40; ++i) budget.observe(100, 100);
  EXPECT_EQ(budget.rows_beside(answers(1, 1, 64)), 56);
  EXPECT_EQ(budget.rows_beside(answers(1, 1, 264)), 36);
  EXPECT_EQ(budget.rows_beside(answers(3, 2, 264)), 15);
  // A usual step is ten times what one of them takes.
  StepBudget usual(kUsualStep, machine);
  for (int i = 0; i < 40; ++i) usual.observe(100, 100);
  EXPECT_EQ(usual.rows_beside(answers(2, 2, 114)), 75);
}

/// A step: trees of answers by their draft nodes, then prompts by their rows, which end with it.
class Step {
 public:
  Step(const std::vector<int>& trees, const std::vector<int>& prompts) {
    for (const int nodes : trees) {
      Scheduled& entry = add(1);
      entry.decodes = true;
      for (int node = 0; node < nodes; ++node) entry.tree.add(node, 2, 0);
    }
    for (const int rows : prompts) add(rows);
  }
  /// Rows of the prompts that are run after all, and -1 before those that go on after the step.
  std::vector<int> prompts_within(const StepBudget& budget, double draft_ms = 0) {
    budget.make_way_for_trees(scheduled_, draft_ms);
    std::vector<int> rows;
    for (const Scheduled& entry : scheduled_) {
      if (entry.decodes) continue;
      if (!entry.chooses) rows.push_back(-1);
      rows.push_back(entry.grant.rows);
    }
    return rows;
  }

 private:
  Scheduled& add(int rows) {
    Scheduled& entry = scheduled_.emplace_back();
    entry.sequence =
        &sequences_.emplace_back(1, request(100, 1), std::make_shared<MethodEntry>(), 512, nullptr);
    entry.grant.rows = rows;
    entry.chooses = true;
    return entry;
  }

  std::deque<Sequence> sequences_;
  std::vector<Scheduled> scheduled_;
};

TEST(StepBudget, TreesComeBeforePromptsAndTheYoungestLosesFirst) {
  const MachineCosts machine = costs();
  StepBudget budget(30, machine);
  for (int i = 0; i < 40; ++i) budget.observe(100, 100);
  using Rows = std::vector<int>;
  // Of 30 ms two answers take 4.5.
  EXPECT_EQ(Step({0, 0}, {15, 10}).prompts_within(budget), (Rows{15, 10}));
  EXPECT_EQ(Step({0, 0}, {15, 20}).prompts_within(budget), (Rows{15, -1, 10}));
  EXPECT_EQ(Step({6, 4}, {15, 10}).prompts_within(budget), (Rows{15, -1, 5}));
  EXPECT_EQ(Step({6, 4}, {15, 10}).prompts_within(budget, 6), (Rows{-1, 14}));
  EXPECT_EQ(Step({40, 40}, {15, 10}).prompts_within(budget), (Rows{-1, StepBudget::kLeastRows}));
  EXPECT_EQ(Step({}, {256, 256}).prompts_within(budget, 0), (Rows{256, 256}));
  EXPECT_EQ(Step({40, 40}, {256}).prompts_within(StepBudget(0, machine)), (Rows{256}));
}

TEST(StepBudget, LongPromptsRunInPiecesWhileOthersAnswer) {
  TestModel model(TALON_TEST_DATA "/golden/stories260k/target", make_reference_backend(1));
  // Steps of the prompt, beside an answer and alone.
  const auto steps_with = [&](double step_ms, bool alone) {
    TestOptions options;
    options.step_ms = step_ms;
    TestEngine test(model, make_drafter("none", {}), options);
    if (!alone) {
      test.submit(request(5, 200));
      test.engine.step();
    }
    const SequenceId id = test.submit(request(300, 30));
    for (int steps = 1;; ++steps) {
      for (const Progress& progress : test.engine.step()) {
        if (progress.sequence == id) return steps;
      }
    }
  };
  EXPECT_EQ(steps_with(0, false), 2);
  EXPECT_EQ(steps_with(1e-3, false), (300 + StepBudget::kLeastRows - 1) / StepBudget::kLeastRows);
  EXPECT_EQ(steps_with(1e-3, true), 2);
}

/// Prompt rows of three steps of 100 ms beside an answer behind 400 positions.
std::vector<int> rows_beside_a_long_answer(TestModel& model) {
  double check_ms = 200;  // of the answer's prompt: 0.5 ms a row
  TestOptions options;
  options.step_ms = 100;
  options.chunk = 512;
  options.costs = long_profile();
  options.timekeeper = [&](StepPart part, double) {
    return part == StepPart::check ? check_ms : 0.0;
  };
  TestEngine test(model, make_drafter("none", {}), options);
  test.submit(request(400, 50));
  test.engine.step();
  check_ms = options.step_ms;
  Request prompt = request(480, 8);
  prompt.reuse_prefix = false;
  test.submit(prompt);
  std::vector<int> rows;
  for (int step = 0; step < 3; ++step) {
    test.engine.step();
    rows.push_back(test.engine.load().prompt_rows);
  }
  return rows;
}

TEST(StepBudget, StepsBesideALongAnswerAreAsLongAsTheyMayBe) {
  TestModel model(TALON_TEST_DATA "/golden/stories260k/target", make_reference_backend(1));
  for (const int rows : rows_beside_a_long_answer(model)) EXPECT_NEAR(rows, 124, 2);
}

TEST(StepBudget, ALongAnswerTakesNoMoreOfAStepWhereLayersSeeItsEndAlone) {
  TestModel model(TALON_TEST_DATA "/golden/stories260k/target", make_reference_backend(1));
  for (LayerPlan& plan : model.model.config.plans) plan.window = 64;
  const std::vector<int> rows = rows_beside_a_long_answer(model);
  for (const int step : {0, 1}) EXPECT_NEAR(rows[static_cast<std::size_t>(step)], 192, 2);
}

TEST(StepBudget, WhatDraftingTookOfAStepIsTakenFromItsPrompts) {
  TestModel model(TALON_TEST_DATA "/golden/stories260k/target", make_reference_backend(1));
  // Prompt rows of a step beside an answer.
  const auto rows_after = [&](double draft_ms) {
    TestOptions options;
    options.step_ms = 100;
    options.costs = profile();
    options.timekeeper = [draft_ms](StepPart part, double) {
      return part == StepPart::draft ? draft_ms : part == StepPart::check ? 4.0 : 0.0;
    };
    TestEngine test(model, make_drafter("none", {}), options);
    test.submit(request(5, 200));
    test.engine.step();
    test.submit(request(300, 30));
    test.engine.step();
    return test.engine.load().prompt_rows;
  };
  EXPECT_GT(rows_after(0), 100);
  EXPECT_EQ(rows_after(1000), StepBudget::kLeastRows);
}

}  // namespace
}  // namespace talon::step_budget_test
