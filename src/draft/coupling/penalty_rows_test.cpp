#include "draft/coupling/penalty_rows.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/reference/reference.h"
#include "draft/coupling/coupling.h"
#include "draft/drafter.h"

namespace talon::penalty_rows_test {
namespace {

/// Three tokens of a prompt and four of an answer, of which the last three are in the window.
const std::vector<TokenId> kText = {0, 1, 2, 3, 1, 4, 1};
constexpr int kPrompt = 3;
const SamplerOptions kPenalizing{.temperature = 1,
                                 .repetition_penalty = 1.5,
                                 .presence_penalty = 0.5,
                                 .frequency_penalty = 0.25,
                                 .penalty_window = 3};

TEST(TextPenalties, AreOfTheTokensOfTheTextEachOnce) {
  using Seen = TextPenalties::Seen;
  Sampler sampler(kPenalizing, 6);
  const std::vector<Seen> both = {{1, 1.0, true}, {3, 0.75, false}, {4, 0.75, true}};
  const std::vector<TokenId> path = {5};
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(sampler.penalties_of({kText, {}, kPrompt}).all(), both);
    EXPECT_EQ(sampler.penalties_of({kText, path, kPrompt}).all(), both) << "a path is left out";
  }
  Sampler repetition({.repetition_penalty = 2}, 6);
  const std::vector<Seen> all = {
      {0, 0, true}, {1, 0, true}, {2, 0, true}, {3, 0, true}, {4, 0, true}};
  EXPECT_EQ(repetition.penalties_of({kText, {}, kPrompt}).all(), all);
  EXPECT_TRUE(Sampler({.banned = {2}}, 6).penalties_of({kText, {}, kPrompt}).empty());
}

TEST(TextPenalties, MakeOfLogitsWhatTheSamplerDoes) {
  const std::vector<float> logits = {1, -1, 0.5F, 2, 1.5F, 3};
  Sampler sampler(kPenalizing, 6), plain({.temperature = 1}, 6);
  const TextPenalties& penalties = sampler.penalties_of({kText, {}, kPrompt});
  std::vector<float> changed = logits;
  for (const TextPenalties::Seen& seen : penalties.all()) {
    float& logit = changed[static_cast<std::size_t>(seen.token)];
    logit = penalties.penalized(logit, seen);
  }
  const auto expected = sampler.distribution_by_token(logits, {kText, {}, kPrompt});
  const auto found = plain.distribution_by_token(changed, {});
  ASSERT_EQ(found.size(), 6U);
  ASSERT_EQ(expected.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(found[i].p, expected[i].p, 1e-6) << i;
}

/// In any order, of any scale; a second text and more rows than before leave nothing of the first.
TEST(PenaltyRows, MoveTheLogitsOfADraftListThatTheTextHas) {
  const auto backend = make_reference_backend(1);
  const std::vector<TokenId> list = {40, 3, 7};
  const TextPenalties penalties(2,
                                {{3, 0, true}, {7, 0.5, true}, {9, 1, false}, {40, 0.25, false}});
  const TextPenalties other(4, {{3, 1, false}, {8, 0, true}});
  PenaltyRows some(*backend, 3, list), all(*backend, 9, {});
  const auto changed = [&](PenaltyRows& rows, const std::vector<float>& logits, int count,
                           const TextPenalties& by, double scale) {
    const Buffer buffer = backend->allocate(count, static_cast<int>(logits.size()) / count);
    backend->upload(logits, buffer.view());
    rows.change(buffer.view(), by, scale);
    std::vector<float> values(logits.size());
    backend->download(buffer.view(), values);
    return values;
  };
  using Row = std::vector<float>;
  EXPECT_EQ(changed(some, {1, 2, -1}, 1, penalties, 1), (Row{0.75F, 1, -2.5F}));
  EXPECT_EQ(changed(some, {1, 2, -1, 0, -4, 3}, 2, penalties, 2),
            (Row{0.5F, 1, -3, -0.5F, -8, 0.5F}));
  EXPECT_EQ(changed(some, {1, 2, -1}, 1, other, 1), (Row{1, 1, -1}));
  EXPECT_EQ(changed(some, {1, 2, -1}, 1, TextPenalties(2, {{9, 0, true}}), 1), (Row{1, 2, -1}));
  EXPECT_EQ(changed(all, {1, 1, 1, 1, 1, 1, 1, 1, 1}, 1, penalties, 1),
            (Row{1, 1, 1, 0.5F, 1, 1, 1, 0, 1}));
}

TEST(FirstPlace, KnowsPenaltiesWhetherTheDrawIsForeseenOrNot) {
  const TextPenalties none{}, penalties(2, {{3, 0, true}});
  const PositionRandom random(3, 0);
  const SamplerOptions hot{.temperature = 1};
  DraftJob job;
  job.penalties = &penalties;
  EXPECT_EQ(first_place(job, {}).penalties, &penalties);
  job.random = &random;
  job.sampler = &hot;
  job.races = true;
  const DraftPlace place = first_place(job, {});
  EXPECT_TRUE(place.races());
  EXPECT_EQ(place.after(2).penalties, &penalties);
  job.penalties = &none;
  EXPECT_EQ(first_place(job, {}).penalties, nullptr);
}

}  // namespace
}  // namespace talon::penalty_rows_test
