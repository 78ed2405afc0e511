#include "tree/cost_curve.h"

#include <gtest/gtest.h>

#include <random>

namespace talon::cost_curve_test {
namespace {

constexpr double kShare = 0.15;

void observe_often(CostCurve& curve, int rows, double ms) {
  for (int i = 0; i < RecentMedian::kMemory; ++i) curve.observe(rows, ms);
}

/// A machine whose first row takes 10 ms and whose others take 1.
double line(int rows) { return 10 + 1.0 * (rows - 1); }

CostCurve seeded_curve() {
  CostCurve curve(64, kShare);
  for (const int rows : {1, 2, 4, 8, 16, 32, 64}) curve.seed(rows, line(rows));
  return curve;
}

TEST(RecentMedian, IgnoresARareOutlierAndFollowsALastingChange) {
  RecentMedian median;
  for (int i = 0; i < 100; ++i) median.add(i % 3 == 0 ? 500 : 10);
  EXPECT_DOUBLE_EQ(median.value(), 10);
  for (int i = 0; i < RecentMedian::kMemory / 2 + 1; ++i) median.add(20);
  EXPECT_DOUBLE_EQ(median.value(), 20);
}

TEST(CostCurve, GuessesALineUntilSomethingIsMeasured) {
  const CostCurve curve(64, kShare);
  EXPECT_DOUBLE_EQ(curve.ms(1), 1.0);
  EXPECT_DOUBLE_EQ(curve.ms(11), 1 + 10 * kShare);
  EXPECT_FALSE(curve.measured());
}

TEST(CostCurve, InterpolatesBetweenMeasuredRowCounts) {
  CostCurve curve(64, kShare);
  observe_often(curve, 1, 10);
  observe_often(curve, 9, 18);
  EXPECT_DOUBLE_EQ(curve.ms(1), 10);
  EXPECT_DOUBLE_EQ(curve.ms(5), 14);
  EXPECT_DOUBLE_EQ(curve.ms(9), 18);
  EXPECT_DOUBLE_EQ(curve.ms(11), 18 + 2 * kShare * 10);
  EXPECT_DOUBLE_EQ(curve.ms(65), curve.ms(64));
}

TEST(CostCurve, OneSlowMeasurementChangesNothing) {
  CostCurve curve(64, kShare);
  observe_often(curve, 1, 10);
  curve.observe(1, 500);
  EXPECT_DOUBLE_EQ(curve.ms(1), 10);
}

TEST(CostCurve, CostsNeverFallWithMoreRowsAndNoRowIsFree) {
  CostCurve curve(64, kShare);
  observe_often(curve, 1, 10);
  observe_often(curve, 4, 9);
  observe_often(curve, 8, 9);
  observe_often(curve, 16, 30);
  for (int rows = 2; rows <= 64; ++rows) EXPECT_GT(curve.ms(rows), curve.ms(rows - 1)) << rows;
  EXPECT_NEAR(curve.ms(1), 28.0 / 3, 1e-9);  // the three measured counts that fall are pooled
}

TEST(CostCurve, IgnoresWhatIsNoMeasurement) {
  CostCurve curve(8, kShare);
  curve.observe(9, 1);
  curve.observe(1, 0);
  curve.observe(1, -1);
  EXPECT_DOUBLE_EQ(curve.ms(1), 1.0);
}

TEST(CostCurve, AMachineThatSlowsDownIsFollowedAtRowCountsThatDoNotRunWithinASecond) {
  CostCurve curve = seeded_curve();
  double passed_ms = 0;  // a neighbour halves the bandwidth; only checks of 4 rows run
  while (passed_ms < 1000) {
    curve.observe(4, 2 * line(4));
    passed_ms += 2 * line(4);
  }
  EXPECT_NEAR(curve.ms(1), 2 * line(1), 0.5);
  EXPECT_NEAR(curve.ms(32), 2 * line(32), 1);
  for (passed_ms = 0; passed_ms < 1000; passed_ms += line(4)) curve.observe(4, line(4));
  EXPECT_NEAR(curve.ms(1), line(1), 0.3);
}

TEST(CostCurve, ASlowRoundInFiveLeavesTheCurveWhereItWas) {
  CostCurve curve = seeded_curve();
  std::mt19937 random(3);
  for (int i = 0; i < 400; ++i) {
    const int rows = 1 << (i % 6);
    const double noise = 0.97 + 0.06 * (random() % 1000) / 1000.0;
    curve.observe(rows, line(rows) * (i % 5 == 0 ? 3 : noise));
  }
  for (const int rows : {1, 3, 8, 32}) EXPECT_NEAR(curve.ms(rows) / line(rows), 1, 0.05) << rows;
}

TEST(CostCurve, LearnsTheShapeWhereTheSeedWasWrong) {
  CostCurve curve(16, kShare);
  for (const int rows : {1, 16}) curve.seed(rows, line(rows));  // in truth 8 rows cost more
  for (int i = 0; i < 100; ++i) {
    curve.observe(1, line(1));
    curve.observe(8, 24);
  }
  EXPECT_NEAR(curve.ms(8) / curve.ms(1), 2.4, 0.1);
}

/// Times of a shared machine: most rounds near the best, some much slower.
double disturbed(std::mt19937& random, double ms) {
  std::exponential_distribution<double> slower(12);
  return ms * (0.97 + slower(random) + (random() % 20 == 0 ? 1 : 0));
}

TEST(CostCurve, LongRunsWithoutDraftsDoNotMakeDraftsLookDearer) {
  CostCurve curve = seeded_curve();
  std::mt19937 random(5);
  for (int i = 0; i < 50'000; ++i) curve.observe(1, disturbed(random, line(1)));
  for (const int rows : {2, 4, 32}) {
    EXPECT_NEAR(curve.ms(rows) / curve.ms(1), line(rows) / line(1), 1e-9) << rows;
  }
}

TEST(CostCurve, LongRunsOfOneSizeKeepTheShape) {
  for (const int usual : {4, 16}) {
    CostCurve curve = seeded_curve();
    std::mt19937 random(7);
    for (int i = 0; i < 50'000; ++i) curve.observe(usual, disturbed(random, line(usual)));
    for (const int rows : {1, 2, 8, 32}) {
      const double ratio = curve.ms(rows) / curve.ms(usual);
      EXPECT_NEAR(ratio / (line(rows) / line(usual)), 1, 0.15) << rows << " and " << usual;
    }
  }
}

TEST(CostCurve, OneSlowRoundAtTheBeginningDoesNotMakeTheMachineLookSlow) {
  CostCurve curve = seeded_curve();
  curve.observe_pace(14 * line(1), curve.ms(1));
  EXPECT_NEAR(curve.ms(5), line(5), 1e-9);
  curve.observe_pace(14 * line(1), curve.ms(1));
  curve.observe_pace(14 * line(1), curve.ms(1));
  EXPECT_GT(curve.ms(5), 10 * line(5)) << "three are believed";
  curve.forget_pace();
  EXPECT_NEAR(curve.ms(5), line(5), 1e-9);
}

TEST(CostCurve, ASumOfPassesChangesThePaceOnly) {
  CostCurve curve = seeded_curve();
  for (int i = 0; i < 15; ++i) curve.observe_pace(3 * 24, curve.ms(1) + curve.ms(5));
  EXPECT_NEAR(curve.ms(5), 3 * line(5), 1e-9);
}

}  // namespace
}  // namespace talon::cost_curve_test
