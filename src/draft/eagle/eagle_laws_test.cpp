#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "backend/reference/reference.h"
#include "backend/wrap/test_device.h"
#include "draft/registry.h"
#include "io/checkpoint.h"
#include "model/model.h"

namespace talon::eagle_laws_test {
namespace {

const std::string kGolden = TALON_TEST_DATA "/golden/stories260k/";

/// A text of so many tokens, which goes on as drawn at this temperature; 0: greedily.
struct Asked {
  int length;
  double temperature;
};

/// A head on a device, whose children are drawn where tokens are.
class EagleLaws : public testing::Test {
 protected:
  EagleLaws()
      : device_(make_reference_backend(1)),
        target_(load_model(open_checkpoint(kGolden + "target"), device_)),
        drafter_(make_drafter("eagle:topk=2,levels=3,nodes=8,draw=on",
                              {.target = &target_, .head = kGolden + "eagle1_head"})) {}

  std::vector<DraftTree> draft(const std::vector<Asked>& asked) {
    std::vector<std::unique_ptr<DraftState>> states;
    std::vector<SamplerOptions> samplers(asked.size());
    std::vector<DraftTree> trees;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      samplers[i].temperature = asked[i].temperature;
      states.push_back(drafter_->start());
      trees.emplace_back(observe(*states.back(), asked[i].length));
    }
    const PositionRandom random(3, 0);
    std::vector<DraftJob> jobs;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const int root = asked[i].length - 1;
      jobs.push_back({states[i].get(), nullptr, {100, 100, 100}, &trees[i], &random, root});
      jobs.back().sampler = &samplers[i];
    }
    drafter_->propose(jobs);
    return trees;
  }
  int waits_of(const std::vector<Asked>& asked) {
    const int before = device_.waits();
    draft(asked);
    return device_.waits() - before;
  }

  test::TestDevice device_;

 private:
  /// Shows the drafter some text, and returns its last token.
  TokenId observe(DraftState& state, int length) {
    const int hidden = target_.config.hidden;
    std::vector<TokenId> text;
    for (int i = 0; i < length; ++i)
      text.push_back((1 + i * 37 + length) % target_.config.vocabulary);
    std::vector<float> values;
    for (int i = 0; i < (length - 1) * hidden; ++i)
      values.push_back(static_cast<float>(std::sin(i + length)));
    const Buffer features = device_.allocate(length - 1, hidden);
    device_.upload(values, features.view());
    drafter_->observe(state, {.tokens = text, .features = features.view(), .first_has_row = false});
    return text.back();
  }

  Model target_;
  std::unique_ptr<Drafter> drafter_;
};

TEST_F(EagleLaws, OfAllTreesComeInOneWaitForEachPass) {
  const int alone = waits_of({{5, 1}});
  EXPECT_GT(alone, 1) << "passes";
  EXPECT_EQ(waits_of({{5, 1}, {9, 1}, {3, 0.5}, {7, 1}}), alone);
}

TEST_F(EagleLaws, AmongTreesOfOthersAreThoseOfEachAlone) {
  const std::vector<Asked> asked = {{6, 0}, {5, 1}, {4, 0}, {9, 1}};
  EXPECT_EQ(waits_of(asked), waits_of({{5, 1}}) + waits_of({{6, 0}}));
  const std::vector<DraftTree> together = draft(asked);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const DraftTree alone = draft({asked[i]}).front();
    EXPECT_GT(alone.draft_nodes(), 2);
    EXPECT_EQ(together[i].tokens(), alone.tokens());
    EXPECT_EQ(together[i].parents(), alone.parents());
    EXPECT_EQ(together[i].drawn.empty(), asked[i].temperature == 0);
  }
}

}  // namespace
}  // namespace talon::eagle_laws_test
