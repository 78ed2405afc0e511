#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "core/error.h"

namespace talon::sampler_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kBan = LogitChanges::kBan;

/// Logits whose softmax at temperature 1 is `p`.
std::vector<float> logits_of(const std::vector<double>& p) {
  std::vector<float> logits;
  for (const double value : p) logits.push_back(static_cast<float>(std::log(value)));
  return logits;
}

/// By descending probability, of equals the smaller id first.
std::vector<std::pair<TokenId, double>> distribution_of(const SamplerOptions& options,
                                                        const std::vector<float>& logits,
                                                        const SampleHistory& history = {}) {
  Sampler sampler(options, static_cast<int>(logits.size()));
  std::vector<std::pair<TokenId, double>> result;
  for (const auto& candidate : sampler.distribution_by_token(logits, history)) {
    result.emplace_back(candidate.token, candidate.p);
  }
  std::ranges::stable_sort(result, std::greater{}, &std::pair<TokenId, double>::second);
  return result;
}

void expect_distribution(const std::vector<std::pair<TokenId, double>>& found,
                         const std::vector<std::pair<TokenId, double>>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].first, expected[i].first) << "rank " << i;
    EXPECT_NEAR(found[i].second, expected[i].second, 1e-6) << "rank " << i;
  }
}

const std::vector<double> kP = {0.1, 0.4, 0.15, 0.3, 0.05};

TEST(Sampler, TemperatureZeroIsTheLargestLogitAndOfEqualsTheSmallestId) {
  expect_distribution(distribution_of({}, {1, 5, 3, 5}), {{1, 1.0}});
}

TEST(Sampler, TemperatureOneIsTheSoftmax) {
  expect_distribution(distribution_of({.temperature = 1}, logits_of(kP)),
                      {{1, 0.4}, {3, 0.3}, {2, 0.15}, {0, 0.1}, {4, 0.05}});
}

TEST(Sampler, TemperatureDividesLogits) {
  // p^2, normalised: 0.16 + 0.09 + 0.0225 + 0.01 + 0.0025 = 0.285
  expect_distribution(distribution_of({.temperature = 0.5}, logits_of(kP)), {{1, 0.16 / 0.285},
                                                                             {3, 0.09 / 0.285},
                                                                             {2, 0.0225 / 0.285},
                                                                             {0, 0.01 / 0.285},
                                                                             {4, 0.0025 / 0.285}});
}

TEST(Sampler, EqualLogitsAreEquallyLikely) {
  expect_distribution(distribution_of({.temperature = 1}, {2, 2, 2, 2}),
                      {{0, 0.25}, {1, 0.25}, {2, 0.25}, {3, 0.25}});
}

TEST(Sampler, TopKKeepsTheLargestAndOfEqualsTheSmallerIds) {
  expect_distribution(distribution_of({.temperature = 1, .top_k = 2}, logits_of(kP)),
                      {{1, 0.4 / 0.7}, {3, 0.3 / 0.7}});
  expect_distribution(distribution_of({.temperature = 1, .top_k = 2}, {2, 2, 2, 2}),
                      {{0, 0.5}, {1, 0.5}});
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  expect_distribution(distribution_of({.temperature = 1, .top_p = 0.69}, logits_of(kP)),
                      {{1, 0.4 / 0.7}, {3, 0.3 / 0.7}});
  expect_distribution(distribution_of({.temperature = 1, .top_p = 0.71}, logits_of(kP)),
                      {{1, 0.4 / 0.85}, {3, 0.3 / 0.85}, {2, 0.15 / 0.85}});
  expect_distribution(distribution_of({.temperature = 1, .top_p = 0.01}, logits_of(kP)),
                      {{1, 1.0}});
}

TEST(Sampler, TopPLooksAtWhatTopKLeft) {
  // Of {0.4, 0.3, 0.15} / 0.85 the first two hold 0.8235.
  expect_distribution(distribution_of({.temperature = 1, .top_k = 3, .top_p = 0.8}, logits_of(kP)),
                      {{1, 0.4 / 0.7}, {3, 0.3 / 0.7}});
  expect_distribution(
      distribution_of({.temperature = 1, .top_k = 100, .top_p = 0.8}, logits_of(kP)),
      {{1, 0.4 / 0.85}, {3, 0.3 / 0.85}, {2, 0.15 / 0.85}});
}

