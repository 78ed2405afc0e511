#include <cmath>
#include <limits>

#include "model/load/test_folder.h"

namespace talon::quantized_mlx_test {
namespace {

using Floats = std::vector<float>;

/// Codes one behind the other, from the lowest bit of the first byte on.
std::vector<std::uint8_t> bytes_of(const std::vector<int>& codes, int bits) {
  const auto width = static_cast<std::size_t>(bits);
  std::vector<std::uint8_t> bytes(codes.size() * width / 8);
  for (std::size_t bit = 0; bit < codes.size() * width; ++bit) {
    const int code = codes[bit / width] >> (bit % width);
    if (code % 2 != 0) bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] | 1U << bit % 8);
  }
  return bytes;
}

/// A matrix of MLX's and what it stands for: code (7 output + 5 input) % 2^bits, scales 1, 2, ...
/// times `step` and biases -1, -2, ... times it, of the groups in their order.
class MlxParts : public FolderOfParts {
 protected:
  void say_groups(int bits, int inputs) {
    folder_.metadata["quantization"] = {{"bits", bits}, {"group_size", inputs}};
  }

  /// shape: of the matrix or, with three sizes, of a stack.
  void add_matrix(const std::string& name, int bits, int inputs,
                  const std::vector<std::int64_t>& shape, float step = 0.5F) {
    const std::int64_t cols = shape.back();
    std::int64_t rows = 1;
    for (const std::int64_t size : shape) rows *= size;
    rows /= cols;
    std::vector<int> codes;
    Floats scales, biases;
    expected_.clear();
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t col = 0; col < cols; ++col) {
        if (col % inputs == 0) {
          scales.push_back(step * static_cast<float>(scales.size() + 1));
          biases.push_back(-scales.back());
        }
        codes.push_back(static_cast<int>((7 * row + 5 * col) % (1 << bits)));
        expected_.push_back(
            static_cast<float>(double{scales.back()} * codes.back() + double{biases.back()}));
      }
    }
    std::vector<std::int64_t> words = shape, groups = shape;
    words.back() = cols * bits / 32;
    groups.back() = cols / inputs;
    add(name + ".weight", StorageType::i32, words, bytes_of(codes, bits));
    add(name + ".scales", StorageType::f32, groups, scales);
    add(name + ".biases", StorageType::f32, groups, biases);
  }

  StorageType kept(int rows, int cols) {
    TensorLoader loader(folder_, *backend_, options_);
    return loader.stored_matrix("a.weight", rows, cols).type;
  }

  Floats expected_;
};

TEST_F(MlxParts, CodesOfEveryWidthBeginAtTheLowestBit) {
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    folder_.tensors.clear();
    say_groups(bits, 64);
    add_matrix("a", bits, 64, {3, 128});
    EXPECT_EQ(values(3, 128), expected_) << bits;
    const StorageType smallest = bits <= 4   ? StorageType::q4_1
                                 : bits == 5 ? StorageType::q5_1
                                             : StorageType::f32;
    EXPECT_EQ(kept(3, 128), smallest) << bits;
  }
}

TEST_F(MlxParts, GroupsHaveOneOfThreeSizes) {
  for (const int inputs : {32, 64, 128}) {
    folder_.tensors.clear();
    say_groups(4, inputs);
    add_matrix("a", 4, inputs, {3, 256});
    EXPECT_EQ(values(3, 256), expected_) << inputs;
  }
}

TEST_F(MlxParts, ScalesThatAreNoHalvesMakeFloats) {
  say_groups(4, 32);
  add_matrix("a", 4, 32, {2, 64}, 1e-9F);
  EXPECT_EQ(kept(2, 64), StorageType::f32);
  EXPECT_EQ(values(2, 64), expected_);
}

TEST_F(MlxParts, AMatrixMayHaveGroupsOfItsOwnOrNone) {
  say_groups(8, 128);
  folder_.metadata["quantization"]["a"] = {{"bits", 3}, {"group_size", 32}};
  add_matrix("a", 3, 32, {2, 64});
  EXPECT_EQ(values(2, 64), expected_);
  folder_.tensors.clear();
  folder_.metadata["quantization"]["a"] = false;
  add("a.weight", StorageType::f32, {1, 2}, Floats{1, 2});
  EXPECT_EQ(values(1, 2), (Floats{1, 2}));
}

