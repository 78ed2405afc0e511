#include <gtest/gtest.h>

#include <random>

#include "backend/cpu/cpu.h"
#include "draft/registry.h"
#include "engine/test_model.h"
#include "tree/policies/test_machine.h"

namespace talon::replay_test {
namespace {

const std::string kGolden = TALON_TEST_DATA "/golden/stories260k/";

/// Trees and tokens of one answer whose times come from `timekeeper`, on a machine where a check of
/// a row takes 10 ms.
struct TimedRun {
  std::vector<DraftTree> trees;
  std::vector<TokenId> tokens;

  explicit TimedRun(const Timekeeper& timekeeper) {
    test::TestModel model(kGolden + "target", make_cpu_backend({.threads = 1}));
    test::TestOptions options;
    options.costs = test::Machine::profile(0.4, 0.6);
    options.timekeeper = timekeeper;
    options.observer = [&](const RoundReport& round) { trees.push_back(*round.tree); };
    const DrafterContext context{.target = &model.model, .head = kGolden + "eagle3_head"};
    test::TestEngine engine(model, make_drafter("eagle3+ngram", context), options);
    Request request;
    request.prompt = {1, 403, 407, 261, 378, 432};
    request.max_new = 120;
    tokens = engine.run(request).tokens;
  }
};

bool are_equal(const std::vector<DraftTree>& a, const std::vector<DraftTree>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const DraftTree& left, const DraftTree& right) { return left.nodes == right.nodes; });
}

/// A noisy machine.
Timekeeper noise(unsigned seed, std::vector<double>& record) {
  return [random = std::mt19937(seed), &record](StepPart part, double) mutable {
    const double usual_ms = part == StepPart::check ? 12 : part == StepPart::draft ? 3 : 0.05;
    record.push_back(usual_ms * std::uniform_real_distribution<double>(0.7, 1.6)(random));
    return record.back();
  };
}

TEST(Timekeeper, ReplayingTheTimesOfARunRepeatsItsTrees) {
  std::vector<double> times, others;
  const TimedRun first(noise(1, times));
  std::size_t next = 0;
  const TimedRun again([&](StepPart, double) { return times.at(next++); });
  EXPECT_EQ(next, times.size());
  EXPECT_TRUE(are_equal(first.trees, again.trees));
  const TimedRun elsewhere(noise(2, others));
  EXPECT_FALSE(are_equal(first.trees, elsewhere.trees));
  EXPECT_EQ(first.tokens, again.tokens);
  EXPECT_EQ(first.tokens, elsewhere.tokens);
}

}  // namespace
}  // namespace talon::replay_test
