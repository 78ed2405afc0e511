#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/reference/reference.h"
#include "draft/drafter.h"
#include "draft/output_head.h"
#include "sample/race.h"

// The chances that a head gives to tokens whose draw is foreseen, and to others.
namespace talon::coupled_output_test {
namespace {

constexpr int kTokens = 5;
constexpr std::array<TokenId, kTokens> kTargetToken = {3, 70, 8, 64, 2};
constexpr Coupling kCoupling{.beta = 1.6, .gamma = 0.7};
const PositionRandom kRandom(7, 2);

/// A head whose logits are its features.
class LogitHead {
 public:
  explicit LogitHead(const Coupling& coupling) : identity_(kTokens * kTokens) {
    for (std::size_t i = 0; i < kTokens; ++i) identity_[i * (kTokens + 1)] = 1;
    matrix_ = backend_->load_weight(
        {"matrix", StorageType::f32, kTokens, kTokens, std::as_bytes(std::span(identity_)), {}},
        WeightLayout::as_stored);
    output_.emplace(*backend_, *matrix_, kTargetToken, coupling);
  }

  RowChildren children(const std::vector<float>& logits, std::span<const DraftPlace> places) {
    const Buffer features = backend_->allocate(static_cast<int>(logits.size()) / kTokens, kTokens);
    backend_->upload(logits, features.view());
    return output_->top_children(features.view(), kTokens, places);
  }

