#include "tree/machine_costs.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "tree/pass_costs.h"

namespace talon::machine_costs_test {
namespace {

/// 10 ms, 1 ms for each further row, and per position of context 0.002 ms per text and 0.001 ms per
/// row.
double truth(int rows, int context, int texts = 1) {
  return 9 + rows + context * (0.002 * texts + 0.001 * rows);
}

CostProfile profile() {
  CostProfile result;
  for (const int context : {64, 1024}) {
    for (const int rows : {1, 4, 16})
      result.checks.push_back({rows, context, truth(rows, context)});
  }
  result.levels = {{1, 2.0}, {10, 3.8}};
  return result;
}

TEST(MachineCosts, WithoutAProfileOneCheckIsTheUnitAndAPassIsAShareOfIt) {
  const MachineCosts machine(64);
  EXPECT_DOUBLE_EQ(machine.check_ms(1), 1.0);
  EXPECT_DOUBLE_EQ(machine.check_ms(11, 4000), 1 + 10 * MachineCosts::kCheckRowShare);
  EXPECT_DOUBLE_EQ(PassCosts(64).pass_ms(1, machine), PassCosts::kPassShare);
}

TEST(MachineCosts, InterpolatesTheProfileInRowsAndContext) {
  const MachineCosts machine(64, profile());
  for (const int context : {64, 300, 1024, 2000}) {
    for (const int rows : {1, 2, 10, 16}) {
      EXPECT_NEAR(machine.check_ms(rows, context), truth(rows, context), 1e-6)
          << rows << " " << context;
    }
  }
  EXPECT_NEAR(PassCosts(64, profile()).pass_ms(4, machine), 2.6, 1e-9);
}

TEST(MachineCosts, AChangeOfPaceHoldsForEveryContextAndForPasses) {
  MachineCosts machine(64, profile());
  for (int i = 0; i < 30; ++i) machine.observe_check(4, 800, 2 * truth(4, 800));
  EXPECT_NEAR(machine.check_ms(4, 800), 2 * truth(4, 800), 0.01);
  EXPECT_NEAR(machine.check_ms(16, 64), 2 * truth(16, 64), 0.5);
  EXPECT_NEAR(PassCosts(64, profile()).pass_ms(10, machine), 2 * 3.8, 0.01);
}

TEST(MachineCosts, AChangeOfPaceIsFollowedWhereTheContextTakesMostOfACheck) {
  MachineCosts machine(64, profile());
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0.97, 1.03);
  for (const auto& [rounds, pace] : {std::pair{300, 1}, {200, 2}, {300, 1}}) {
    for (int i = 0; i < rounds; ++i)
      machine.observe_check(8, 8000, pace * truth(8, 8000) * noise(random));
    const double ms = pace * truth(8, 8000);
    EXPECT_NEAR(machine.check_ms(8, 8000), ms, 0.1 * ms) << rounds << " rounds at " << pace;
  }
}

TEST(MachineCosts, TheKeysAndValuesOfSeveralTextsAreNotTakenForAPace) {
  MachineCosts machine(64, profile());
  for (int i = 0; i < 30; ++i) machine.observe_check(8, 8000, truth(8, 8000, 8), 8);
  EXPECT_NEAR(machine.pace(), 1, 0.01);
  EXPECT_NEAR(machine.check_ms(8, 8000, 8), truth(8, 8000, 8), 0.5);
  EXPECT_NEAR(machine.check_ms(16, 8000, 8) - machine.check_ms(8, 8000, 8), 8 + 64, 1);
}

TEST(MachineCosts, BeyondTheReachOfItsNearLayersAContextAddsWhatTheOthersRead) {
  // Three quarters of the keys and values lie in layers that read the last 512 positions.
  const ContextRead read{.reach = 512, .near_share = 0.75};
  const auto cost = [&](int rows, int context) {
    return truth(rows, context / 4 + 3 * std::min(context, 512) / 4);
  };
  CostProfile near;
  for (const int context : {64, 2048}) {
    for (const int rows : {1, 4, 16}) near.checks.push_back({rows, context, cost(rows, context)});
  }
  const MachineCosts machine(64, near, read);
  for (const int context : {64, 400, 512, 2048, 16384})
    EXPECT_NEAR(machine.check_ms(4, context), cost(4, context), 1e-6) << context;
  // All of them do, and no further than the nearer of both contexts.
  const MachineCosts windows(64, profile(), {.reach = 64, .near_share = 1});
  EXPECT_DOUBLE_EQ(windows.check_ms(4, 16384), truth(4, 64));
}

TEST(MachineCosts, BeyondTheRowsOfTheProfileACheckGoesOnAsItsLastRowsDid) {
  CostProfile cheap_rows;
  for (const int rows : {1, 8, 16, 32}) cheap_rows.checks.push_back({rows, 64, 10 + 0.05 * rows});
  EXPECT_NEAR(MachineCosts(256, cheap_rows).check_ms(64), 10 + 0.05 * 64, 0.1 * 32);
  cheap_rows.checks.resize(2);  // few rows wait for the weights, and do not say what many take
  EXPECT_NEAR(MachineCosts(256, cheap_rows).check_ms(64), 10.4 + 56 * 0.15 * 10.05, 1e-9);
}

TEST(CostProfile, DoesNotAgreeWithItselfWhereMoreTakesMuchLess) {
  CostProfile found = profile();
  EXPECT_TRUE(agrees_with_itself(found));
  found.checks.front().ms = 2 * found.checks.back().ms;
  EXPECT_FALSE(agrees_with_itself(found));
  found = profile();
  found.checks = {{1, 64, 1.257}, {8, 64, 1.4}, {1, 480, 0.088}};
  EXPECT_FALSE(agrees_with_itself(found));
}

TEST(MachineCosts, TheRestIsTheMedianOfTheLastRounds) {
  MachineCosts machine(64);
  for (const double ms : {1.0, 1.0, 30.0, 1.0, 1.0}) machine.observe_rest(ms);
  EXPECT_DOUBLE_EQ(machine.rest_ms(), 1);
}

TEST(PassCosts, AreCorrectedByTheirSum) {
  const MachineCosts machine(64, profile());
  PassCosts costs(64, profile());
  const std::vector<int> passes = {1, 10, 10};
  EXPECT_NEAR(costs.draft_ms(passes, 1, machine), 2 + 3.8 + 3.8, 1e-9);
  for (int i = 0; i < 15; ++i) costs.observe(passes, 2 * 9.6, machine);
  EXPECT_NEAR(costs.pass_ms(10, machine), 7.6, 1e-9);
}

/// Passes that look too dear are not run, and what made them slow may be over.
TEST(PassCosts, ThatDidNotRunForLongAreTakenToBeAsTheProfileSays) {
  MachineCosts machine(64, profile());
  PassCosts costs(64, profile());
  const double usual = costs.pass_ms(1, machine);
  const auto slow_rounds = [&] {
    for (int i = 0; i < 15; ++i) {
      costs.begin_round();
      costs.run(0, 1);
      costs.observe_call(1, 9 * usual, machine);
    }
    EXPECT_GT(costs.pass_ms(1, machine), 5 * usual);
  };
  const auto rounds_until_usual = [&] {
    for (int round = 1; round <= 1000; ++round) {
      costs.begin_round();
      if (costs.pass_ms(1, machine) < 1.1 * usual) return round;
    }
    return 0;
  };
  slow_rounds();
  const int first = rounds_until_usual();
  slow_rounds();
  EXPECT_GT(first, 8);
  EXPECT_GT(rounds_until_usual(), first + first / 2) << "pauses grow while it stays slow";
}

TEST(PassCosts, BeyondTheMeasuredRowsAPassGoesOnAsThoseDid) {
  const MachineCosts machine(64, profile());
  EXPECT_NEAR(PassCosts(64, profile()).pass_ms(40, machine), 3.8 + 30 * 0.2, 1e-9);
}

TEST(PassCosts, OfSequencesThatShareThemAreThoseOfAllTheirRows) {
  const MachineCosts machine(64, profile());
  PassCosts costs(64, profile());
  const std::vector<int> each = {1, 5}, all = {2, 10};
  EXPECT_EQ(costs.draft_ms(each, 2, machine), costs.draft_ms(all, 1, machine));
  for (int i = 0; i < 15; ++i) {
    costs.begin_round();
    for (const auto& [pass, rows] : {std::pair{0, 1}, {0, 1}, {1, 3}, {1, 7}})
      costs.run(static_cast<std::size_t>(pass), rows);
    costs.observe_call(2, 2 * PassCosts(64, profile()).draft_ms(all, 1, machine), machine);
  }
  EXPECT_NEAR(costs.pass_ms(10, machine), 2 * 3.8, 1e-9);
}

TEST(PassCosts, TheFirstPassOfADraftTakesWhatWasMeasuredOnTop) {
  CostProfile colder = profile();
  colder.first_pass_ms = 1.5;
  const MachineCosts machine(64, colder);
  PassCosts costs(64, colder);
  const std::vector<int> passes = {1, 10};
  EXPECT_NEAR(costs.pass_ms(1, machine), 2, 1e-9);
  EXPECT_NEAR(costs.draft_ms(passes, 1, machine), 1.5 + 2 + 3.8, 1e-9);
  EXPECT_EQ(costs.draft_ms({}, 1, machine), 0);
  for (int i = 0; i < 15; ++i) costs.observe(passes, 2 * 7.3, machine);
  EXPECT_NEAR(costs.first_pass_ms(machine), 3, 1e-9);
  EXPECT_NEAR(costs.pass_ms(10, machine), 7.6, 1e-9);
}

/// A head that guesses all places in one pass makes the noise of five there, whatever the levels.
TEST(PassCosts, TheNoiseOfADraftIsOfEachLevelOrOfTheFirstPass) {
  CostProfile levels = profile(), blocks = profile();
  price_noise(levels, 0.5, 5 * 0.5, 5);
  price_noise(blocks, 2.5, 2.5, 5);
  const MachineCosts machine(64, levels);
  const std::vector<int> one = {1}, two = {1, 10};
  const auto noise = [&](const CostProfile& of, const std::vector<int>& passes) {
    return PassCosts(64, of, true).draft_ms(passes, 1, machine) -
           PassCosts(64, of).draft_ms(passes, 1, machine);
  };
  EXPECT_NEAR(noise(levels, one), 0.5, 1e-9);
  EXPECT_NEAR(noise(levels, two), 1, 1e-9);
  EXPECT_NEAR(noise(blocks, one), 2.5, 1e-9);
  EXPECT_NEAR(noise(blocks, two), 2.5, 1e-9);
}

TEST(CostProfile, NoiseThatSeemsToTakeLessThanNothingTakesNothing) {
  CostProfile disturbed;
  price_noise(disturbed, -0.2, -0.1, 5);
  EXPECT_GE(disturbed.noise_ms, 0);
  EXPECT_EQ(disturbed.first_noise_ms, 0);
  price_noise(disturbed, 0.3, 0.1, 5);
  EXPECT_EQ(disturbed.noise_ms, 0);
  EXPECT_EQ(disturbed.first_noise_ms, 0.3);
}

TEST(PassCosts, ATokenThatTheHeadHasNotSeenTakesWhatWasMeasuredOrARowOfALevel) {
  const MachineCosts machine(64, profile());
  EXPECT_NEAR(PassCosts(64, profile()).waiting_row_ms(machine), 0.2, 1e-9);
  CostProfile cheap = profile();
  cheap.waiting_row_ms = 0.05;
  PassCosts costs(64, cheap);
  EXPECT_NEAR(costs.waiting_row_ms(machine), 0.05, 1e-9);
  for (int i = 0; i < 15; ++i) costs.observe(std::vector{1, 10}, 2 * 5.8, machine);
  EXPECT_NEAR(costs.waiting_row_ms(machine), 0.1, 1e-9);
}

TEST(PassCosts, LearnWithoutAProfile) {
  const MachineCosts machine(64);
  PassCosts costs(64);
  for (int i = 0; i < 15; ++i) costs.observe(std::vector<int>{1, 1, 1, 1}, 12, machine);
  EXPECT_NEAR(costs.pass_ms(1, machine), 3, 1e-9);
}

std::filesystem::path temporary(const char* name) {
  return std::filesystem::path(testing::TempDir()) / name;
}

TEST(CostProfile, ComesBackFromItsFileForTheSameKeyOnly) {
  const auto file = temporary("costs.json");
  CostProfile written = profile();
  written.first_pass_ms = 0.25;
  written.waiting_row_ms = 0.125;
  written.noise_ms = 0.375;
  written.first_noise_ms = 0.625;
  written.checks[4].experts = 17.5;
  written.expert_ms = 0.0625;
  written.networks.resize(2);
  written.networks[1].source = 4;
  written.networks[1].levels = {{1, 2.5}};
  written.networks[1].first_pass_ms = 1.5;
  write_cost_profile(file, "this machine", written);
  const auto read = read_cost_profile(file, "this machine");
  ASSERT_TRUE(read.has_value());
  ASSERT_EQ(read->checks.size(), 6u);
  EXPECT_EQ(read->checks[4].rows, 4);
  EXPECT_EQ(read->checks[4].context, 1024);
  EXPECT_DOUBLE_EQ(read->checks[4].ms, truth(4, 1024));
  EXPECT_DOUBLE_EQ(read->levels[1].ms, 3.8);
  EXPECT_DOUBLE_EQ(read->first_pass_ms, 0.25);
  EXPECT_EQ(read->waiting_row_ms, 0.125);
  EXPECT_EQ(read->noise_ms, 0.375);
  EXPECT_EQ(read->first_noise_ms, 0.625);
  EXPECT_EQ(read->checks[4].experts, 17.5);
  EXPECT_EQ(read->checks[3].experts, 0);
  EXPECT_EQ(read->expert_ms, 0.0625);
  ASSERT_EQ(read->networks.size(), 2u);
  EXPECT_EQ(read->networks[1].source, 4u);
  EXPECT_EQ(read->networks[1].levels.at(0).ms, 2.5);
  EXPECT_EQ(read->networks[1].first_pass_ms, 1.5);
  EXPECT_FALSE(read->networks[1].waiting_row_ms);
  EXPECT_FALSE(read_cost_profile(file, "another machine").has_value());
}

TEST(CostProfile, ADamagedFileIsAsGoodAsNone) {
  EXPECT_FALSE(read_cost_profile(temporary("nothing.json"), "k").has_value());
  for (const char* text :
       {"", "{", "[]", R"({"key":"k"})",
        R"({"key":"k","checks":[{"rows":0,"context":1,"ms":1}],"levels":[],"first_pass_ms":0})",
        R"({"key":"k","checks":[{"rows":1,"context":1,"ms":-1}],"levels":[],"first_pass_ms":0})",
        R"({"key":"k","checks":[{"rows":"x","context":1,"ms":1}],"levels":[],"first_pass_ms":0})",
        R"({"key":"k","checks":[],"levels":[],"first_pass_ms":-1})",
        R"({"key":"k","checks":[],"levels":[],"first_pass_ms":0,"noise_ms":0})",
        R"({"key":"k","checks":[],"levels":[],"first_pass_ms":0,"noise_ms":0,"first_noise_ms":0,
            "expert_ms":0,"waiting_row_ms":-1})",
        R"({"key":"k","checks":[],"levels":[],"first_pass_ms":0,"noise_ms":0,"first_noise_ms":0,
            "expert_ms":-1})",
        // As it was written before checks told their experts.
        R"({"key":"k","checks":[{"rows":1,"context":1,"ms":1}],"levels":[],"first_pass_ms":0,
            "noise_ms":0,"first_noise_ms":0})",
        R"({"key":"k","checks":[],"levels":[]})"}) {
    const auto file = temporary("damaged.json");
    std::ofstream(file) << text;
    EXPECT_FALSE(read_cost_profile(file, "k").has_value()) << text;
  }
}

}  // namespace
}  // namespace talon::machine_costs_test