TEST_F(MlxParts, AStackIsReadOneMatrixAfterTheOther) {
  say_groups(6, 32);
  add_matrix("a", 6, 32, {3, 2, 64});
  Floats all;
  for (const int index : {0, 1, 2}) {
    const Floats one = values("a.weight", {.count = 3, .index = index, .rows = 2, .cols = 64});
    all.insert(all.end(), one.begin(), one.end());
  }
  EXPECT_EQ(all, expected_);
  const std::string message = refusal("a.weight", {.count = 2, .index = 0, .rows = 2, .cols = 64});
  expect_holds(message, {"a.weight", "[2, 2, 12]", "[3, 2, 12]"});
}

TEST_F(MlxParts, WhatContradictsIsRefusedByName) {
  say_groups(4, 64);
  add_matrix("a", 4, 64, {2, 128});
  expect_refused(2, 96, {"a.weight", "inputs in groups of 64", "found 96"});
  expect_refused(2, 64, {"a.weight", "[2, 8]", "[2, 16]"});
  expect_refused(3, 128, {"a.weight", "[3, 16]", "[2, 16]"});
  tensor("a.scales").shape = {4, 1};
  expect_refused(2, 128, {"a.scales", "[2, 2]", "[4, 1]"});
  tensor("a.scales").shape = {2, 2};
  remove("a.biases");
  expect_refused(2, 128, {"a.biases"});
  add("a.biases", StorageType::f32, {2, 2},
      Floats{0, 0, std::numeric_limits<float>::infinity(), 0});
  expect_refused(2, 128, {"a.biases", "finite values"});
  tensor("a.weight").type = StorageType::f32;
  expect_refused(2, 128, {"a.weight", "i32", "f32"});
}

/// Small floats of MLX's and what they stand for: code (7 output + 5 input) % 2^bits, but of e4m3
/// no NaN, and the bytes of scales over and over again.
class MlxFloats : public MlxParts {
 protected:
  void add_matrix(const std::string& mode, const std::vector<std::int64_t>& shape,
                  const std::vector<std::uint8_t>& scales) {
    folder_.tensors.clear();
    folder_.metadata["quantization"] = {{"mode", mode}};
    const bool of_bytes = mode == "mxfp8", of_nvfp4 = mode == "nvfp4";
    const std::int64_t cols = shape.back(), inputs = of_nvfp4 ? 16 : 32;
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    std::vector<int> codes;
    std::vector<std::uint8_t> bytes;
    expected_.clear();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t code = 7 * (i / cols) + 5 * (i % cols);
      codes.push_back(static_cast<int>(code % (of_bytes ? 126 : 16)));
      if (i % inputs == 0) bytes.push_back(scales[bytes.size() % scales.size()]);
      const float value = of_bytes ? e4m3(codes.back()) : kE2m1[codes.back()];
      expected_.push_back(of_nvfp4 ? value * e4m3(bytes.back())
                                   : std::ldexp(value, bytes.back() - 127));
    }
    std::vector<std::int64_t> words = shape, groups = shape;
    words.back() = of_bytes ? cols / 4 : cols / 8;
    groups.back() = cols / inputs;
    add("a.weight", StorageType::i32, words, bytes_of(codes, of_bytes ? 8 : 4));
    add("a.scales", StorageType::u8, groups, bytes);
  }
  std::uint8_t& scale(std::size_t i) { return reinterpret_cast<std::uint8_t&>(bytes_.back()[i]); }

  static constexpr float kE2m1[] = {0,  0.5F,  1,  1.5F,  2,  3,  4,  6,
                                    -0, -0.5F, -1, -1.5F, -2, -3, -4, -6};
  /// Without infinities.
  static float e4m3(int byte) {
    const int exponent = byte >> 3 & 15, mantissa = byte & 7;
    const float size = exponent > 0 ? std::ldexp(1 + static_cast<float>(mantissa) / 8, exponent - 7)
                                    : std::ldexp(static_cast<float>(mantissa), -9);
    return byte < 128 ? size : -size;
  }
};

