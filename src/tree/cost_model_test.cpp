#include "tree/cost_model.h"

#include <gtest/gtest.h>

namespace talon {
namespace {

void observe_often(CostModel& model, int rows, double ms) {
  for (int i = 0; i < CostModel::kMemory; ++i) model.observe(rows, ms);
}

TEST(CostModel, GuessesALineUntilSomethingIsMeasured) {
  const CostModel model(64);
  EXPECT_DOUBLE_EQ(model.check_ms(1), 1.0);
  EXPECT_DOUBLE_EQ(model.check_ms(11), 1 + 10 * CostModel::kPriorRowShare);
}

TEST(CostModel, InterpolatesBetweenMeasuredRowCounts) {
  CostModel model(64);
  observe_often(model, 1, 10);
  observe_often(model, 9, 18);
  EXPECT_DOUBLE_EQ(model.check_ms(1), 10);
  EXPECT_DOUBLE_EQ(model.check_ms(5), 14);
  EXPECT_DOUBLE_EQ(model.check_ms(9), 18);
  EXPECT_DOUBLE_EQ(model.check_ms(11), 18 + 2 * CostModel::kPriorRowShare * 10);
  EXPECT_DOUBLE_EQ(model.check_ms(65), model.check_ms(64));
}

TEST(CostModel, OneSlowCheckChangesNothing) {
  CostModel model(64);
  observe_often(model, 1, 10);
  model.observe(1, 500);
  EXPECT_DOUBLE_EQ(model.check_ms(1), 10);
}

TEST(CostModel, FollowsALastingChangeWithinItsMemory) {
  CostModel model(64);
  observe_often(model, 1, 10);
  for (int i = 0; i < CostModel::kMemory / 2 + 1; ++i) model.observe(1, 20);
  EXPECT_DOUBLE_EQ(model.check_ms(1), 20);
}

TEST(CostModel, CostsNeverFallWithMoreRowsAndNoRowIsFree) {
  CostModel model(64);
  observe_often(model, 1, 10);
  observe_often(model, 4, 9);
  observe_often(model, 8, 9);
  observe_often(model, 16, 30);
  for (int rows = 2; rows <= 64; ++rows)
    EXPECT_GT(model.check_ms(rows), model.check_ms(rows - 1)) << rows;
  EXPECT_NEAR(model.check_ms(1), 28.0 / 3, 1e-9);  // the three measured counts that fall are pooled
}

TEST(CostModel, IgnoresWhatIsNoMeasurement) {
  CostModel model(8);
  model.observe(9, 1);
  model.observe(1, 0);
  model.observe(1, -1);
  EXPECT_DOUBLE_EQ(model.check_ms(1), 1.0);
}

}  // namespace
}  // namespace talon
