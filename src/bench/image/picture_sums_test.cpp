#include "bench/image/picture_sums.h"

#include <gtest/gtest.h>

#include "io/checkpoint.h"
#include "io/test_pictures.h"

namespace talon::picture_sums_test {
namespace {

/// Of the tiny Lumina-mGPT: two rows of four codes with a token between them.
ImagePlan lumina_rows() {
  const auto file = test::unpack_picture("talon_picture_sums", "lumina/model.safetensors");
  return *read_model_config(open_checkpoint(file.parent_path())).image;
}

std::vector<TokenId> codes_in_rows(const ImagePlan& plan) {
  return {1, 7, 1, 7, plan.row_end, 2, 7, 7, 3};
}

SequenceStatistics relaxed_run() {
  SequenceStatistics s;
  s.rounds = 4;
  s.accepted = {1, 1, 0, 2};  // [7 1], [7 end], [2], [7 7 3]
  s.relaxed = 1;
  s.distortion = 0.4;
  return s;
}

TEST(PictureSums, AreOfCodesAndNotOfWhatStandsBetweenRows) {
  const ImagePlan plan = lumina_rows();
  const PictureSums sums = sums_of(plan, codes_in_rows(plan), relaxed_run());
  EXPECT_EQ(sums.tokens, 9);
  const Json numbers = numbers_of(sums);
  EXPECT_EQ(numbers["codes"], 8);
  EXPECT_EQ(numbers["rounds"], 4);
  EXPECT_DOUBLE_EQ(numbers["tau"].get<double>(), 7.0 / 4);
  EXPECT_DOUBLE_EQ(numbers["steps_compression"].get<double>(), 8.0 / 5);
  EXPECT_DOUBLE_EQ(numbers["distortion"].get<double>(), 0.05);
  EXPECT_DOUBLE_EQ(numbers["relaxed"].get<double>(), 0.25);
}

TEST(PictureSums, OfSeveralSayTheSumAndTheWorst) {
  const ImagePlan plan = lumina_rows();
  PictureSums sums = sums_of(plan, codes_in_rows(plan), relaxed_run());
  SequenceStatistics plain;
  plain.rounds = 8;
  plain.accepted.assign(8, 0);
  sums.add(plan, codes_in_rows(plan), plain);
  const Json summary = summary_of(sums);
  EXPECT_EQ(sums.pictures, 2);
  EXPECT_DOUBLE_EQ(summary["tau"].get<double>(), 14.0 / 12);
  EXPECT_DOUBLE_EQ(summary["distortion"].get<double>(), 0.025);
  EXPECT_DOUBLE_EQ(summary["distortion_sum"].get<double>(), 0.4);
  EXPECT_DOUBLE_EQ(summary["distortion_worst"].get<double>(), 0.05);
  EXPECT_DOUBLE_EQ(summary["relaxed"].get<double>(), 0.25);
}

TEST(PictureSums, OfNothingAreNumbers) {
  EXPECT_EQ(PictureSums().tau(), 1);
  EXPECT_EQ(summary_of({})["distortion"], 0);
}

}  // namespace
}  // namespace talon::picture_sums_test
