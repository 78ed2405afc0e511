#include "model/load/test_folder.h"

namespace talon::quantized_tensors_test {
namespace {

using Floats = std::vector<float>;
using Words = std::vector<std::uint32_t>;

/// Codes one behind the other, from the lowest bit on.
Words packed(const std::vector<int>& codes, int bits) {
  const auto width = static_cast<std::size_t>(bits);
  Words words(codes.size() * width / 32);
  for (std::size_t bit = 0; bit < codes.size() * width; ++bit) {
    const int code = codes[bit / width] >> (bit % width);
    if (code % 2 != 0) words[bit / 32] |= 1U << bit % 32;
  }
  return words;
}

/// A matrix of GPTQ's and what it stands for: code (5 output + 3 input) % 2^bits, zero points
/// 1, 2, ... and scales 1, 2, ... for each group, doubled in odd outputs.
class GptqParts : public FolderOfParts {
 protected:
  void add_matrix(int bits, int rows, int cols, int group) {
    const int codes = 1 << bits, groups = (cols + group - 1) / group;
    say({{"quant_method", "gptq"}, {"bits", bits}, {"group_size", group}});
    Words qweight(static_cast<std::size_t>(cols * bits / 32 * rows)), qzeros;
    for (int row = 0; row < rows; ++row) {
      std::vector<int> of_row;
      for (int col = 0; col < cols; ++col) {
        of_row.push_back((5 * row + 3 * col) % codes);
        const int of_group = col / group + 1;
        const int scale = of_group * (row % 2 + 1);
        expected_.push_back(static_cast<float>(scale * (of_row.back() - of_group)));
      }
      const Words words = packed(of_row, bits);
      for (std::size_t word = 0; word < words.size(); ++word) {
        qweight[word * static_cast<std::size_t>(rows) + static_cast<std::size_t>(row)] =
            words[word];
      }
    }
    Floats scales;
    for (int of_group = 1; of_group <= groups; ++of_group) {
      const std::vector<int> zeros(static_cast<std::size_t>(rows), of_group - 1);  // stored less 1
      const Words words = packed(zeros, bits);
      qzeros.insert(qzeros.end(), words.begin(), words.end());
      for (int row = 0; row < rows; ++row)
        scales.push_back(static_cast<float>(of_group * (row % 2 + 1)));
    }
    add("a.qweight", StorageType::i32, {cols * bits / 32, rows}, qweight);
    add("a.qzeros", StorageType::i32, {groups, rows * bits / 32}, qzeros);
    add("a.scales", StorageType::f32, {groups, rows}, scales);
  }

  Floats expected_;
};

TEST_F(GptqParts, CodesOfThreeBitsGoOnFromAWordToTheNext) {
  add_matrix(3, 32, 64, 32);
  EXPECT_EQ(values(32, 64), expected_);
  expect_refused(32, 40, {"a.weight", "3 bits", "found 40"});
  expect_refused(40, 64, {"a.weight", "3 bits", "found 40"});
}

TEST_F(GptqParts, TheLastGroupOfInputsMayBeShorter) {
  add_matrix(4, 8, 40, 32);
  EXPECT_EQ(values(8, 40), expected_);
}

TEST_F(GptqParts, AGroupMayBeLargerThanARow) {
  add_matrix(4, 8, 32, 128);
  EXPECT_EQ(values(8, 32), expected_);
}

class CompressedParts : public FolderOfParts {
 protected:
  void say_weights(const std::string& format, const Json& weights) {
    say({{"quant_method", "compressed-tensors"},
         {"format", format},
         {"config_groups", {{"group_0", {{"weights", weights}}}}}});
  }
};

TEST_F(CompressedParts, WholeNumbersMayHaveZeroPoints) {
  say_weights("int-quantized",
              {{"num_bits", 8}, {"type", "int"}, {"strategy", "channel"}, {"symmetric", false}});
  add("a.weight", StorageType::i8, {2, 4},
      std::vector<std::int8_t>{-128, -1, 0, 127, 127, 1, 2, 3});
  add("a.weight_scale", StorageType::f32, {2, 1}, Floats{1, 2});
  add("a.weight_zero_point", StorageType::i8, {2, 1}, std::vector<std::int8_t>{1, -128});
  EXPECT_EQ(values(2, 4), (Floats{-129, -2, -1, 126, 510, 258, 260, 262}));
  remove("a.weight_zero_point");
  expect_refused(2, 4, {"a.weight_zero_point"});
  add("a.weight_zero_point", StorageType::i8, {4, 2}, std::vector<std::int8_t>(8));
  expect_refused(2, 4, {"a.weight_zero_point", "[2, 1]", "[4, 2]"});
}

TEST_F(CompressedParts, ZeroPointsMayBeOfGroups) {
  say_weights("int-quantized", {{"num_bits", 8},
                                {"type", "int"},
                                {"strategy", "group"},
                                {"group_size", 2},
                                {"symmetric", false}});
  add("a.weight", StorageType::i8, {2, 4}, std::vector<std::int8_t>{1, 2, 3, 4, 5, 6, 7, 8});
  add("a.weight_scale", StorageType::f32, {2, 2}, Floats{1, 2, 3, 4});
  add("a.weight_zero_point", StorageType::i8, {2, 2}, std::vector<std::int8_t>{1, 2, 3, 4});
  EXPECT_EQ(values(2, 4), (Floats{0, 1, 2, 4, 6, 9, 12, 16}));
}

TEST_F(CompressedParts, ZeroPointsOfPackedCodesMayLieInBytes) {
  say_weights("pack-quantized",
              {{"num_bits", 4}, {"type", "int"}, {"strategy", "channel"}, {"symmetric", false}});
  std::vector<int> codes, zeros;
  Floats expected;
  std::vector<std::int8_t> bytes;
  for (int row = 0; row < 8; ++row) {
    zeros.push_back(2 * row % 16);
    bytes.push_back(static_cast<std::int8_t>(zeros.back() - 8));
    for (int col = 0; col < 8; ++col) {
      codes.push_back((row + 3 * col) % 16);
      expected.push_back(static_cast<float>(codes.back() - zeros.back()));
    }
  }
  add("a.weight_packed", StorageType::i32, {8, 1}, packed(codes, 4));
  add("a.weight_scale", StorageType::f32, {8, 1}, Floats(8, 1));
  add("a.weight_zero_point", StorageType::i32, {1, 1}, packed(zeros, 4));
  EXPECT_EQ(values(8, 8), expected);
  remove("a.weight_zero_point");
  add("a.weight_zero_point", StorageType::i8, {8, 1}, bytes);
  EXPECT_EQ(values(8, 8), expected);
}

TEST_F(CompressedParts, FloatsMayHaveScalesOfGroups) {
  constexpr std::uint8_t kOne = 0x38;  // in f8_e4m3
  say_weights("float-quantized",
              {{"num_bits", 8}, {"type", "float"}, {"strategy", "group"}, {"group_size", 2}});
  add("a.weight", StorageType::f8_e4m3, {2, 4}, std::vector<std::uint8_t>(8, kOne));
  add("a.weight_scale", StorageType::f32, {2, 2}, Floats{1, 2, 3, 4});
  EXPECT_EQ(values(2, 4), (Floats{1, 1, 2, 2, 3, 3, 4, 4}));
}

}  // namespace
}  // namespace talon::quantized_tensors_test
