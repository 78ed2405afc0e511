#include <gtest/gtest.h>

#include "backend/cpu/cpu.h"
#include "core/error.h"
#include "draft/registry.h"
#include "engine/test_model.h"
#include "tree/drafter_estimates.h"

namespace talon::methods_test {
namespace {

using test::Answer;
using test::TestEngine;
using test::TestModel;

constexpr const char* kEagle1 = "eagle2:head=" TALON_TEST_DATA "/golden/stories260k/eagle1_head";
constexpr const char* kEagle3 = "eagle3:head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head";

TestModel& small_model() {
  static TestModel model(TALON_TEST_DATA "/golden/stories260k/target",
                         make_cpu_backend({.threads = 1, .pin = false}));
  return model;
}

struct MethodText {
  std::string drafter, policy, rule = "follow";
};

Method method_of(const MethodText& text) {
  const Model& model = small_model().model;
  return {make_drafter(text.drafter, DrafterContext{&model}),
          make_policy(text.policy, {model.config.hidden}), make_verifier(text.rule)};
}

Request request(std::vector<TokenId> prompt, double temperature = 0) {
  Request result;
  result.prompt = std::move(prompt);
  result.max_new = 20;
  result.sampler.temperature = temperature;
  result.seed = 3;
  return result;
}

/// Drafters with and without taps, policies with and without costs, exact and relaxed rules.
std::vector<MethodText> mixture() {
  return {{"none", "fixed"},
          {"ngram", "throughput"},
          {std::string(kEagle3) + "+suffix", "throughput"},
          {"suffix", "fixed"},
          {kEagle1, "eagle2"},
          {kEagle3, "ddd", "token"},
          {kEagle3, "fixed", "typical"},
          {"ngram", "fixed", "block"}};
}

class MixedMethods : public testing::TestWithParam<double> {};

TEST_P(MixedMethods, OneEngineServesManyAtOnceAndEachRequestGetsTheTokensThatItGetsAlone) {
  const std::vector<std::vector<TokenId>> prompts = {
      {1, 403, 407, 261, 378}, {1, 403, 407, 403, 407, 403}, {1, 300}};
  std::vector<Request> requests;
  std::vector<Answer> alone;
  TestEngine test(small_model(), make_drafter("none", {}));
  for (const MethodText& text : mixture()) {
    const MethodId method = test.engine.add(method_of(text));
    for (const auto& prompt : prompts) {
      TestEngine single(small_model(), make_drafter("none", {}));
      Request asked = request(prompt, GetParam());
      asked.method = single.engine.add(method_of(text));
      alone.push_back(single.run(asked));
      asked.method = method;
      requests.push_back(asked);
    }
  }
  const std::vector<Answer> together = test.run(requests, /*apart=*/1);
  int drafted = 0;
  for (std::size_t i = 0; i < together.size(); ++i) {
    const MethodText text = mixture()[i / prompts.size()];
    // Drawn tokens of the other rules depend on the tree, and so on the rows that neighbours leave.
    if (GetParam() == 0 || text.rule == "follow") {
      EXPECT_EQ(together[i].tokens, alone[i].tokens) << text.drafter << " " << text.rule;
    }
    EXPECT_EQ(together[i].finish, FinishReason::length);
    drafted += together[i].statistics.rounds < 19 ? 1 : 0;
  }
  EXPECT_GT(drafted, 4) << "hardly a draft was accepted";
  EXPECT_EQ(test.engine.statistics().dropped, 0);
}

INSTANTIATE_TEST_SUITE_P(AtTemperature, MixedMethods, testing::Values(0.0, 0.7),
                         [](const auto& of) {
                           return std::string(of.param == 0 ? "Greedy" : "Drawn");
                         });

TEST(Methods, OneThatIsAddedBetweenStepsDisturbsNobody) {
  TestEngine test(small_model(), make_drafter("none", {}));
  std::vector<Request> requests = {request({1, 403, 407}), request({1, 300}, 0.7),
                                   request({1, 261, 378})};
  requests[1].method = test.engine.add(method_of({kEagle1, "fixed"}));
  std::vector<Answer> answers(requests.size());
  std::vector<SequenceId> ids = {test.submit(requests[0]), test.submit(requests[1])};
  for (int step = 0; ids.size() < 3 || !test.engine.idle(); ++step) {
    if (step == 4) {
      requests[2].method = test.engine.add(method_of({kEagle3, "fixed"}));
      ids.push_back(test.submit(requests[2]));
    }
    for (const Progress& progress : test.engine.step()) {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] == progress.sequence) test.note(progress, answers[i]);
      }
    }
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].method = 0;
    const Answer plain = TestEngine(small_model(), make_drafter("none", {})).run(requests[i]);
    EXPECT_EQ(answers[i].tokens, plain.tokens);
  }
  EXPECT_LT(answers[1].statistics.rounds, 19);
  EXPECT_LT(answers[2].statistics.rounds, 19);
}

