#include <gtest/gtest.h>

#include "draft/registry.h"
#include "models.h"
#include "spoiled_backend.h"

namespace talon::test::fault_test {
namespace {

TEST(EngineFaults, ANanRowEndsItsSequenceAndLeavesTheOthersAlone) {
  for (const double temperature : {0.0, 0.8}) {
    auto spoiled = std::make_unique<NanBackend>(reference_backend(1));
    NanBackend& backend = *spoiled;
    TestModel model(kStories260k, std::move(spoiled));
    Request first, second;
    first.prompt = {1, 403, 407};
    second.prompt = {1, 261, 378};
    first.max_new = second.max_new = 12;
    first.sampler.temperature = second.sampler.temperature = temperature;
    const std::vector<TokenId> expected =
        TestEngine(model, make_drafter("none", {})).run(second).tokens;

    TestEngine test(model, make_drafter("none", {}));
    const SequenceId broken = test.submit(first), whole = test.submit(second);
    std::vector<TokenId> tokens;
    FinishReason broken_end = FinishReason::none, whole_end = FinishReason::none;
    for (int step = 0; !test.engine.idle(); ++step) {
      backend.spoil = step == 4;  // the first row belongs to the first sequence
      for (const Progress& progress : test.engine.step()) {
        if (progress.sequence == whole) {
          tokens.insert(tokens.end(), progress.tokens.begin(), progress.tokens.end());
          whole_end = progress.finish;
        } else if (progress.finish != FinishReason::none) {
          broken_end = progress.finish;
          EXPECT_EQ(step, 4);
          EXPECT_TRUE(progress.error.ends_with("found NaN")) << progress.error;
          EXPECT_EQ(progress.sequence, broken);
          EXPECT_EQ(test.engine.statistics(broken).answer_tokens, 4);
        }
      }
    }
    EXPECT_EQ(broken_end, FinishReason::failed);
    EXPECT_EQ(whole_end, FinishReason::length);
    EXPECT_EQ(tokens, expected);
    EXPECT_EQ(test.cache.free_pages(), test.cache.total_pages());
  }
}

}  // namespace
}  // namespace talon::test::fault_test
