#include "model/load/tensor_loader.h"

#include <gtest/gtest.h>

#include "model/load/test_folder.h"

namespace talon::tensor_loader_test {
namespace {

constexpr std::uint8_t kOne = 0x38;  // in f8_e4m3

class QuantizedParts : public FolderOfParts {};

TEST_F(QuantizedParts, OneScaleOfFp8CountsForTheWholeMatrixUnderBothNames) {
  say({{"quant_method", "fp8"}, {"weight_block_size", nullptr}});
  for (const char* name : {"a.weight_scale_inv", "a.weight_scale"}) {
    folder_.tensors.clear();
    add("a.weight", StorageType::f8_e4m3, {2, 2}, std::vector<std::uint8_t>(4, kOne));
    add(name, StorageType::f32, {}, std::vector<float>{0.25F});
    EXPECT_EQ(values(2, 2), std::vector<float>(4, 0.25F)) << name;
  }
}

TEST_F(QuantizedParts, WholeNumbersWhereFp8IsExpectedAreRefusedByName) {
  say({{"quant_method", "fp8"}, {"weight_block_size", nullptr}});
  for (const StorageType type : {StorageType::i8, StorageType::u8, StorageType::i32}) {
    folder_.tensors.clear();
    add("a.weight", type, {2, 2}, std::vector<std::uint8_t>(4 * block_shape(type).bytes));
    add("a.weight_scale", StorageType::f32, {}, std::vector<float>{0.25F});
    const std::string expected =
        fmt::format("\"a.weight\": expected f8_e4m3, found {}", name_of(type));
    EXPECT_NE(refusal(2, 2).find(expected), std::string::npos) << refusal(2, 2);
  }
}

TEST_F(QuantizedParts, ProductsThatAreNotFiniteAreRefused) {
  say({{"quant_method", "fp8"}, {"weight_block_size", {1, 1}}});
  add("a.weight", StorageType::f8_e4m3, {1, 2}, std::vector<std::uint8_t>{kOne, kOne + 16});
  add("a.weight_scale_inv", StorageType::f32, {1, 2}, std::vector<float>{1, 3e38F});
  EXPECT_NE(refusal(1, 2).find("row 0 at column 1"), std::string::npos) << refusal(1, 2);
}

TEST_F(QuantizedParts, PackedMatricesMayHaveOneScaleAndUnsetGroups) {
  const Json weights = {{"num_bits", 4}, {"strategy", "tensor"}};
  say({{"quant_method", "compressed-tensors"},
       {"format", "pack-quantized"},
       {"config_groups", {{"group_0", {{"weights", weights}}}}}});
  add("a.weight_packed", StorageType::i32, {2, 1}, std::vector<std::uint32_t>{0x99999999U, 0xaU});
  add("a.weight_scale", StorageType::f32, {1}, std::vector<float>{0.5F});
  add("a.weight_g_idx", StorageType::i32, {8}, std::vector<std::int32_t>(8, -1));
  const auto found = values(2, 8);
  EXPECT_EQ(found[0], 0.5F);
  EXPECT_EQ(found[7], 0.5F);
  EXPECT_EQ(found[8], 1.0F);
  EXPECT_EQ(found[9], -4.0F);
}

/// As converters write NVFP4's second scale.
TEST_F(QuantizedParts, MatricesOfGgufFilesMayHaveAFactorBesideThem) {
  folder_.format = CheckpointFormat::gguf;
  folder_.metadata["general.architecture"] = "qwen3";
  std::vector<std::uint8_t> block(36);
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::uint8_t>(0x30 + i);
  add("a.weight", StorageType::nvfp4, {1, 64}, block);
  const std::vector<float> plain = values(1, 64);
  std::vector<float> expected = plain;
  for (float& value : expected) value *= 0.3F;
  add("a.scale", StorageType::f32, {1}, std::vector<float>{0.3F});
  EXPECT_EQ(values(1, 64), expected);
  folder_.metadata["general.architecture"] = "gemma4";  // where other tensors end so
  EXPECT_EQ(values(1, 64), plain);
  folder_.metadata["general.architecture"] = "qwen3";
  folder_.tensors.pop_back();
  add("a.scale", StorageType::f32, {1}, std::vector<float>{3e38F});
  EXPECT_NE(refusal(1, 64).find("products with its factor"), std::string::npos) << refusal(1, 64);
  folder_.tensors.pop_back();
  add("a.scale", StorageType::f32, {2}, std::vector<float>{1, 1});
  EXPECT_NE(refusal(1, 64).find("a.scale"), std::string::npos) << refusal(1, 64);
}

TEST_F(QuantizedParts, EachMatrixOfAStackMayHaveAFactor) {
  folder_.format = CheckpointFormat::gguf;
  add("a.weight", StorageType::f32, {2, 1, 2}, std::vector<float>{1, 2, 3, 4});
  add("a.scale", StorageType::f32, {2}, std::vector<float>{0.5F, -2});
  TensorLoader loader(folder_, *backend_, options_);
  const auto matrix = [&](int index) {
    const auto weight = loader.matrix_of_stack("a.weight", 2, index, 1, 2);
    const Buffer row = backend_->allocate(1, 2);
    const IndexBuffer zero = backend_->allocate_indices(1);
    backend_->embed(*weight, zero.first(1), row.view());
    std::vector<float> found(2);
    backend_->download(row.view(), found);
    return found;
  };
  EXPECT_EQ(matrix(1), (std::vector<float>{-6, -8}));
  EXPECT_EQ(matrix(0), (std::vector<float>{0.5F, 1}));
  EXPECT_EQ(matrix(0), (std::vector<float>{0.5F, 1}));
  EXPECT_TRUE(loader.was_read("a.scale"));
}

TEST_F(QuantizedParts, ThatNoConfigurationExplainsAreRefusedByName) {
  add("a.qweight", StorageType::i32, {1, 8}, std::vector<std::int32_t>(8));
  EXPECT_NE(refusal(8, 8).find("quantization_config"), std::string::npos) << refusal(8, 8);
  EXPECT_NE(refusal(8, 8).find("a.qweight"), std::string::npos) << refusal(8, 8);
}

}  // namespace
}  // namespace talon::tensor_loader_test