TEST(Sampler, MinPIsRelativeToTheLargest) {
  expect_distribution(distribution_of({.temperature = 1, .min_p = 0.3}, logits_of(kP)),
                      {{1, 0.4 / 0.85}, {3, 0.3 / 0.85}, {2, 0.15 / 0.85}});
}

TEST(Sampler, TypicalPKeepsTheLeastSurprisinglySurprising) {
  // Entropy 1.392; surprises 2.30, 0.92, 1.90, 1.20, 3.00: nearest are 3 (0.19), 1 (0.48), 2
  // (0.51), 0 (0.91), 4 (1.6).
  expect_distribution(distribution_of({.temperature = 1, .typical_p = 0.25}, logits_of(kP)),
                      {{3, 1.0}});
  expect_distribution(distribution_of({.temperature = 1, .typical_p = 0.75}, logits_of(kP)),
                      {{1, 0.4 / 0.85}, {3, 0.3 / 0.85}, {2, 0.15 / 0.85}});
}

TEST(Sampler, BannedTokensAreNeverDrawnAndBiasIsAdded) {
  SamplerOptions options{.temperature = 1};
  options.banned = {1};
  options.logit_bias = {{4, std::log(2.0f)}};
  // 0.1, 0.15, 0.3, 0.1 of 0.65
  expect_distribution(distribution_of(options, logits_of(kP)),
                      {{3, 0.3 / 0.65}, {2, 0.15 / 0.65}, {0, 0.1 / 0.65}, {4, 0.1 / 0.65}});
  options.temperature = 0;
  expect_distribution(distribution_of(options, logits_of(kP)), {{3, 1.0}});
}

TEST(Sampler, ABiasDoesNotUnban) {
  SamplerOptions options{.temperature = 1};
  options.banned = {1};
  options.logit_bias = {{1, 100.0f}};
  for (const auto& [token, p] : distribution_of(options, logits_of(kP))) EXPECT_NE(token, 1);
}

TEST(Sampler, RepetitionDividesPositiveAndMultipliesNegativeLogitsOfSeenTokens) {
  SamplerOptions options{.temperature = 1, .repetition_penalty = 2};
  const std::vector<TokenId> committed = {0, 0, 1}, path = {3};
  const std::vector<float> logits = {2, -1, 1.5f, 0.5f};
  const std::vector<double> expected = {1, -2, 1.5, 0.25};
  double sum = 0;
  for (const double logit : expected) sum += std::exp(logit);
  expect_distribution(distribution_of(options, logits, {committed, path, 3}),
                      {{2, std::exp(1.5) / sum},
                       {0, std::exp(1) / sum},
                       {3, std::exp(0.25) / sum},
                       {1, std::exp(-2) / sum}});
}

TEST(Sampler, ThePenaltyWindowCountsTheLastTokensOnly) {
  SamplerOptions options{.repetition_penalty = 10, .penalty_window = 2};
  const std::vector<TokenId> committed = {0, 1}, path = {2};
  expect_distribution(distribution_of(options, {3, 4, 5}, {committed, path, 2}), {{0, 1.0}});
  options.penalty_window = 0;
  expect_distribution(distribution_of(options, {3, 4, 5}, {committed, path, 2}), {{2, 1.0}});
}

TEST(Sampler, PresenceAndFrequencyLookAtTheAnswerOnly) {
  SamplerOptions options{.temperature = 1, .presence_penalty = 0.5, .frequency_penalty = 0.25};
  const std::vector<TokenId> committed = {2, 2, 0, 1}, path = {0};  // the answer is 0 1 0
  const std::vector<double> expected = {0 - 0.5 - 0.5, 0 - 0.5 - 0.25, 0};
  double sum = 0;
  for (const double logit : expected) sum += std::exp(logit);
  expect_distribution(distribution_of(options, {0, 0, 0}, {committed, path, 2}),
                      {{2, 1 / sum}, {1, std::exp(-0.75) / sum}, {0, std::exp(-1.0) / sum}});
}

TEST(Sampler, PlainArgmaxIsOnlyPlainWithoutAnythingElse) {
  EXPECT_TRUE(Sampler({}, 4).plain_argmax());
  EXPECT_TRUE(Sampler({.top_k = 2}, 4).plain_argmax());
  EXPECT_FALSE(Sampler({.temperature = 1}, 4).plain_argmax());
  EXPECT_FALSE(Sampler({.repetition_penalty = 1.1}, 4).plain_argmax());
  SamplerOptions banning;
  banning.banned = {1};
  EXPECT_FALSE(Sampler(banning, 4).plain_argmax());
}

