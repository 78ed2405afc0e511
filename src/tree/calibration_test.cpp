#include "tree/calibration.h"

#include <gtest/gtest.h>

namespace talon {
namespace {

TEST(Calibration, BelievesTheDrafterUntilThereAreTrials) {
  const Calibration calibration;
  EXPECT_DOUBLE_EQ(calibration.probability(1, 0.35), 0.35);
  EXPECT_DOUBLE_EQ(calibration.probability(9, 1.0), 1.0);
}

TEST(Calibration, LearnsThatADrafterIsTooSureOfItselfInOneBucketOnly) {
  Calibration calibration;
  for (int i = 0; i < 100; ++i) calibration.observe(1, 0.95, i % 5 == 0);
  EXPECT_NEAR(calibration.probability(1, 0.95), 0.2, 0.07);
  EXPECT_DOUBLE_EQ(calibration.probability(2, 0.95), 0.95);
  EXPECT_DOUBLE_EQ(calibration.probability(1, 0.55), 0.55);
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
}  // namespace talon
