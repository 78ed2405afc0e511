#include "engine/round/scheduler.h"

#include <gtest/gtest.h>

namespace talon::scheduler_test {
namespace {

int total_rows(const std::vector<RowGrant>& grants) {
  int rows = 0;
  for (const RowGrant& grant : grants) rows += grant.rows + grant.draft_rows;
  return rows;
}

TEST(ShareRows, DecodingSequencesComeBeforePromptsAndTreesShareTheRest) {
  const std::vector<int> rows_behind = {0, 100, 0};
  const auto grants = share_rows(rows_behind, {64, 32, 20, 64, 64}, 0);
  EXPECT_EQ(grants[0].rows, 1);
  EXPECT_EQ(grants[2].rows, 1);
  EXPECT_EQ(grants[1].rows, 32);
  EXPECT_EQ(grants[1].draft_rows, 0);
  EXPECT_EQ(grants[0].draft_rows, 15);
  EXPECT_EQ(grants[2].draft_rows, 15);
}

TEST(ShareRows, TreesBesidePromptsAreSmaller) {
  const RowLimits limits = {512, 256, 20, 24, 16};
  const auto beside = share_rows(std::vector<int>{0, 100, 0}, limits, 0);
  EXPECT_EQ(beside[1].rows, 24);
  EXPECT_EQ(beside[0].draft_rows, 8);
  EXPECT_EQ(beside[2].draft_rows, 8);
  const auto alone = share_rows(std::vector<int>{0, 0}, limits, 0);
  EXPECT_EQ(alone[0].draft_rows, 20);
}

TEST(ShareRows, NeverExceedsTheRowsOfOneForward) {
  for (int max_rows = 1; max_rows < 40; ++max_rows) {
    const std::vector<int> rows_behind = {0, 9, 0, 500, 0, 1};
    for (std::size_t first = 0; first < rows_behind.size(); ++first) {
      EXPECT_LE(total_rows(share_rows(rows_behind, {max_rows, 16, 8, max_rows, max_rows}, first)),
                max_rows);
    }
  }
}

TEST(ShareRows, MovingTheFirstLetsEverySequenceRunWhenRowsAreFew) {
  const std::vector<int> rows_behind = {0, 0, 0};
  std::vector<int> served(3);
  for (std::size_t first = 0; first < 3; ++first) {
    const auto grants = share_rows(rows_behind, {1, 16, 8, 1, 1}, first);
    EXPECT_EQ(total_rows(grants), 1);
    for (std::size_t i = 0; i < 3; ++i) served[i] += grants[i].rows;
  }
  EXPECT_EQ(served, (std::vector<int>{1, 1, 1}));
}

}  // namespace
}  // namespace talon::scheduler_test