TEST(Sampler, RowsThatGiveNoTokenAreErrors) {
  for (const double temperature : {0.0, 1.0}) {
    SamplerOptions options{.temperature = temperature};
    Sampler sampler(options, 2);
    EXPECT_THROW(sampler.distribution_by_token(std::vector<float>{1, kNan}, {}), Error);
    EXPECT_THROW(sampler.distribution_by_token(std::vector<float>{1, INFINITY}, {}), Error);
    options.banned = {0, 1};
    EXPECT_THROW(Sampler(options, 2).distribution_by_token(std::vector<float>{1, 2}, {}), Error);
  }
}

TEST(Sampler, ADrawDependsOnPositionAndSeedAlone) {
  std::mt19937 random(1);
  std::vector<float> logits(100);
  for (float& logit : logits) logit = static_cast<float>(random() % 100) / 20.0f;
  Sampler first({.temperature = 1}, 100), second({.temperature = 1}, 100);
  const PositionRandom same(7, 0), other(8, 0);
  int differ = 0;
  for (std::uint64_t position = 0; position < 50; ++position) {
    second.sample(logits, {}, other, position);  // an extra draw changes nothing
    EXPECT_EQ(first.sample(logits, {}, same, position), second.sample(logits, {}, same, position));
    differ += first.sample(logits, {}, same, position) != first.sample(logits, {}, other, position);
  }
  EXPECT_GT(differ, 30);
}

/// Pearson's statistic of 20,000 draws against the distribution. With 4 degrees of freedom it
/// exceeds 23.5 once in 10,000.
double chi_square(const SamplerOptions& options) {
  const std::vector<float> logits = logits_of(kP);
  Sampler sampler(options, 5);
  const PositionRandom random(42, 0);
  std::vector<double> count(5);
  constexpr int kDraws = 20000;
  for (int position = 0; position < kDraws; ++position) {
    ++count[static_cast<std::size_t>(
        sampler.sample(logits, {}, random, static_cast<std::uint64_t>(position)))];
  }
  double statistic = 0, reached = 0;
  for (const auto& [token, p] : distribution_of(options, logits)) {
    const double expected = p * kDraws, found = count[static_cast<std::size_t>(token)];
    statistic += (found - expected) * (found - expected) / expected;
    reached += found;
  }
  EXPECT_EQ(reached, kDraws) << "a token outside the distribution was drawn";
  return statistic;
}

TEST(Sampler, DrawsFollowTheDistribution) {
  EXPECT_LT(chi_square({.temperature = 1}), 23.5);
  EXPECT_LT(chi_square({.temperature = 0.7}), 23.5);
  EXPECT_LT(chi_square({.temperature = 1.2, .top_p = 0.9}), 23.5);
  EXPECT_LT(chi_square({.temperature = 1, .top_k = 3}), 23.5);
  EXPECT_LT(chi_square({.temperature = 1, .min_p = 0.2}), 23.5);
  EXPECT_LT(chi_square({.temperature = 1, .typical_p = 0.8}), 23.5);
}

/// The distribution by the definition: sort everything, cut one after another.
std::vector<std::pair<TokenId, double>> slow_distribution(const SamplerOptions& options,
                                                          const std::vector<float>& logits) {
  using Item = std::pair<TokenId, double>;
  std::vector<Item> items;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    items.emplace_back(static_cast<TokenId>(i),
                       std::exp(static_cast<double>(logits[i]) / options.temperature));
  }
  const auto descending = [](const Item& a, const Item& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  };
  const auto normalise = [&] {
    double sum = 0;
    for (const Item& item : items) sum += item.second;
    for (Item& item : items) item.second /= sum;
  };
  const auto keep_until = [&](double mass) {
    double sum = 0;
    std::size_t count = 0;
    while (count < items.size() && sum < mass) sum += items[count++].second;
    items.resize(count);
    normalise();
  };
  std::sort(items.begin(), items.end(), descending);
  if (options.top_k > 0 && items.size() > static_cast<std::size_t>(options.top_k)) {
    items.resize(static_cast<std::size_t>(options.top_k));
  }
  normalise();
  if (options.top_p < 1) keep_until(options.top_p);
  const double largest = items.front().second;
  std::erase_if(items, [&](const Item& item) { return item.second < options.min_p * largest; });
  normalise();
  if (options.typical_p < 1) {
    double entropy = 0;
    for (const Item& item : items) entropy -= item.second * std::log(item.second);
    std::stable_sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
      return std::abs(-std::log(a.second) - entropy) < std::abs(-std::log(b.second) - entropy);
    });
    keep_until(options.typical_p);
    std::sort(items.begin(), items.end(), descending);
  }
  return items;
}

