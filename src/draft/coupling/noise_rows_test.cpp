#include "draft/coupling/noise_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "backend/cpu/cpu.h"
#include "backend/reference/reference.h"
#include "backend/wrap/forwarding.h"
#include "draft/drafter.h"
#include "sample/race.h"

namespace talon::noise_rows_test {
namespace {

constexpr Coupling kCoupling{.beta = 1.25};

std::vector<float> row_at(Backend& backend, NoiseRows& rows, const DraftPlace& place) {
  const int row = rows.row_of(place, kCoupling);
  std::vector<float> noise(static_cast<std::size_t>(rows.view().cols));
  backend.download(rows.view().row_range(row, 1), noise);
  return noise;
}

void expect_noise_of(const std::vector<float>& found, const DraftPlace& place,
                     const std::vector<TokenId>& tokens) {
  const RaceNoise noise(*place.random, place.position);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const double expected = -place.temperature / kCoupling.beta * noise.log_exponential(tokens[i]);
    ASSERT_NEAR(found[i], expected, 1e-4) << "token " << tokens[i];
  }
}

TEST(NoiseRows, HoldTheNoiseThatTheDrawOfThePlaceRacesWithByTheTargetsTokens) {
  const auto backend = make_reference_backend(1);
  const std::vector<TokenId> list = {3, 7, 8, 64, 65, 200, 1001, 130, 2};
  NoiseRows rows(*backend, static_cast<int>(list.size()), list, 2);
  const PositionRandom random(5, 1);
  for (const std::uint64_t position : {10, 11, 12, 10}) {
    const DraftPlace place{&random, position, 0.7};
    expect_noise_of(row_at(*backend, rows, place), place, list);
  }
}

/// Notes the tokens that noise was made of.
class NoisyBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void gumbel(std::span<const GumbelNoise> noise, const Indices& tokens, const View& out) override {
    made_of.assign(tokens.data, tokens.data + tokens.count);
    ForwardingBackend::gumbel(noise, tokens, out);
  }
  std::vector<TokenId> made_of;
};

void expect_noise_of_ascending_tokens(std::unique_ptr<Backend> inner, int count) {
  NoisyBackend backend(std::move(inner));
  std::vector<TokenId> ascending;
  for (TokenId token = 0; token < count; ++token) ascending.push_back(7 * token);
  std::vector<TokenId> shuffled = ascending;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(5));
  NoiseRows plain(backend, count, ascending, 2), rows(backend, count, shuffled, 2);
  const PositionRandom random(5, 1);
  for (const std::uint64_t position : {10, 11, 12}) {
    const DraftPlace place{&random, position, 0.7};
    const std::vector<float> expected = row_at(backend, plain, place);
    EXPECT_EQ(backend.made_of, ascending);
    const std::vector<float> found = row_at(backend, rows, place);
    EXPECT_EQ(backend.made_of, ascending);
    for (std::size_t i = 0; i < shuffled.size(); ++i) {
      ASSERT_NEAR(found[i], expected[static_cast<std::size_t>(shuffled[i] / 7)], 1e-5)
          << shuffled[i];
    }
  }
}

/// As a draft model with another vocabulary has it.
TEST(NoiseRows, OfAListInAnyOrderAreMadeOfAscendingTokens) {
  expect_noise_of_ascending_tokens(make_reference_backend(1), 3000);
  // So many that threads share them.
  expect_noise_of_ascending_tokens(make_cpu_backend({.threads = 2, .pin = false}), 40'001);
}

TEST(NoiseRows, OfAWholeVocabularyNeedNoList) {
  const auto backend = make_reference_backend(1);
  std::vector<TokenId> all;
  for (TokenId token = 0; token < 70; ++token) all.push_back(token);
  NoiseRows rows(*backend, 70, {}, 1);
  const PositionRandom random(5, 0);
  const DraftPlace place{&random, 3, 1.3};
  expect_noise_of(row_at(*backend, rows, place), place, all);
}

TEST(NoiseRows, AreFoundAgainUntilOthersWereUsedLater) {
  const auto backend = make_reference_backend(1);
  NoiseRows rows(*backend, 64, {}, 2);
  const PositionRandom random(5, 0), other(6, 0);
  const DraftPlace first{&random, 3, 1}, second = first.after(1);
  const auto row_of_first = rows.row_of(first, kCoupling);
  const auto row_of_second = rows.row_of(second, kCoupling);
  EXPECT_NE(row_of_first, row_of_second);
  EXPECT_EQ(rows.row_of(first, kCoupling), row_of_first);
  EXPECT_EQ(rows.row_of({&other, 3, 1}, kCoupling), row_of_second) << "the one longest unused";
  EXPECT_EQ(rows.row_of({&random, 3, 0.5}, kCoupling), row_of_first) << "another temperature";
}

TEST(FirstPlace, IsKnownWhereTheDrawIsARaceOnly) {
  const PositionRandom random(1, 0);
  SamplerOptions sampler{.temperature = 0.8};
  DraftJob job;
  job.random = &random;
  job.position = 40;
  job.sampler = &sampler;
  job.races = true;
  const DraftPlace place = first_place(job, {});
  EXPECT_EQ(place.position, 41U);
  EXPECT_EQ(place.temperature, 0.8);
  EXPECT_FALSE(first_place(job, {.on = false}).races());
  job.races = false;
  EXPECT_FALSE(first_place(job, {}).races());
  job.races = true;
  sampler.top_k = 1;
  EXPECT_FALSE(first_place(job, {}).races()) << "greedy";
  sampler = {};
  EXPECT_FALSE(first_place(job, {}).races());
  job.sampler = nullptr;
  EXPECT_FALSE(first_place(job, {}).races());
}

TEST(ChanceFactor, RanksByTwiceTheLogarithmAndTheNoise) {
  const PositionRandom random(1, 0);
  const DraftPlace place{&random, 9, 1};
  const double log_e = RaceNoise(random, 9).log_exponential(17);
  EXPECT_NEAR(2 * std::log(0.3 * chance_factor(place, 17)), 2 * std::log(0.3) - log_e, 1e-12);
  EXPECT_EQ(chance_factor({}, 17), 1);
  EXPECT_EQ(chance_factor({&random, 9, 0.3}, 17), 1);
}

}  // namespace
}  // namespace talon::noise_rows_test