 private:
  std::unique_ptr<Backend> backend_ = make_reference_backend(1);
  std::vector<float> identity_;
  std::unique_ptr<Weight> matrix_;
  std::optional<OutputHead> output_;
};

constexpr double kRepetition = 1.4;  // the penalty of it in the texts that have one

double score(float logit, TokenId token, const DraftPlace& place) {
  const float shift = place.changes ? place.changes->shift_of(token, place.is_early()) : 0.0F;
  double value = place.races() ? kCoupling.beta : 1;
  value = value * static_cast<double>(logit) + static_cast<double>(shift);
  if (place.penalties != nullptr) {
    for (const TextPenalties::Seen& seen : place.penalties->all()) {
      if (seen.token != token) continue;
      if (seen.repeats) value = value > 0 ? value / kRepetition : value * kRepetition;
      value -= seen.subtracted;
    }
  }
  if (!place.races()) return value;
  const double gumbel = -RaceNoise(*place.random, place.position).log_exponential(token);
  return kCoupling.gamma * (value + place.temperature * gumbel);
}

/// Whether the children of row `row` have the softmax of these scores.
void expect_chances(const RowChildren& children, std::size_t row, std::span<const float> logits,
                    const DraftPlace& place) {
  ASSERT_EQ(children.count, kTokens);
  std::array<double, kTokens> weight{};
  double sum = 0;
  for (std::size_t i = 0; i < kTokens; ++i)
    sum += weight[i] = std::exp(score(logits[row * kTokens + i], kTargetToken[i], place));
  for (std::size_t i = row * kTokens; i < (row + 1) * kTokens; ++i) {
    const auto token = std::ranges::find(kTargetToken, children.token[i]) - kTargetToken.begin();
    ASSERT_LT(token, kTokens);
    const double chance = weight[static_cast<std::size_t>(token)] / sum;
    if (chance > 0) {
      EXPECT_NEAR(children.log_p[i], std::log(chance), 1e-3) << "row " << row;
    } else {
      EXPECT_EQ(children.log_p[i], -std::numeric_limits<float>::infinity()) << "row " << row;
    }
  }
  const auto first = children.log_p.begin() + static_cast<std::ptrdiff_t>(row * kTokens);
  EXPECT_TRUE(std::is_sorted(first, first + kTokens, std::greater()));
}

const std::vector<float> kLogits = {0.5F, -1, 2, 0, 1.5F, 3, 2, 1, 0, -1, 0, 0.2F, 0.1F, 0, 0.3F};

TEST(CoupledOutput, RanksByLogitsAndTheNoiseOfEachRowsPlaceByTheTargetsTokens) {
  LogitHead head(kCoupling);
  const std::vector<DraftPlace> places = {{&kRandom, 40, 0.7}, {}, {&kRandom, 41, 1.3}};
  const RowChildren children = head.children(kLogits, places);
  for (std::size_t row = 0; row < places.size(); ++row)
    expect_chances(children, row, kLogits, places[row]);
}

/// Logits divided by a low temperature would promise far more than comes true.
TEST(CoupledOutput, WithoutNoiseChancesDoNotDependOnTheTemperature) {
  const SamplerOptions cold{.temperature = 0.3};
  DraftJob job;
  job.random = &kRandom;
  job.sampler = &cold;
  for (const bool races : {false, true}) {
    job.races = races;
    Coupling coupling = kCoupling;
    coupling.on = !races;
    LogitHead head(coupling);
    const std::vector<DraftPlace> places(3, first_place(job, coupling));
    const RowChildren children = head.children(kLogits, places);
    for (std::size_t row = 0; row < places.size(); ++row)
      expect_chances(children, row, kLogits, {});
  }
}

/// What the request asks of a token is keyed by the target's id of it.
TEST(CoupledOutput, ChancesAreThoseAfterTheBansAndTheBiasOfTheRequest) {
  SamplerOptions options;
  options.banned = {8, 71};  // the likeliest of the first row, and one that is not in the list
  options.logit_bias = {{64, 1.5F}, {2, -2.0F}, {4, 9.0F}};
  options.banned_early = {3};
  options.least_answer = 10;
  const LogitChanges changes(options);
  DraftPlace foreseen{&kRandom, 40, 0.7}, unforeseen, early;
  foreseen.changes = unforeseen.changes = early.changes = &changes;
  early.early_end = 1;
  const std::vector<DraftPlace> places = {foreseen, unforeseen, early};
  LogitHead head(kCoupling);
  for (int round = 0; round < 2; ++round) {
    const RowChildren children = head.children(kLogits, places);
    for (std::size_t row = 0; row < places.size(); ++row)
      expect_chances(children, row, kLogits, places[row]);
    expect_chances(head.children(kLogits, std::vector<DraftPlace>(3)), 0, kLogits, {});
  }
}

/// They come after the bias, and are of the target's logits, which beta times a head's stand for.
TEST(CoupledOutput, ChancesAreThoseAfterThePenaltiesOfTheText) {
  const LogitChanges changes(SamplerOptions{.logit_bias = {{64, 1.5F}, {2, -2.0F}}});
  const TextPenalties penalties(
      kRepetition, {{2, 0.5, true}, {8, 1.5, true}, {9, 3, true}, {64, 0, true}, {70, 2, false}});
  const TextPenalties other(1, {{3, 4, false}});
  DraftPlace foreseen{&kRandom, 40, 0.7}, unforeseen, of_another{&kRandom, 41, 1.3};
  foreseen.penalties = unforeseen.penalties = &penalties;
  foreseen.changes = &changes;
  of_another.penalties = &other;
  LogitHead head(kCoupling);
  for (const std::vector<DraftPlace>& places :
       {std::vector<DraftPlace>{foreseen, unforeseen, of_another},
        std::vector<DraftPlace>{of_another, foreseen, foreseen},
        std::vector<DraftPlace>{{}, unforeseen, {}}}) {
    const RowChildren children = head.children(kLogits, places);
    for (std::size_t row = 0; row < places.size(); ++row)
      expect_chances(children, row, kLogits, places[row]);
  }
}

/// Banned tokens would else be among the two that are left to race.
TEST(CoupledOutput, CutsAreMadeAmongTheTokensThatAreNotBanned) {
  SamplerOptions options;
  options.banned = {8};
  const LogitChanges changes(options);
  LogitHead head(kCoupling);
  for (std::uint64_t position = 0; position < 50; ++position) {
    DraftPlace place{&kRandom, position, 1, {.top_k = 2}};
    place.changes = &changes;
    const std::vector<DraftPlace> places(3, place);
    const RowChildren children = head.children(kLogits, places);
    const std::vector<TokenId> left = {2, 3};
    const std::vector<float> two = {1.5F, 0.5F};
    std::vector<double> scores;
    for (std::size_t i = 0; i < 2; ++i) scores.push_back(score(two[i], left[i], place));
    EXPECT_EQ(children.token[0], scores[0] > scores[1] ? left[0] : left[1]) << position;
    for (std::size_t i = 0; i < kTokens; ++i)
      EXPECT_TRUE(children.token[i] != 8 || std::isinf(children.log_p[i])) << position;
  }
}

TEST(CoupledOutput, NothingFollowsWhereTheWholeDraftListIsBanned) {
  SamplerOptions options;
  options.banned.assign(kTargetToken.begin(), kTargetToken.end());
  const LogitChanges changes(options);
  LogitHead head(kCoupling);
  for (DraftPlace place :
       {DraftPlace{}, DraftPlace{&kRandom, 40, 0.7}, DraftPlace{&kRandom, 40, 0.7, {.top_k = 2}}}) {
    place.changes = &changes;
    const std::vector<DraftPlace> places(3, place);
    const RowChildren children = head.children(kLogits, places);
    for (const float log_p : children.log_p)
      EXPECT_EQ(log_p, -std::numeric_limits<float>::infinity());
  }
}

}  // namespace
}  // namespace talon::coupled_output_test