TEST(Sampler, FastSelectionEqualsTheDefinitionOnRandomRows) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 2);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<float> logits(3000);
    for (float& logit : logits) logit = normal(random);
    SamplerOptions options{.temperature = 0.5 + 0.1 * (trial % 8)};
    if (trial % 2 == 0) options.top_k = 1 + trial * 30;
    if (trial % 3 == 0) options.top_p = 0.5 + 0.005 * trial;
    if (trial % 5 == 0) options.min_p = 0.02;
    if (trial % 7 == 0) options.typical_p = 0.6;
    expect_distribution(distribution_of(options, logits), slow_distribution(options, logits));
  }
}

/// The winner by the definition: of all tokens with a probability the one whose exponential number
/// over it is least.
TokenId slow_winner(std::span<const Sampler::Candidate> law, const RaceNoise& noise) {
  TokenId winner = -1;
  double least = INFINITY;
  for (const auto& [token, p] : law) {
    const double time = std::exp(noise.log_exponential(token)) / p;
    if (time < least) winner = token;
    least = std::min(least, time);
  }
  return winner;
}

TEST(Sampler, ADrawIsTheWinnerOfTheRaceBetweenTheTokensOfTheDistribution) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 3);
  std::vector<SamplerOptions> all = {{.temperature = 0.8},
                                     {.temperature = 1, .top_k = 7},
                                     {.temperature = 1.5, .top_k = 900},
                                     {.temperature = 1, .top_k = 257},
                                     {.temperature = 30, .top_k = 300},
                                     {.temperature = 0.7, .top_p = 0.9},
                                     {.temperature = 3, .top_p = 0.99},
                                     {.temperature = 2, .min_p = 1e-4},
                                     {.temperature = 1, .typical_p = 0.6},
                                     {.temperature = 4, .typical_p = 0.9},
                                     {.temperature = 1, .repetition_penalty = 1.3},
                                     {.temperature = 1, .presence_penalty = 1}};
  all.push_back({.temperature = 1, .logit_bias = {{3, 2.5F}, {0, -1.0F}}, .banned = {1, 5}});
  const std::vector<TokenId> committed = {2, 2, 0, 3}, path = {4};
  const SampleHistory history{committed, path, 2};
  for (const int vocabulary : {7, 256, 257, 3000, 2999}) {
    std::vector<float> logits(static_cast<std::size_t>(vocabulary));
    for (float& logit : logits) logit = normal(random);
    if (vocabulary % 2 != 0) std::ranges::for_each(logits, [](float& l) { l = std::round(l); });
    for (const SamplerOptions& options : all) {
      Sampler sampler(options, vocabulary);
      const auto law = sampler.distribution_by_token(logits, history);
      const std::vector<Sampler::Candidate> candidates(law.begin(), law.end());
      const PositionRandom draws(9, 2);
      for (std::uint64_t position = 0; position < 60; ++position) {
        ASSERT_EQ(sampler.sample(logits, history, draws, position),
                  slow_winner(candidates, RaceNoise(draws, position)))
            << vocabulary << " tokens, temperature " << options.temperature;
      }
    }
  }
}

TEST(Sampler, VeryUnlikelyTokensAreDrawnAsOftenAsTheyShould) {
  // 60,000 tokens whose weight is e^-18.2 of the first's hold 7.5e-4 together: 15 of 20,000 draws.
  // Of Poisson(15) fewer than 3 or more than 32 are seen once in 20,000.
  std::vector<float> logits(60001, -18.2f);
  logits[0] = 0;
  Sampler sampler({.temperature = 1}, 60001);
  const PositionRandom random(3, 0);
  int unlikely = 0;
  for (std::uint64_t position = 0; position < 20000; ++position) {
    unlikely += sampler.sample(logits, {}, random, position) != 0;
  }
  EXPECT_GE(unlikely, 3);
  EXPECT_LE(unlikely, 32);
}

