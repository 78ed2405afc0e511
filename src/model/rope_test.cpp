#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/reference/reference.h"
#include "core/error.h"

namespace talon::rope_test {
namespace {

// Frequencies and amplitude as transformers 5.23 computes them (modeling_rope_utils, float32, nine
// digits).
void expect_frequencies(const RopeConfig& rope, double amplitude,
                        const std::vector<double>& expected) {
  const int head_dim = 2 * static_cast<int>(expected.size());
  const std::vector<float> table = RopeAngles(rope, head_dim).rows(0, 50);
  for (const int position : {0, 1, 7, 49}) {
    const float* row = table.data() + position * head_dim;
    for (std::size_t pair = 0; pair < expected.size(); ++pair) {
      const double angle = position * expected[pair];
      EXPECT_NEAR(row[pair], amplitude * std::cos(angle), 5e-6) << position << " " << pair;
      EXPECT_NEAR(row[pair + expected.size()], amplitude * std::sin(angle), 5e-6)
          << position << " " << pair;
    }
  }
}

TEST(RopeTable, LinearScalingDividesEveryFrequency) {
  RopeConfig rope;
  rope.scaling = RopeConfig::Scaling::linear;
  rope.factor = 4;
  expect_frequencies(rope, 1,
                     {0.25, 0.079056941, 0.0250000004, 0.00790569466, 0.00249999994, 0.000790569466,
                      0.000250000012, 7.90569466e-05});
}

RopeConfig llama3() {
  RopeConfig rope;
  rope.base = 500000;
  rope.scaling = RopeConfig::Scaling::llama3;
  rope.factor = 8;
  rope.low_frequency_factor = 1;
  rope.high_frequency_factor = 4;
  rope.original_context = 8192;
  return rope;
}

TEST(RopeTable, Llama3KeepsShortWavelengthsAndStretchesLongOnes) {
  expect_frequencies(
      llama3(), 1,
      {1.0, 0.440366626, 0.193922758, 0.0853971019, 0.0376060307, 0.0165604409, 0.00729266508,
       0.00321144611, 0.000524846022, 7.78465546e-05, 3.42810235e-05, 1.50962178e-05,
       6.64786967e-06, 2.92749974e-06, 1.28917316e-06, 5.6770881e-07});
}

TEST(RopeTable, YarnMixesByPartsAndScalesTheAmplitude) {
  RopeConfig rope;
  rope.base = 1e6;
  rope.scaling = RopeConfig::Scaling::yarn;
  rope.factor = 4;
  rope.original_context = 32768;
  expect_frequencies(
      rope, 1.138629436111989,
      {1.0, 0.421696514, 0.177827939, 0.0749894157, 0.0316227786, 0.0133352149, 0.00477990136,
       0.00165996165, 0.000549999997, 0.000168678584, 4.44569851e-05, 1.87473561e-05,
       7.90569356e-06, 3.33380353e-06, 1.40585337e-06, 5.92843435e-07});
  rope.base = 10000;
  rope.original_context = 8192;
  rope.beta_fast = 16;
  rope.beta_slow = 2;
  rope.attention_factor = 1.0379100195867799;
  expect_frequencies(rope, 1.0379100195867799,
                     {1.0, 0.316227764, 0.100000001, 0.0316227786, 0.00749999937, 0.00158113893,
                      0.000250000012, 7.90569466e-05});
}

TEST(RopeTable, Llama3IsTheSameToTheBitFromTheDivisorsOfAGguf) {
  constexpr int kWidth = 64, kRows = 4096;
  RopeConfig gguf;
  gguf.base = 500000;
  gguf.frequency_divisors = llama3_divisors(llama3(), kWidth);
  EXPECT_TRUE(RopeAngles(gguf, kWidth).rows(0, kRows) ==
              RopeAngles(llama3(), kWidth).rows(0, kRows));
}

TEST(RopeTable, FrequencyDivisorsOfTheFileApplyPairByPair) {
  RopeConfig rope;
  rope.base = 16;
  rope.frequency_divisors = {1, 8};
  expect_frequencies(rope, 1, {1.0, 0.25 / 8});
}

TEST(RopeTable, HoldsTheAnglesOfWhatIsReachedAndStaysWhereItIs) {
  const auto backend = make_reference_backend(1);
  const RopeConfig rope;
  constexpr int kDim = 4, kPositions = 1000;
  RopeTable table(*backend, rope, kDim, kPositions);
  const std::vector<float> expected = RopeAngles(rope, kDim).rows(0, kPositions);
  const float* place = table.reach(1).data;
  for (const int reached : {1, 255, 256, 257, 1000}) {
    const View view = table.reach(reached);
    EXPECT_EQ(view.data, place);
    EXPECT_EQ(view.rows, kPositions);
    std::vector<float> found(static_cast<std::size_t>(reached) * kDim);
    backend->download(view.row_range(0, reached), found);
    EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin())) << reached;
  }
  EXPECT_THROW(table.reach(kPositions + 1), Bug);
}

TEST(RopeTable, CostsNothingBeyondWhatIsReached) {
  const auto backend = make_reference_backend(1);
  RopeTable table(*backend, {}, 4, 1000);
  std::vector<float> last(4);
  backend->download(table.reach(300).row_range(999, 1), last);
  EXPECT_EQ(last, std::vector<float>(4));
}

}  // namespace
}  // namespace talon::rope_test
