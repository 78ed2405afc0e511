#include "draft/coupling/shift_rows.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/reference/reference.h"
#include "draft/drafter.h"

namespace talon::shift_rows_test {
namespace {

std::vector<float> values_of(Backend& backend, const View& row) {
  std::vector<float> values(static_cast<std::size_t>(row.cols));
  backend.download(row, values);
  return values;
}

DraftPlace place_of(const LogitChanges& changes, bool is_early = false) {
  DraftPlace place;
  place.changes = &changes;
  place.early_end = is_early ? 1 : 0;
  return place;
}

TEST(ShiftRows, HoldWhatIsAddedToTheLogitsOfADraftListInAnyOrder) {
  const auto backend = make_reference_backend(1);
  const LogitChanges changes(SamplerOptions{.logit_bias = {{7, 2.0F}, {9, 1.0F}},
                                            .banned = {40},
                                            .banned_early = {7},
                                            .least_answer = 3});
  const std::vector<TokenId> list = {40, 3, 7};
  ShiftRows rows(*backend, 3, list), all(*backend, 9, {});
  constexpr float kBan = LogitChanges::kBan;
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(values_of(*backend, rows.row_of(place_of(changes), 0.5F)),
              (std::vector<float>{0.5F * kBan, 0, 1}));
    EXPECT_EQ(values_of(*backend, rows.row_of(place_of(changes, true), 1)),
              (std::vector<float>{kBan, 0, kBan}));
    EXPECT_EQ(values_of(*backend, all.row_of(place_of(changes), 1)),
              (std::vector<float>{0, 0, 0, 0, 0, 0, 0, 2, 0}));
  }
}

/// More of them than rows are kept, each twice in turn.
TEST(ShiftRows, AreThoseOfTheirOwnRequests) {
  const auto backend = make_reference_backend(1);
  std::vector<LogitChanges> requests;
  for (TokenId token = 0; token < 20; ++token)
    requests.emplace_back(SamplerOptions{.logit_bias = {{token, 1.0F}}});
  ShiftRows rows(*backend, 20, {});
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const LogitChanges copy = requests[i];  // told by what it says, not by where it is
      std::vector<float> expected(20);
      expected[i] = 1;
      EXPECT_EQ(values_of(*backend, rows.row_of(place_of(copy), 1)), expected) << i;
      EXPECT_EQ(values_of(*backend, rows.row_of(place_of(requests[i]), 1)), expected) << i;
    }
  }
}

TEST(FirstPlace, KnowsBansAndBiasWhetherTheDrawIsForeseenOrNot) {
  const LogitChanges none{};
  const LogitChanges changes(SamplerOptions{.logit_bias = {{6, -100.0F}, {8, -5.0F}},
                                            .banned = {5},
                                            .banned_early = {2},
                                            .least_answer = 4});
  DraftState state;
  state.prompt_length = 10;
  DraftJob job;
  job.state = &state;
  job.position = 11;
  job.changes = &changes;
  const DraftPlace place = first_place(job, {});
  EXPECT_FALSE(place.races());
  EXPECT_TRUE(place.bans(5));
  EXPECT_TRUE(place.bans(6)) << "as good as banned";
  EXPECT_FALSE(place.bans(8));
  EXPECT_FALSE(place.bans(7));
  // Tokens 10 to 13 are the first four of the answer.
  EXPECT_TRUE(place.bans(2));
  EXPECT_TRUE(place.after(1).bans(2));
  EXPECT_FALSE(place.after(2).bans(2));
  EXPECT_TRUE(place.after(2).bans(5));
  job.changes = &none;
  EXPECT_EQ(first_place(job, {}).changes, nullptr);
}

}  // namespace
}  // namespace talon::shift_rows_test
