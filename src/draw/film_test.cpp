#include "draw/film.h"

#include <gtest/gtest.h>
#include <png.h>

namespace talon::film_test {
namespace {

ImagePlan plan_of(int rows, int columns, TokenId row_end = -1) {
  ImagePlan plan{rows, columns};
  plan.row_end = row_end;
  return plan;
}

/// A colour for each cell of 2 by 2 pixels.
Picture picture_of(const ImagePlan& plan) {
  Picture picture{2 * plan.columns, 2 * plan.rows, {}};
  for (int y = 0; y < picture.height; ++y) {
    for (int x = 0; x < picture.width; ++x) {
      const auto shade = static_cast<std::uint8_t>(10 * (y / 2 * plan.columns + x / 2));
      picture.rgb.insert(picture.rgb.end(), {shade, 255, shade});
    }
  }
  return picture;
}

std::vector<std::pair<int, int>> pairs(const std::vector<CellOrigin>& origins) {
  std::vector<std::pair<int, int>> result;
  for (const CellOrigin& origin : origins) result.emplace_back(origin.forward, origin.depth);
  return result;
}

TEST(Film, SaysHowEachCellCame) {
  using Pairs = std::vector<std::pair<int, int>>;
  const int accepted[] = {2, 0, 1};
  EXPECT_EQ(pairs(origins_of(plan_of(1, 7), accepted)),
            (Pairs{{0, 0}, {1, 1}, {1, 2}, {1, 0}, {2, 0}, {3, 1}, {3, 0}}));
  // What stands between rows is no cell: tokens 2 and 5.
  const int between[] = {3, 2};
  EXPECT_EQ(pairs(origins_of(plan_of(3, 2, 9), between)),
            (Pairs{{0, 0}, {1, 1}, {1, 3}, {1, 0}, {2, 2}, {2, 0}}));
}

/// Pixels of the middle of a cell, on the left or on the right.
std::vector<int> colour(const ImagePlan& plan, const Picture& frame, int panel, int cell) {
  const int side = (frame.width - 24) / 2, cell_side = side / plan.columns;
  const int x = 8 + panel * (side + 8) + cell % plan.columns * cell_side + cell_side / 2;
  const int y = 8 + cell / plan.columns * cell_side + cell_side / 2;
  const auto* pixel = frame.rgb.data() + (static_cast<std::ptrdiff_t>(y) * frame.width + x) * 3;
  return {pixel[0], pixel[1], pixel[2]};
}

TEST(Film, GrowsForwardByForward) {
  const ImagePlan plan = plan_of(2, 3);
  const int accepted[] = {3, 0};
  const auto frames = film_of(plan, picture_of(plan), accepted);
  ASSERT_EQ(frames.size(), 7u) << "none to five codes drawn plainly, then the picture as it is";
  const std::vector<int> empty = {226, 226, 226};
  EXPECT_EQ(colour(plan, frames[0].picture, 1, 0), empty);
  for (int forwards = 0; forwards < 6; ++forwards) {
    const Picture& frame = frames[static_cast<std::size_t>(forwards)].picture;
    const int drafted[] = {0, 1, 5, 6, 6, 6};
    for (int cell = 0; cell < 6; ++cell) {
      EXPECT_EQ(colour(plan, frame, 0, cell) != empty, cell < forwards) << forwards;
      EXPECT_EQ(colour(plan, frame, 1, cell) != empty, cell < drafted[forwards]) << forwards;
    }
  }
  const Picture& tinted = frames[5].picture;
  EXPECT_LT(colour(plan, tinted, 1, 4)[1], 255) << "the target's own is grey";
  EXPECT_GT(colour(plan, tinted, 1, 1)[1], colour(plan, tinted, 1, 3)[1]) << "deeper is darker";
  for (int cell = 0; cell < 6; ++cell) {
    const std::vector<int> own = {10 * cell, 255, 10 * cell};
    EXPECT_EQ(colour(plan, frames[6].picture, 0, cell), own);
    EXPECT_EQ(colour(plan, frames[6].picture, 1, cell), own);
  }
}

TEST(Film, TellsWhichCellsARelaxedRuleLetThrough) {
  const ImagePlan plan = plan_of(1, 6);
  const int accepted[] = {1, 2};
  const double relaxed[] = {0, 1.5};
  std::vector<double> shares;
  for (const CellOrigin& origin : origins_of(plan, accepted, relaxed))
    shares.push_back(origin.relaxed);
  EXPECT_EQ(shares, (std::vector<double>{0, 0, 0, 0.75, 0.75, 0}));
  const auto red_beside_green = [&](std::span<const double> of_checks, int cell) {
    const auto frames = film_of(plan, picture_of(plan), accepted, of_checks);
    const auto found = colour(plan, frames[5].picture, 1, cell);
    return found[0] - found[1];
  };
  EXPECT_EQ(red_beside_green(relaxed, 1), red_beside_green({}, 1)) << "the exact rule takes it";
  EXPECT_GT(red_beside_green(relaxed, 3), red_beside_green({}, 3)) << "orange";
  EXPECT_EQ(red_beside_green(relaxed, 5), red_beside_green({}, 5)) << "the target's own";
}

TEST(Film, OfManyForwardsHasFewFrames) {
  const ImagePlan plan = plan_of(40, 40);
  const std::vector<int> accepted(1599, 0);
  EXPECT_EQ(film_of(plan, picture_of(plan), accepted).size(), 321u);
}

}  // namespace
}  // namespace talon::film_test
