#include "tree/expert_reads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "tree/machine_costs.h"

namespace talon::expert_reads_test {
namespace {

constexpr double kExpertMs = 0.25;
constexpr int kOneRow = 8;  // experts that a row goes to

/// Of a text whose rows add `adds` experts each behind the first.
std::vector<std::int32_t> first_uses(int rows, int adds) {
  std::vector<std::int32_t> uses(static_cast<std::size_t>(rows), adds);
  uses.front() = kOneRow;
  return uses;
}
double experts(int rows, int adds) { return kOneRow + adds * (rows - 1); }

/// 10 ms, 0.1 ms for each further row, 0.25 ms for each expert beyond those of one row, and 0.001
/// ms for each position.
double truth(int rows, double experts, int context = 0) {
  return 10 + 0.1 * (rows - 1) + kExpertMs * (experts - kOneRow) + 0.001 * context;
}

/// Of a text whose rows add four experts each.
CostProfile profile() {
  CostProfile result;
  for (const int context : {64, 1024}) {
    for (const int rows : {1, 4, 8, 16}) {
      const double read = experts(rows, 4);
      result.checks.push_back({rows, context, truth(rows, read, context), read});
    }
  }
  result.expert_ms = kExpertMs;
  return result;
}

std::vector<CostProfile::Check> near_checks() {
  const std::vector<CostProfile::Check> all = profile().checks;
  return {all.begin(), all.begin() + 4};
}

TEST(ExpertReads, BeginWithTheProfileAndGoOnAsItsLastRowsDid) {
  const ExpertReads reads(64, near_checks());
  for (const int rows : {1, 2, 6, 16, 40, 64}) {
    EXPECT_DOUBLE_EQ(reads.in_profile(rows), experts(rows, 4)) << rows;
    EXPECT_DOUBLE_EQ(reads.expected(rows), reads.in_profile(rows)) << rows;
  }
  EXPECT_EQ(reads.expected(200), reads.expected(64));
  EXPECT_EQ(ExpertReads().expected(3), 0);
}

TEST(ExpertReads, FollowATextWithinAFewChecksAlsoWhereNoCheckHasSoManyRows) {
  ExpertReads reads(64, near_checks());
  for (int i = 0; i < 10; ++i) reads.observe(first_uses(4, 1));
  EXPECT_DOUBLE_EQ(reads.expected(1), kOneRow);
  EXPECT_NEAR(reads.expected(4), experts(4, 1), 0.5);
  EXPECT_NEAR(reads.expected(32), experts(32, 1), 8);
  EXPECT_EQ(reads.in_profile(4), experts(4, 4));
  for (int i = 0; i < 10; ++i) reads.observe(first_uses(4, 6));
  EXPECT_NEAR(reads.expected(4), experts(4, 6), 2);
}

TEST(ExpertReads, AreByPlace) {
  ExpertReads reads(64, near_checks());
  for (int i = 0; i < 50; ++i) reads.observe(std::vector<std::int32_t>{kOneRow, 6, 0, 6});
  EXPECT_NEAR(reads.expected(2) - reads.expected(1), 6, 0.8);
  EXPECT_NEAR(reads.expected(3) - reads.expected(2), 0, 0.8);
  EXPECT_NEAR(reads.expected(4) - reads.expected(3), 6, 0.8);
}

/// Else a text that was dear would keep its successors from being tried.
TEST(ExpertReads, ReturnToTheProfileWhileNothingIsDrafted) {
  ExpertReads reads(64, near_checks());
  for (int i = 0; i < 50; ++i) reads.observe(first_uses(8, 8));
  for (int i = 0; i < 10; ++i) reads.observe(first_uses(1, 0));
  EXPECT_NEAR(reads.expected(8), experts(8, 8), 0.5) << "not at once";
  for (int i = 0; i < 300; ++i) reads.observe(first_uses(1, 0));
  EXPECT_NEAR(reads.expected(8), experts(8, 4), 3);
}

TEST(ExpertReads, PutTheRowsOfTextsBeforeThoseOfDrafts) {
  using Uses = std::vector<std::int32_t>;
  const Uses found = {8, 1, 2, 7, 6, 3};
  EXPECT_EQ(texts_first(found, std::vector<int>{0, 3, 4}), (Uses{8, 7, 6, 1, 2, 3}));
  EXPECT_EQ(texts_first(found, std::vector<int>{0}), found);
  EXPECT_TRUE(texts_first({}, std::vector<int>{0, 3, 4}).empty());
}

/// Each draft adds one expert, and each text behind the first six or seven.
ExpertReads reads_of_three_texts() {
  ExpertReads reads(64, near_checks());
  for (int i = 0; i < 20; ++i) reads.observe(std::vector<std::int32_t>{kOneRow, 7, 6, 1, 1, 1}, 3);
  return reads;
}

TEST(ExpertReads, TakeNothingThatTextsAddForThePriceOfDrafts) {
  const ExpertReads reads = reads_of_three_texts();
  EXPECT_NEAR(reads.expected(3), kOneRow + 7 + 6, 1);
  EXPECT_NEAR(reads.expected(6) - reads.expected(3), 3, 0.3);
  EXPECT_LT(reads.expected(20) - reads.expected(6), 1.5 * 14) << "where no check had rows";
}

TEST(ExpertReads, OfDraftsStayKnownWhenTextsBeginAndEnd) {
  ExpertReads reads = reads_of_three_texts();
  reads.observe(std::vector<std::int32_t>{kOneRow, 7, 6, 6, 6}, 5);
  EXPECT_NEAR(reads.expected(6) - reads.expected(5), 1, 0.1);
  EXPECT_GT(reads.expected(5) - reads.expected(4), 4);
  reads.observe(first_uses(1, 0), 1);
  EXPECT_NEAR(reads.expected(1), kOneRow, 1e-9);
  EXPECT_NEAR(reads.expected(4) - reads.expected(1), 3, 0.3);
  reads.observe(std::vector<std::int32_t>(80, 2), 80);  // more than it has places for
  EXPECT_GT(reads.expected(64), reads.expected(1));
}

TEST(MachineCostsOfAMixture, AreThoseOfTheProfileOnATextLikeIts) {
  MachineCosts machine(64, profile());
  for (const int rows : {1, 3, 8, 16, 30})
    EXPECT_NEAR(machine.check_ms(rows), truth(rows, experts(rows, 4), 64), 1e-9) << rows;
  for (int i = 0; i < 40; ++i)
    machine.observe_check(6, 64, truth(6, experts(6, 4), 64), 1, first_uses(6, 4));
  EXPECT_NEAR(machine.check_ms(6, 64), truth(6, experts(6, 4), 64), 0.01);
  EXPECT_NEAR(machine.pace(), 1, 1e-6);
}

TEST(MachineCostsOfAMixture, FollowTheExpertsOfATextAndTakeNoneOfItForAPace) {
  for (const int adds : {0, 2, 7}) {
    for (const double pace : {1.0, 2.0}) {
      MachineCosts machine(64, profile());
      for (int i = 0; i < 40; ++i) {
        for (const int rows : {1, 5}) {
          const double ms = pace * truth(rows, experts(rows, adds), 64);
          machine.observe_check(rows, 64, ms, 1, first_uses(rows, adds));
        }
      }
      EXPECT_NEAR(machine.pace(), pace, 0.01) << adds;
      for (const int rows : {1, 5, 12}) {
        const double ms = pace * truth(rows, experts(rows, adds), 64);
        EXPECT_NEAR(machine.check_ms(rows, 64), ms, 0.08 * ms) << adds << " " << rows;
      }
    }
  }
}

TEST(MachineCostsOfAMixture, ACheckThatReadsOtherExpertsThanExpectedTellsTheSameCurve) {
  MachineCosts machine(64, profile());
  for (int i = 0; i < 60; ++i) {
    const int adds = i % 2 == 0 ? 1 : 7;
    machine.observe_check(8, 64, truth(8, experts(8, adds), 64), 1, first_uses(8, adds));
  }
  EXPECT_NEAR(machine.pace(), 1, 0.01);
  EXPECT_NEAR(machine.check_ms(8, 64), truth(8, experts(8, 4), 64), 1);
}

TEST(MachineCostsOfAMixture, NoMoreRowsAreCheaperThanOne) {
  CostProfile dear = profile();
  dear.expert_ms = 4;
  MachineCosts machine(64, dear);
  for (int i = 0; i < 20; ++i)
    machine.observe_check(8, 64, truth(8, kOneRow, 64), 1, first_uses(8, 0));
  for (const int rows : {2, 8, 16}) EXPECT_GE(machine.check_ms(rows), machine.check_ms(1));
}

TEST(MachineCostsOfAMixture, OtherExpertsAtTheFarContextAreNotTakenForItsPrice) {
  CostProfile found = profile();
  for (std::size_t i = 4; i < found.checks.size(); ++i) {
    CostProfile::Check& check = found.checks[i];
    check.experts += 2 * (check.rows - 1);
    check.ms += kExpertMs * 2 * (check.rows - 1);
  }
  const MachineCosts machine(64, found);
  EXPECT_NEAR(machine.check_ms(8, 4000), truth(8, experts(8, 4), 4000), 1e-9);
}

TEST(MachineCostsOfAMixture, WhatIsLeftOfACrowdPaysForItsDraftsAlone) {
  MachineCosts machine(64, profile());
  const std::vector<std::int32_t> crowd = {kOneRow, 7, 6, 1, 1, 1};
  for (int i = 0; i < 40; ++i) machine.observe_check(6, 64, truth(6, kOneRow + 16, 64), 3, crowd);
  machine.observe_check(1, 64, truth(1, kOneRow, 64), 1, first_uses(1, 0));
  EXPECT_NEAR(machine.check_ms(2) - machine.check_ms(1), 0.1 + kExpertMs, 0.1);
}

/// After checks of texts of all kinds, on which an expert takes `times` what the profile says and
/// everything as often as much as `slow` says.
MachineCosts after_checks(double times, const std::function<double()>& slow) {
  MachineCosts machine(64, profile());
  for (int i = 0; i < 300; ++i) {
    for (const int rows : {1, 5, 8}) {
      const int adds = (5 * i + rows) % 8;
      const double further = experts(rows, adds) - kOneRow;
      const double ms = truth(rows, kOneRow, 64) + times * kExpertMs * further;
      const double before = machine.expert_ms();
      machine.observe_check(rows, 64, slow() * ms, 1, first_uses(rows, adds));
      EXPECT_LE(std::abs(std::log(machine.expert_ms() / before)),
                std::log(ExpertPrice::kStep) + 1e-9);
    }
  }
  return machine;
}

TEST(MachineCostsOfAMixture, LearnWhatAnExpertTakes) {
  for (const double times : {0.5, 1.0, 2.0}) {
    for (const double pace : {1.0, 2.0}) {
      MachineCosts near = after_checks(times, [&] { return pace; });
      EXPECT_NEAR(near.expert_ms(), times * kExpertMs, 0.001) << times << " " << pace;
      EXPECT_NEAR(near.pace(), pace, 0.01);
      MachineCosts apart = near;
      for (int i = 0; i < 10; ++i) {
        for (const auto& [machine, adds] : {std::pair{&near, 0}, {&apart, 7}}) {
          const double further_ms = times * kExpertMs * (experts(8, adds) - kOneRow);
          machine->observe_check(8, 64, pace * (truth(8, kOneRow, 64) + further_ms), 1,
                                 first_uses(8, adds));
        }
      }
      const double further_ms = pace * times * kExpertMs * 7 * 7;
      EXPECT_NEAR(apart.check_ms(8) - near.check_ms(8), further_ms, 0.2 * further_ms);
    }
  }
}

/// Also where more experts seem to take less.
TEST(MachineCostsOfAMixture, BoundThePriceOfAnExpertByTheProfiles) {
  const auto times_profile = [](double times) {
    return after_checks(times, [] { return 1; }).expert_ms() / kExpertMs;
  };
  EXPECT_DOUBLE_EQ(times_profile(10), ExpertPrice::kMost);
  EXPECT_DOUBLE_EQ(times_profile(0), 1 / ExpertPrice::kMost);
  EXPECT_DOUBLE_EQ(times_profile(-0.2), 1 / ExpertPrice::kMost);
}

/// One check in twenty takes twice as long, and a neighbour comes and goes.
TEST(MachineCostsOfAMixture, LearnThePriceOfAnExpertOnABusyMachine) {
  for (const double times : {0.5, 1.0, 2.0}) {
    std::mt19937 random(5);
    std::exponential_distribution<double> slower(12);
    int checks = 0;
    const auto slow = [&] {
      const double neighbour = ++checks / 180 % 2 == 0 ? 1 : 2;
      return neighbour * (0.97 + slower(random) + (random() % 20 == 0 ? 1 : 0));
    };
    EXPECT_NEAR(after_checks(times, slow).expert_ms(), times * kExpertMs, 0.4 * times * kExpertMs);
  }
}

TEST(MachineCostsOfAMixture, CompareOnlyChecksThatDifferInTheirExpertsAlone) {
  MachineCosts machine(64, profile());
  for (int i = 0; i < 100; ++i) {
    const auto observe = [&](int rows, int texts, int adds) {
      machine.observe_check(rows, 64, (1 + 0.1 * (i % 5)) * truth(rows, 30 * adds, 64), texts,
                            first_uses(rows, adds));
    };
    observe(4, 1, 3);
    observe(8, 1, 1);
    observe(16, 1 + i % 2, 1 + i % 2);
    ASSERT_EQ(machine.expert_ms(), kExpertMs) << i;
  }
}

TEST(MachineCostsOfAMixture, ASlowCheckSaysHardlyAnythingOfThePriceOfAnExpert) {
  MachineCosts machine(64, profile());
  const auto observe = [&](int adds, double slow) {
    machine.observe_check(8, 64, slow * truth(8, experts(8, adds), 64), 1, first_uses(8, adds));
    EXPECT_NEAR(machine.expert_ms(), kExpertMs, 0.11 * kExpertMs);
  };
  observe(3, 1);
  observe(4, 3);
  for (int i = 0; i < 20; ++i) observe(i % 5, 1);
  EXPECT_NEAR(machine.expert_ms(), kExpertMs, 1e-6);
  observe(2, 0);
  observe(3, std::nan(""));
  observe(1, 1);
  EXPECT_NEAR(machine.expert_ms(), kExpertMs, 1e-6) << "no times";
}

/// Two machines that get the same times, one of which is told of experts, to the bit.
TEST(MachineCosts, WithoutAPriceOfExpertsKnowNothingOfThem) {
  CostProfile free = profile();
  free.expert_ms = 0;
  CostProfile none = free;
  for (CostProfile::Check& check : none.checks) check.experts = 0;
  MachineCosts told(64, free), machine(64, none);
  for (int i = 0; i < 40; ++i) {
    const int rows = 1 + i % 9;
    const double ms = 11 + 0.37 * i;
    told.observe_check(rows, 700, ms, 1, first_uses(rows, i % 5));
    machine.observe_check(rows, 700, ms);
    for (const int asked : {1, 4, 20})
      EXPECT_EQ(told.check_ms(asked, 300, 2), machine.check_ms(asked, 300, 2));
  }
  EXPECT_EQ(told.expert_ms(), 0);
}

TEST(CostProfile, AnExpertCostsWhatChecksTellThatDifferInExpertsAlone) {
  CostProfile found = profile();
  const std::vector<CostProfile::Check> others = {{4, 64, truth(4, 30, 64), 30},
                                                  {4, 64, truth(4, 8, 64), 8},
                                                  {8, 64, truth(8, 60, 64), 60},
                                                  {8, 64, truth(8, 8, 64), 8}};
  price_experts(found, others);
  EXPECT_NEAR(found.expert_ms, kExpertMs, 1e-9);
  price_experts(found, {});
  EXPECT_EQ(found.expert_ms, 0) << "none differ";

  // At most what rows add or one row takes for each, and nothing less than nothing.
  std::vector<CostProfile::Check> noisy = others;
  noisy[0].ms += 1000;
  price_experts(found, noisy);
  const auto& checks = found.checks;
  EXPECT_DOUBLE_EQ(found.expert_ms,
                   (checks[3].ms - checks[0].ms) / (checks[3].experts - checks[0].experts));
  CostProfile light = found;
  for (CostProfile::Check& check : light.checks) check.ms += check.rows == 1 ? -9 : 0;
  price_experts(light, noisy);
  EXPECT_DOUBLE_EQ(light.expert_ms, light.checks[0].ms / kOneRow);
  noisy[0].ms = 0.1;
  noisy[2].ms = 0.1;
  price_experts(found, noisy);
  EXPECT_EQ(found.expert_ms, 0);
}

}  // namespace
}  // namespace talon::expert_reads_test