TEST(Sampler, ANucleusThatReachesIntoTheUnlikelyTokensHoldsThem) {
  std::vector<float> logits(60001, -20.5f);
  logits[0] = 0;
  const auto found = distribution_of({.temperature = 1, .top_p = 0.99999}, logits);
  EXPECT_EQ(found.size(), slow_distribution({.temperature = 1, .top_p = 0.99999}, logits).size());
  EXPECT_GT(found.size(), 10000u);
}

TEST(LogitChanges, AreTheBiasOfATokenAndItsBans) {
  SamplerOptions options;
  options.logit_bias = {{7, 2.0F}, {3, -1.5F}, {7, 0.5F}, {4, 0.0F}, {5, 100.0F}};
  options.banned = {5, 9};
  const LogitChanges changes(options);
  EXPECT_EQ(changes.least_answer(), 0);
  for (const bool is_early : {false, true}) {
    EXPECT_EQ(changes.shift_of(7, is_early), 2.5F);
    EXPECT_EQ(changes.shift_of(3, is_early), -1.5F);
    EXPECT_EQ(changes.shift_of(5, is_early), kBan) << "a bias does not unban";
    EXPECT_EQ(changes.shift_of(9, is_early), kBan);
    EXPECT_EQ(changes.shift_of(6, is_early), 0);
  }
  std::vector<TokenId> tokens;
  for (const LogitChanges::Change& change : changes.all()) tokens.push_back(change.token);
  EXPECT_EQ(tokens, (std::vector<TokenId>{3, 5, 7, 9}));
}

TEST(LogitChanges, BansOfShortAnswersEndWithThese) {
  SamplerOptions options;
  options.banned_early = {2, 8};
  EXPECT_TRUE(LogitChanges(options).empty()) << "no answer is short";
  options.least_answer = 5;
  options.logit_bias = {{8, 1.0F}};
  const LogitChanges changes(options);
  EXPECT_EQ(changes.least_answer(), 5);
  EXPECT_EQ(changes.shift_of(2, true), kBan);
  EXPECT_EQ(changes.shift_of(2, false), 0);
  EXPECT_EQ(changes.shift_of(8, true), kBan);
  EXPECT_EQ(changes.shift_of(8, false), 1.0F);
}

/// What stays the same for the request is told by the sampler; the rest is not among it.
TEST(LogitChanges, OfASamplerAreThoseOfItsOptions) {
  SamplerOptions options{.temperature = 0.7, .top_k = 4, .repetition_penalty = 1.2};
  EXPECT_TRUE(Sampler(options, 16).changes().empty());
  options.banned = {3};
  EXPECT_EQ(Sampler(options, 16).changes(), LogitChanges(options));
  EXPECT_FALSE(Sampler(options, 16).uncut().changes().empty());
}

TEST(SamplerOptions, BadValuesAreRefusedNamingTheField) {
  const auto message = [](const std::function<void(SamplerOptions&)>& change) -> std::string {
    SamplerOptions options;
    change(options);
    try {
      check(options, 100);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message([](auto&) {}), "accepted");
  EXPECT_EQ(message([](auto& o) { o.temperature = -1; }),
            "sampler temperature: expected 0 or more, found -1");
  EXPECT_EQ(message([](auto& o) { o.temperature = NAN; }),
            "sampler temperature: expected 0 or more, found nan");
  EXPECT_EQ(message([](auto& o) { o.top_p = 0; }),
            "sampler top_p: expected more than 0 and at most 1, found 0");
  EXPECT_EQ(message([](auto& o) { o.top_k = -3; }),
            "sampler top_k: expected 0 (off) or more, found -3");
  EXPECT_EQ(message([](auto& o) { o.banned = {100}; }),
            "sampler banned: expected token ids from 0 to 99, found 100");
  for (const auto& change : std::vector<std::function<void(SamplerOptions&)>>{
           [](auto& o) { o.top_p = 1.5; }, [](auto& o) { o.min_p = -0.1; },
           [](auto& o) { o.min_p = 1.1; }, [](auto& o) { o.typical_p = 0; },
           [](auto& o) { o.repetition_penalty = 0; },
           [](auto& o) { o.presence_penalty = INFINITY; },
           [](auto& o) { o.frequency_penalty = NAN; }, [](auto& o) { o.penalty_window = -1; },
           [](auto& o) {
             o.logit_bias = {{-1, 0.0f}};
           },
           [](auto& o) {
             o.logit_bias = {{1, kNan}};
           }}) {
    EXPECT_NE(message(change), "accepted");
  }
}

}  // namespace
}  // namespace talon::sampler_test
