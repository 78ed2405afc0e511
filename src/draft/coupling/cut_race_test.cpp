#include "draft/coupling/cut_race.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "draft/drafter.h"
#include "sample/race.h"

namespace talon::cut_race_test {
namespace {

const PositionRandom kRandom(7, 0);

struct Ranked {
  std::vector<TokenId> tokens;
  std::vector<float> chances;
};

/// Six tokens, each half as likely as the one before, at temperature 1.
Ranked rank(std::uint64_t position, const StrictCut& cut) {
  Ranked ranked{{40, 10, 30, 20, 50, 60}, {}};
  for (int i = 0; i < 6; ++i) ranked.chances.push_back(-std::log(2.0F) * static_cast<float>(i));
  race_after_cut({&kRandom, position, 1, cut}, {.beta = 1, .gamma = 1}, ranked.tokens,
                 ranked.chances);
  return ranked;
}

/// The first of the tokens that a race among the likeliest `left` lets arrive.
TokenId winner(std::uint64_t position, std::size_t left) {
  std::vector<float> logits(64, -100.0F);
  const std::vector<TokenId> tokens = {40, 10, 30, 20, 50, 60};
  for (std::size_t i = 0; i < tokens.size(); ++i)
    logits[static_cast<std::size_t>(tokens[i])] = -std::log(2.0F) * static_cast<float>(i);
  return race_among(std::span(tokens).first(left), {logits, 0, 1}, RaceNoise(kRandom, position))
      .token;
}

TEST(RaceAfterCut, PutsTheWinnerAmongThoseLeftFirst) {
  int of_others = 0;
  for (std::uint64_t position = 0; position < 200; ++position) {
    // 32 of 63 shares are the first's, 48 the first two's.
    EXPECT_EQ(rank(position, {.top_k = 2}).tokens[0], winner(position, 2));
    EXPECT_EQ(rank(position, {.top_p = 0.7}).tokens[0], winner(position, 2));
    EXPECT_EQ(rank(position, {.top_p = 0.5}).tokens[0], 40);
    EXPECT_EQ(rank(position, {.min_p = 0.3}).tokens[0], winner(position, 2));
    EXPECT_EQ(rank(position, {.top_k = 3, .min_p = 0.1}).tokens[0], winner(position, 3));
    of_others += winner(position, 6) != winner(position, 2);
  }
  EXPECT_GT(of_others, 20);
}

TEST(RaceAfterCut, LetsTheOthersFollowByLikelihood) {
  for (std::uint64_t position = 0; position < 50; ++position) {
    const Ranked ranked = rank(position, {.top_p = 0.5});
    EXPECT_EQ(ranked.tokens, (std::vector<TokenId>{40, 10, 30, 20, 50, 60}));
    EXPECT_NEAR(ranked.chances[0], 0.8, 1e-6);
    EXPECT_NEAR(ranked.chances[1], 2 * ranked.chances[2], 1e-6);
  }
}

TEST(RaceAfterCut, GivesChancesThatSumToOneInDescendingOrder) {
  for (std::uint64_t position = 0; position < 50; ++position) {
    for (const StrictCut& cut :
         {StrictCut{.top_k = 2}, StrictCut{.top_k = 6}, StrictCut{.top_p = 0.6}}) {
      const Ranked ranked = rank(position, cut);
      EXPECT_NEAR(std::accumulate(ranked.chances.begin(), ranked.chances.end(), 0.0), 1, 1e-5);
      EXPECT_TRUE(std::ranges::is_sorted(ranked.chances, std::greater()));
    }
  }
}

TEST(RaceAfterCut, RanksOthersAtTemperaturesThatLeaveThemNoWeight) {
  std::vector<TokenId> tokens = {4, 1, 3};
  std::vector<float> values = {0, -20, -21};
  race_after_cut({&kRandom, 1, 0.01, {.top_p = 0.9}}, {}, tokens, values);
  EXPECT_EQ(tokens, (std::vector<TokenId>{4, 1, 3}));
  EXPECT_NEAR(values[0], 0.8, 1e-6);
  EXPECT_NEAR(values[1] + values[2], 0.2, 1e-6);
  EXPECT_NEAR(values[1], std::exp(1.0F) * values[2], 1e-5);
}

TEST(RaceAfterCut, GivesNoChanceToWhatIsNoNumber) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& logits :
       {std::vector<float>{kNan, kNan, kNan},
        std::vector<float>{-kInfinity, -kInfinity, -kInfinity}, std::vector<float>{kInfinity, 1, 0},
        std::vector<float>{1, -kInfinity, kNan}}) {
    std::vector<TokenId> tokens = {4, 1, 3};
    std::vector<float> values = logits;
    race_after_cut({&kRandom, 1, 1, {.top_k = 2}}, {}, tokens, values);
    for (const float value : values) EXPECT_TRUE(value >= 0 && value <= 1) << value;
    std::ranges::sort(tokens);
    EXPECT_EQ(tokens, (std::vector<TokenId>{1, 3, 4}));
  }
}

TEST(FirstPlace, KnowsCutsThatLeaveFewTokensAlone) {
  const auto cut_of = [](SamplerOptions sampler) {
    sampler.temperature = 1;
    DraftJob job;
    job.random = &kRandom;
    job.sampler = &sampler;
    job.races = true;
    return first_place(job, {}).after(2).cut.any();
  };
  EXPECT_TRUE(cut_of({.top_k = 2}));
  EXPECT_TRUE(cut_of({.top_p = 0.3}));
  EXPECT_TRUE(cut_of({.min_p = 0.5}));
  EXPECT_FALSE(cut_of({}));
  EXPECT_TRUE(cut_of({.top_k = 40, .top_p = 0.95}));
  EXPECT_FALSE(cut_of({.top_k = 1000, .top_p = 0.95, .min_p = 0.001}));
}

}  // namespace
}  // namespace talon::cut_race_test