/// Counts calls and jobs.
class CountingDrafter : public Drafter {
 public:
  std::unique_ptr<DraftState> start() override { return std::make_unique<DraftState>(); }
  void observe(DraftState&, const CommittedTokens&) override {}
  void propose(std::span<DraftJob> jobs) override {
    ++calls;
    most_jobs = std::max(most_jobs, jobs.size());
  }
  int calls = 0;
  std::size_t most_jobs = 0;
};

TEST(Methods, ADrafterThatSeveralHaveIsCalledOnceARound) {
  auto drafter = std::make_shared<CountingDrafter>(), other = std::make_shared<CountingDrafter>();
  TestEngine test(small_model(), make_drafter("none", {}));
  std::vector<Request> requests(3, request({1, 403, 407}));
  int method = 0;
  for (const auto& of : {drafter, other, drafter}) {
    requests[static_cast<std::size_t>(method++)].method =
        test.engine.add({of, make_policy("fixed"), make_verifier("follow")});
  }
  test.run(requests);
  EXPECT_EQ(drafter->calls, 19);
  EXPECT_EQ(drafter->most_jobs, 2u);
  EXPECT_EQ(other->calls, 19);
  EXPECT_EQ(other->most_jobs, 1u);
}

TEST(Methods, ARequestNamesOneThatTheEngineHas) {
  TestEngine test(small_model(), make_drafter("none", {}));
  for (const MethodId unknown : {-1, 1}) {
    Request asked = request({1, 403});
    asked.method = unknown;
    const auto submitted = test.engine.submit(asked);
    const auto* refusal = std::get_if<Refusal>(&submitted);
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->reason, Refusal::Reason::bad_request);
    EXPECT_EQ(refusal->message,
              fmt::format("method: expected one that was added, found {}", unknown));
  }
}

TEST(Methods, OneThatNoRequestHasGivesItsNumberAway) {
  TestEngine test(small_model(), make_drafter("none", {}));
  auto drafter = std::make_shared<CountingDrafter>();
  const std::weak_ptr<CountingDrafter> kept = drafter;
  Request asked = request({1, 403, 407});
  asked.method =
      test.engine.add({std::move(drafter), make_policy("fixed"), make_verifier("follow")});
  const std::vector<TokenId> plain = test.run(request({1, 403, 407})).tokens;
  test.engine.submit(asked);
  EXPECT_FALSE(test.engine.remove(asked.method));  // it waits
  while (!test.engine.idle()) {
    test.engine.step();
    EXPECT_FALSE(test.engine.remove(asked.method));  // it runs, or has just ended
  }
  test.engine.step();
  EXPECT_TRUE(test.engine.remove(asked.method));
  EXPECT_TRUE(kept.expired());
  EXPECT_FALSE(test.engine.remove(asked.method));
  const auto submitted = test.engine.submit(asked);
  EXPECT_TRUE(std::holds_alternative<Refusal>(submitted));
  EXPECT_EQ(test.engine.add(method_of({"suffix", "fixed"})), asked.method);
  EXPECT_EQ(test.run(asked).tokens, plain);
}

class DrafterThatThrows : public CountingDrafter {
 public:
  void propose(std::span<DraftJob>) override { throw std::runtime_error("no more guesses"); }
};

TEST(Methods, ADrafterThatThrowsIsTheReasonWhyItsRequestsGoOnWithoutDrafts) {
  TestEngine test(small_model(), make_drafter("none", {}));
  Request asked = request({1, 403, 407});
  const std::vector<TokenId> plain = test.run(asked).tokens;
  EXPECT_EQ(test.engine.drop_reason(), "");
  asked.method = test.engine.add(
      {std::make_shared<DrafterThatThrows>(), make_policy("fixed"), make_verifier("follow")});
  EXPECT_EQ(test.run(asked).tokens, plain);
  EXPECT_EQ(test.engine.statistics().dropped, 1);
  EXPECT_EQ(test.engine.drop_reason(), "no more guesses");
}

class DrafterThatCannotCount : public CountingDrafter {
 public:
  long lost_rows() const override { throw std::runtime_error("lost count"); }
};

TEST(Methods, ADrafterThatCannotCountWhatItLostCostsNoTokenAndCanBeRemoved) {
  TestEngine test(small_model(), make_drafter("none", {}));
  Request asked = request({1, 403, 407});
  const std::vector<TokenId> plain = test.run(asked).tokens;
  asked.method = test.engine.add(
      {std::make_shared<DrafterThatCannotCount>(), make_policy("fixed"), make_verifier("follow")});
  EXPECT_EQ(test.run(asked).tokens, plain);
  EXPECT_GT(test.engine.statistics().throws.drafter, 0);
  EXPECT_EQ(test.engine.statistics().throws.backend, 0);
  test.engine.step();
  EXPECT_TRUE(test.engine.remove(asked.method));
}

