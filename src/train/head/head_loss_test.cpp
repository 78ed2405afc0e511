#include "train/head/head_loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "draft/registry.h"
#include "train/head/head_kind.h"
#include "train/head/head_options.h"
#include "train/head/math/gradient_check.h"

namespace talon::head_loss_test {
namespace {

using torch::Tensor;

constexpr int kQueries = 4, kHidden = 3, kTokens = 6;
constexpr CouplingWeights kCoupling{.gain = 1.5, .sharpness = 0.8};

Tensor random(std::int64_t rows) { return torch::randn({rows, kHidden}, torch::kDouble); }

HeadShape one_medusa_head() {
  HeadShape shape;
  shape.kind = HeadKind::medusa;
  shape.hidden = kHidden;
  shape.medusa_heads = 1;
  return shape;
}

/// A head that hands on the features it reads, and answers of random vectors.
class CoupledHead : public ::testing::Test {
 protected:
  CoupledHead()
      : parameters_(parameter_shapes(one_medusa_head()), torch::kDouble, torch::kDouble,
                    torch::kCPU),
        model_(one_medusa_head(), parameters_, with_output()) {
    batch_.features = random(kQueries);
    batch_.wanted = random(kQueries);
    batch_.query_pair = at::arange(kQueries);
    batch_.step_token = batch_.step_wanted = {at::arange(kQueries)};
    batch_.step_weight = {torch::ones({kQueries}, torch::kDouble)};
    batch_.real_queries = kQueries;
  }

  /// The coupled loss of answers at that temperature.
  Tensor loss(double temperature) {
    batch_.temperature = torch::full({kQueries}, temperature, torch::kDouble);
    LossOptions options;
    options.soft = 0;
    options.coupled = 1;
    options.coupling = kCoupling;
    return head_loss(model_, tables_, batch_, at::arange(kTokens), 1, options, /*seed=*/3,
                     /*count_right=*/false)
        .total;
  }

  /// That of the likeliest tokens, with the head's logits times `factor`.
  double loss_of_likeliest(double factor) const {
    const Tensor likeliest = at::mm(batch_.wanted, tables_.output.t()).argmax(1, /*keepdim=*/true);
    const Tensor logits = at::mm(batch_.features, tables_.output.t());
    return -at::log_softmax(logits * factor, 1).gather(1, likeliest).mean().item<double>();
  }

  ParameterStore parameters_;
  TargetTables tables_;
  HeadModel model_;
  Batch batch_;

 private:
  const TargetTables& with_output() {
    torch::manual_seed(5);
    tables_.output = tables_.head_output = random(kTokens);
    return tables_;
  }
};

TEST_F(CoupledHead, IsScoredByItsPlainLogitsWhereNothingIsDrawn) {
  EXPECT_NEAR(loss(0).item<double>(), loss_of_likeliest(1), 1e-9);
  const double almost_no_noise = loss(1e-9).item<double>();
  EXPECT_NEAR(almost_no_noise, loss_of_likeliest(kCoupling.gain * kCoupling.sharpness), 1e-6);
}

TEST_F(CoupledHead, LearnsByTheGradientOfItsLossAtEveryTemperature) {
  for (const double temperature : {0.0, 1.3}) {
    test::expect_gradients([&] { return loss(temperature); },
                           {parameters_["0.0.linear.weight"].value});
  }
}

/// A head that learns with other weights than it drafts with promises the wrong chances.
TEST(LossOptions, WeighTheNoiseAsTheDraftersOfTheirHeadsDo) {
  for (const HeadKind kind : kTrainedKinds) {
    HeadTrainOptions options;
    options.kind = name_of(kind);
    SCOPED_TRACE(options.kind);
    const DrafterEntry* drafter = find_row(drafters(), name_of(kind));
    ASSERT_NE(drafter, nullptr);
    const auto usual = [&](const std::string& name) {
      const auto found = std::ranges::find_if(
          drafter->options, [&](const Option& option) { return option.name == name; });
      return found == drafter->options.end() ? -1.0 : std::stod(found->usual);
    };
    const CouplingWeights weights = loss_options(options, 1).coupling;
    EXPECT_EQ(weights.gain, usual("beta"));
    EXPECT_EQ(weights.sharpness, usual("gamma"));
  }
}

}  // namespace
}  // namespace talon::head_loss_test
