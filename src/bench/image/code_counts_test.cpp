#include "bench/image/code_counts.h"

#include <gtest/gtest.h>

#include "io/checkpoint.h"
#include "io/test_pictures.h"

namespace talon::code_counts_test {
namespace {

/// Of the tiny Lumina-mGPT: two rows of four codes with a token between them.
ImagePlan lumina_plan() {
  const auto file = test::unpack_picture("talon_code_counts", "lumina/model.safetensors");
  return *read_model_config(open_checkpoint(file.parent_path())).image;
}

TEST(CodeCounts, LeaveOutWhatMustStandBetweenRows) {
  const ImagePlan plan = lumina_plan();
  ASSERT_EQ(plan.answer_tokens(), 9);
  const TokenId end = plan.row_end;
  const std::vector<TokenId> answer = {1, 7, 1, 7, end, 2, 7, 7, 3};
  // Rounds draw [7 1], [7 end], [2], [7 7 3].
  const std::vector<int> accepted = {1, 1, 0, 2};
  const CodeCounts of_seven = counts_of(plan, answer, accepted, 7);
  EXPECT_EQ(of_seven.codes, 8);
  EXPECT_EQ(of_seven.foreground_rounds, 1);
  EXPECT_EQ(of_seven.foreground_codes, 1);
  const CodeCounts of_two = counts_of(plan, answer, accepted, 2);
  EXPECT_EQ(of_two.foreground_rounds, 3);
  EXPECT_EQ(of_two.foreground_codes, 6);
}

TEST(CodeCounts, OfARoundThatDrewNoCodeAreNone) {
  const ImagePlan plan = lumina_plan();
  const std::vector<TokenId> answer = {1, 1, 1, 1, plan.row_end, 2, 2, 2, 2};
  const CodeCounts plain = counts_of(plan, answer, std::vector<int>(8, 0), 1);
  EXPECT_EQ(plain.foreground_rounds, 4) << "that between the rows is no foreground";
  EXPECT_EQ(plain.foreground_codes, 4);
}

TEST(CommonestCode, IsNoTokenBetweenRows) {
  const ImagePlan plan = lumina_plan();
  const TokenId end = plan.row_end;
  const std::vector<TokenId> one = {0, 1, 2, 3, end, 4, 5, 6, 7},
                             other = {8, 9, 10, 11, end, 12, 13, 14, 7};
  const std::span<const TokenId> answers[] = {one, other};
  EXPECT_EQ(commonest_code(plan, answers), 7);
  EXPECT_EQ(commonest_code(plan, {}), -1);
}

}  // namespace
}  // namespace talon::code_counts_test
