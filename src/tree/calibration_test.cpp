#include "tree/calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace talon::calibration_test {
namespace {

TEST(Calibration, BelievesTheDrafterUntilThereAreTrials) {
  const Calibration calibration;
  EXPECT_DOUBLE_EQ(calibration.probability(1, 0.35), 0.35);
  EXPECT_DOUBLE_EQ(calibration.probability(1, 0.0), 0.0);
  EXPECT_DOUBLE_EQ(calibration.probability(9, 1.0), 1.0);
}

TEST(Calibration, LearnsThatADrafterIsTooSureOfItselfThereOnly) {
  Calibration calibration;
  for (int i = 0; i < 100; ++i) calibration.observe(1, 0.97, i % 5 == 0);
  EXPECT_NEAR(calibration.probability(1, 0.97), 0.2, 0.07);
  EXPECT_DOUBLE_EQ(calibration.probability(2, 0.97), 0.97);
  EXPECT_DOUBLE_EQ(calibration.probability(1, 0.5), 0.5);
}

TEST(Calibration, FewTrialsOfUnlikelyNodesProveLittle) {
  Calibration calibration;
  calibration.observe(1, 0.005, true);  // a lucky one
  EXPECT_LT(calibration.probability(1, 0.005), 0.008);
}

TEST(Calibration, KeepsTheOrderOfNodesWithinABucket) {
  Calibration calibration;
  std::mt19937 random(2);
  for (int i = 0; i < 5000; ++i) {
    const double estimate = (random() % 1000) / 1000.0;
    calibration.observe(1, estimate, (random() % 1000) / 1000.0 < estimate * estimate);
  }
  double before = 0;
  for (double estimate = 0.01; estimate < 1; estimate += 0.01) {
    const double chance = calibration.probability(1, estimate);
    EXPECT_GE(chance, before - 0.01) << estimate;
    EXPECT_NEAR(chance, estimate * estimate, 0.15) << estimate;
    before = chance;
  }
}

TEST(Calibration, ForgetsOldTrials) {
  Calibration calibration;
  for (int i = 0; i < 1000; ++i) calibration.observe(1, 0.5, true);
  for (int i = 0; i < 200; ++i) calibration.observe(1, 0.5, false);
  EXPECT_LT(calibration.probability(1, 0.5), 0.25);
}

TEST(Calibration, StartsFromItsPriorsAnswer) {
  Calibration shared;
  for (int i = 0; i < 100; ++i) shared.observe(1, 0.9, false);
  const Calibration fresh(&shared);
  EXPECT_DOUBLE_EQ(fresh.probability(1, 0.9), shared.probability(1, 0.9));
}

}  // namespace
}  // namespace talon::calibration_test