/// Notes what a check of a row and a pass of the drafter cost when a sequence starts.
class AskingPolicy : public TreePolicy {
 public:
  std::unique_ptr<PolicyState> start(DrafterEstimates& drafter,
                                     const MachineCosts& machine) const override {
    check_ms = machine.check_ms(1);
    pass_ms = drafter.passes.pass_ms(1, machine);
    return fixed_->start(drafter, machine);
  }
  mutable double check_ms = 0, pass_ms = 0;

 private:
  std::unique_ptr<TreePolicy> fixed_ = make_policy("fixed");
};

TEST(Methods, WhatIsLearnedStartsFromTheFirstCostsThatAMethodBrings) {
  const CostProfile costs{.checks = {{1, 64, 7.0}, {8, 64, 9.0}}, .levels = {{1, 0.5}}};
  const CostProfile others{.checks = {{1, 64, 70.0}}, .levels = {{1, 5.0}}};
  TestEngine test(small_model(), make_drafter("none", {}));
  const auto policy = std::make_shared<AskingPolicy>();
  const auto drafter = std::make_shared<CountingDrafter>();
  Request asked = request({1, 403, 407});
  asked.max_new = 1;
  for (const CostProfile& given : {CostProfile(), costs, others}) {
    asked.method = test.engine.add({drafter, policy, make_verifier("follow"), given});
    test.run(asked);
    if (given.empty()) continue;
    EXPECT_EQ(policy->check_ms, 7);
    EXPECT_EQ(policy->pass_ms, 0.5);
  }
}

/// Notes what is learned of the drafter when a sequence starts, and teaches that it is wrong.
class DoubtingPolicy : public TreePolicy {
 public:
  std::unique_ptr<PolicyState> start(DrafterEstimates& drafter,
                                     const MachineCosts& machine) const override {
    Calibration& learned = drafter.calibrations[0];
    found = learned.probability(1, 0.5);
    for (int trial = 0; trial < 50; ++trial) learned.observe(1, 0.5, false);
    return fixed_->start(drafter, machine);
  }
  mutable double found = 0;

 private:
  std::unique_ptr<TreePolicy> fixed_ = make_policy("fixed");
};

TEST(Methods, WhatIsLearnedOfDraftsThatKnowTheNoiseSaysNothingOfOthers) {
  TestEngine test(small_model(), make_drafter("none", {}));
  const auto policy = std::make_shared<DoubtingPolicy>();
  const auto drafter = std::make_shared<CountingDrafter>();
  const MethodId knowing = test.engine.add({drafter, policy, make_verifier("follow")});
  const MethodId other = test.engine.add({drafter, policy, make_verifier("token")});
  const auto found_by = [&](MethodId method, double temperature) {
    Request asked = request({1, 403, 407}, temperature);
    asked.max_new = 1;
    asked.method = method;
    test.run(asked);
    return policy->found;
  };
  const double fresh = Calibration().probability(1, 0.5);
  EXPECT_EQ(found_by(knowing, 1), fresh);
  EXPECT_LT(found_by(knowing, 1), fresh);
  EXPECT_EQ(found_by(other, 1), fresh);
  EXPECT_LT(found_by(other, 1), fresh);
  // At temperature 0 there is no noise to know.
  EXPECT_EQ(found_by(knowing, 0), fresh);
  EXPECT_LT(found_by(other, 0), fresh);
}

/// Wants to see a layer that no model has.
class BoundlessPolicy : public DoubtingPolicy {
 public:
  std::vector<FeatureTap> taps() const override { return {{.layer = 1 << 20}}; }
};

TEST(Methods, OneThatCannotBeAddedLeavesWhatWasLearnedAsItWas) {
  TestEngine test(small_model(), make_drafter("none", {}));
  const auto policy = std::make_shared<DoubtingPolicy>();
  const auto drafter = std::make_shared<CountingDrafter>();
  Request asked = request({1, 403, 407});
  asked.max_new = 1;
  asked.method = test.engine.add({drafter, policy, make_verifier("follow")});
  test.run(asked);
  const double fresh = policy->found;
  EXPECT_THROW(
      test.engine.add({drafter, std::make_shared<BoundlessPolicy>(), make_verifier("follow"),
                       CostProfile{.checks = {{1, 64, 7.0}}, .levels = {}}}),
      Bug);
  test.run(asked);
  EXPECT_LT(policy->found, fresh);
}

TEST(Methods, OneThatLacksAPartIsNotTaken) {
  TestEngine test(small_model(), make_drafter("none", {}));
  Method method = method_of({"none", "fixed"});
  method.policy = nullptr;
  EXPECT_THROW(test.engine.add(method), UsageError);
  EXPECT_EQ(test.engine.add(method_of({"none", "fixed"})), 1);
}

}  // namespace
}  // namespace talon::methods_test
