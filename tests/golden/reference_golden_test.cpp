#include <gtest/gtest.h>

#include <cmath>

#include "backend/reference/reference.h"
#include "deviation.h"
#include "subjects.h"

namespace talon::reference_golden_test {
namespace {

// A fast selection; full_golden_test.cpp runs all cases of all models.

TEST(ReferenceGolden, Stories15mIsWithin1e4) {
  if (kStories15m.missing()) GTEST_SKIP() << kStories15m.path();
  const Golden golden = read_golden(kStories15m.golden);
  ModelRun run(kStories15m.path(), make_reference_backend(2), KvType::f32, 256);
  expect_float32("stories15m cases", check_cases(run, golden.cases), kStories15m.tolerance);
  expect_float32("stories15m text", check_text(run, golden.text, 96), kStories15m.tolerance);
}

TEST(ReferenceGolden, SmolLm2IsWithin1e3) {
  if (kSmolLm2.missing()) GTEST_SKIP() << kSmolLm2.path();
  const Golden golden = read_golden(kSmolLm2.golden);
  ModelRun run(kSmolLm2.path(), make_reference_backend(2), KvType::f32, 256);
  const auto cases = std::span(golden.cases).subspan(10, 1);
  expect_float32("smollm2 case 10", check_cases(run, cases), kSmolLm2.tolerance);
  expect_float32("smollm2 text", check_text(run, golden.text, 64), kSmolLm2.tolerance);
}

void expect_near(std::span<const float> found, const Json& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i].get<double>(), tolerance) << "at " << i;
  }
}

TEST(ReferenceGolden, Stories260kFeaturesAndLogitsEqualTheOfficialEagleCode) {
  constexpr double kTolerance = 1e-4;
  constexpr std::size_t kHidden = 64;
  const Json numerics = read_golden_json("stories260k/numerics.json.zst");
  const Json& recorded = numerics.at("cases").at(1);  // the EAGLE-3 case has taps
  const auto ids = recorded.at("prompt_ids").get<std::vector<TokenId>>();
  std::vector<FeatureTap> taps = {{FeatureTap::kFinalNorm}};
  for (const Json& layer : recorded.at("tap_layer_inputs")) taps.push_back({layer.get<int>()});
  ModelRun run(std::string(TALON_TEST_DATA) + "/golden/stories260k/target",
               make_reference_backend(2), KvType::f32, 64, taps);

  const std::vector<float> features = run.features(ids);
  const Json& target = recorded.at("target");
  for (std::size_t row = 0; row < ids.size(); ++row) {
    for (std::size_t tap = 0; tap < taps.size(); ++tap) {
      const auto found = std::span(features).subspan((row * taps.size() + tap) * kHidden, kHidden);
      const Json& expected = tap == 0 ? target.at("final_hidden") : target.at("taps").at(tap - 1);
      expect_near(found, expected.at(row), kTolerance);
    }
  }
  run.run(ids, static_cast<int>(ids.size()) - 1, [&](int, std::span<const float> logits) {
    expect_near(logits, target.at("last_logits"), kTolerance);
  });
}

}  // namespace
}  // namespace talon::reference_golden_test