TEST_F(MlxFloats, StayInTheSmallestTypeThatHoldsThem) {
  struct Kept {
    std::string mode;
    int cols;
    std::vector<std::uint8_t> scales;
    StorageType type;
  };
  const Kept kinds[] = {{"mxfp4", 96, {0, 1, 120, 127, 250}, StorageType::mxfp4},
                        {"nvfp4", 128, {0, 1, 13, 56, 126}, StorageType::nvfp4},
                        {"nvfp4", 48, {0, 1, 13, 56, 126}, StorageType::bf16},
                        {"nvfp4", 128, {13, 56, 56 + 128}, StorageType::bf16},
                        {"mxfp8", 96, {10, 117, 118, 130}, StorageType::bf16},
                        {"mxfp8", 96, {0, 127}, StorageType::f32}};
  for (const auto& [mode, cols, scales, type] : kinds) {
    add_matrix(mode, {3, cols}, scales);
    EXPECT_EQ(values(3, cols), expected_) << mode;
    EXPECT_EQ(kept(3, cols), type) << mode;
  }
}

TEST_F(MlxFloats, AMatrixMayHaveAModeOfItsOwn) {
  add_matrix("mxfp8", {2, 64}, {120});
  folder_.metadata["quantization"] = {{"bits", 4}, {"group_size", 64}, {"a", {{"mode", "mxfp8"}}}};
  EXPECT_EQ(values(2, 64), expected_);
}

TEST_F(MlxFloats, AStackIsReadOneMatrixAfterTheOther) {
  for (const char* mode : {"mxfp4", "nvfp4", "mxfp8"}) {
    add_matrix(mode, {3, 2, 64}, {117, 118, 119, 120, 121, 122, 123});
    Floats all;
    for (const int index : {0, 1, 2}) {
      const Floats one = values("a.weight", {.count = 3, .index = index, .rows = 2, .cols = 64});
      all.insert(all.end(), one.begin(), one.end());
    }
    EXPECT_EQ(all, expected_) << mode;
  }
}

TEST_F(MlxFloats, WhatContradictsIsRefusedByName) {
  for (const std::string mode : {"mxfp4", "nvfp4", "mxfp8"}) {
    add_matrix(mode, {2, 64}, {100});
    expect_refused(2, 72, {"a.weight", mode == "nvfp4" ? "groups of 16" : "groups of 32"});
    expect_refused(3, 64, {"a.weight", "[2, "});
    tensor("a.weight").type = StorageType::u8;
    expect_refused(2, 64, {"a.weight", "i32", "u8"});
    tensor("a.weight").type = StorageType::i32;
    tensor("a.scales").type = StorageType::i8;
    expect_refused(2, 64, {"a.scales", "u8", "i8"});
    remove("a.scales");
    add("a.scales", StorageType::bf16, {2, 1}, std::vector<std::uint16_t>(2));
    expect_refused(2, 64, {"a.scales"});
    remove("a.scales");
    EXPECT_NE(refusal(2, 64), "") << mode;
  }
}

TEST_F(MlxFloats, ThatAreNoNumbersAreRefusedByName) {
  add_matrix("nvfp4", {2, 64}, {100});
  for (const std::uint8_t nan : {127, 255}) {
    scale(1) = nan;
    expect_refused(2, 64, {"a.scales", "finite values"});
  }
  for (const char* mode : {"mxfp4", "mxfp8"}) {
    add_matrix(mode, {2, 64}, {100});
    scale(3) = 255;
    expect_refused(2, 64, {"a.weight", "below 3.4e38", "row 1"});
  }
  add_matrix("mxfp8", {2, 64}, {100});
  bytes_[bytes_.size() - 2][5] = std::byte{255};
  expect_refused(2, 64, {"a.weight", "finite values"});
}

}  // namespace
}  // namespace talon::quantized_mlx_test
