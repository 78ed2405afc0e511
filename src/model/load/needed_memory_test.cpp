#include "model/load/needed_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/reference/reference.h"
#include "backend/weight_layout.h"
#include "core/error.h"
#include "io/test_pictures.h"
#include "model/load/made_types.h"
#include "model/load/test_folder.h"
#include "model/model.h"

namespace talon::needed_memory_test {
namespace {

const char* const kFolder = TALON_TEST_DATA "/golden/stories260k/target";

/// A tiny one that draws.
std::string picture_model(const std::string& name) {
  return test::unpack_picture("talon_needed_memory", name + "/model.safetensors")
      .parent_path()
      .string();
}

std::unique_ptr<Backend> cpu() { return make_cpu_backend({.threads = 1, .pin = false}); }

TEST(NeededMemory, OfAMatrixIsNoMoreThanItsLayoutTakes) {
  constexpr int kRows = 16, kCols = 512;
  const auto backend = cpu();
  for (const StorageType type :
       {StorageType::f32,   StorageType::f16,     StorageType::bf16,   StorageType::q8_0,
        StorageType::q4_0,  StorageType::q4_1,    StorageType::q5_0,   StorageType::q5_1,
        StorageType::q2_k,  StorageType::q3_k,    StorageType::q4_k,   StorageType::q5_k,
        StorageType::q6_k,  StorageType::iq4_nl,  StorageType::iq4_xs, StorageType::iq2_xxs,
        StorageType::mxfp4, StorageType::iq1_s,   StorageType::iq1_m,  StorageType::iq2_xs,
        StorageType::iq2_s, StorageType::iq3_xxs, StorageType::iq3_s,  StorageType::tq1_0,
        StorageType::tq2_0, StorageType::nvfp4}) {
    const BlockShape block = block_shape(type);
    const std::vector<std::byte> zeros(kRows * kCols / block.elements * block.bytes);
    for (const WeightLayout layout : kWeightLayouts) {
      const auto weight = backend->load_weight({"w", type, kRows, kCols, zeros, {}}, layout);
      const std::size_t least = least_bytes(type, layout, kRows * kCols);
      EXPECT_LE(least, weight->bytes) << name_of(type) << " as " << name_of(layout);
      EXPECT_GT(least, 0U) << name_of(type) << " as " << name_of(layout);
    }
  }
}

TEST(NeededMemory, OfAModelIsMostOfItsWeightsAndNoMore) {
  std::vector<std::string> paths = {kFolder, TALON_TEST_DATA "/models/stories260K.bin"};
  for (const char* pictures : {"words", "anole", "janus"}) paths.push_back(picture_model(pictures));
  for (const std::string& path : paths) {
    const Checkpoint checkpoint = open_checkpoint(path);
    const auto backend = cpu();
    for (const WeightLayout layout : kWeightLayouts) {
      LoadOptions options;
      options.layout = layout;
      const Model model = load_model(checkpoint, *backend, options);
      const std::size_t table = model.config.tied_output ? 0 : model.embedding->bytes;
      const std::size_t least = least_weight_bytes(checkpoint, model.config, layout);
      EXPECT_LE(least, model.weight_bytes + table) << path << " as " << name_of(layout);
      EXPECT_GT(3 * least, model.weight_bytes + table) << path << " as " << name_of(layout);
    }
  }
}

TEST(NeededMemory, ThatIsNotThereIsAnErrorBeforeAnythingIsLoaded) {
  const auto backend = make_reference_backend(1);
  for (const auto& [path, matrix] :
       {std::pair(std::string(kFolder), "model.layers.1.mlp.up_proj.weight"),
        {picture_model("words"), "layers.1.feed_forward.w3.weight"},
        {picture_model("anole"), "model.layers.1.mlp.up_proj.weight"}}) {
    Checkpoint checkpoint = open_checkpoint(path);
    for (StoredTensor& tensor : checkpoint.tensors) {
      if (tensor.name == matrix) tensor.shape = {1 << 25, 1 << 25};
    }
    try {
      load_model(checkpoint, *backend);
      FAIL() << "two pebibytes were loaded";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with("load " + path + ": weights: ")) << message;
      EXPECT_NE(message.find(" MiB, the memory that is available, found 21474836"),
                std::string::npos)
          << message;
    }
  }
}

class MadeTypes : public FolderOfParts {
 protected:
  std::optional<MadeOutline> outline(const std::string& name) const {
    return outline_of_made(folder_.require(name), folder_, quantization_);
  }

  Quantization quantization_;
};

TEST_F(MadeTypes, GroupsThatCutBlocksOf32BecomeFloats) {
  quantization_.method = Quantization::Method::gptq;
  quantization_.group = 32;
  add("a.qweight", StorageType::i32, {8, 8}, std::vector<std::int32_t>(64));
  ASSERT_TRUE(outline("a.qweight"));
  EXPECT_EQ(outline("a.qweight")->name, "a.weight");
  EXPECT_EQ(outline("a.qweight")->values, 64U * 8U);
  EXPECT_EQ(outline("a.qweight")->type, StorageType::q4_0);
  std::vector<std::int32_t> groups(64, 1);
  add("a.g_idx", StorageType::i32, {64}, groups);
  EXPECT_EQ(outline("a.qweight")->type, StorageType::q4_0);
  EXPECT_FALSE(outline("a.g_idx"));
  folder_.tensors.pop_back();
  groups[3] = 0;
  add("a.g_idx", StorageType::i32, {64}, groups);
  EXPECT_EQ(outline("a.qweight")->type, StorageType::f32);
  folder_.tensors.pop_back();
  quantization_.group = 16;
  EXPECT_EQ(outline("a.qweight")->type, StorageType::f32);
}

TEST_F(MadeTypes, BytesBecomeTheSmallestTypeThatHoldsThem) {
  quantization_.method = Quantization::Method::whole_numbers;
  quantization_.bits = 8;
  std::vector<std::int8_t> codes(32, -8);
  add("a.weight", StorageType::i8, {1, 32}, codes);
  EXPECT_FALSE(outline("a.weight")) << "no scale";
  add("a.weight_scale", StorageType::f32, {1}, std::vector<float>{1});
  EXPECT_FALSE(outline("a.weight_scale"));
  ASSERT_TRUE(outline("a.weight"));
  EXPECT_EQ(outline("a.weight")->type, StorageType::q4_0);
  codes[31] = 8;
  std::memcpy(bytes_[0].data(), codes.data(), codes.size());
  EXPECT_EQ(outline("a.weight")->type, StorageType::q8_0);
}

TEST_F(MadeTypes, SmallFloatsOfMlxBecomeTheSmallestTypeThatHoldsThem) {
  using Groups = Quantization::Groups;
  quantization_.method = Quantization::Method::mlx;
  const std::pair<Groups, StorageType> kinds[] = {
      {{4, 32, Groups::Codes::mxfp4}, StorageType::mxfp4},
      {{4, 16, Groups::Codes::nvfp4}, StorageType::nvfp4},
      {{8, 32, Groups::Codes::mxfp8}, StorageType::bf16}};
  add("a.weight", StorageType::i32, {3, 2, 16}, std::vector<std::int32_t>(96));
  add("a.scales", StorageType::u8, {3, 2, 4}, std::vector<std::uint8_t>(24));
  for (const auto& [groups, type] : kinds) {
    quantization_.groups = groups;
    ASSERT_TRUE(outline("a.weight"));
    EXPECT_EQ(outline("a.weight")->type, type);
    EXPECT_EQ(outline("a.weight")->values,
              3U * 2U * 16U * 32U / static_cast<unsigned>(groups.bits));
    EXPECT_TRUE(outline("a.weight")->is_stack);
    EXPECT_FALSE(outline("a.scales"));
  }
  quantization_.groups = kinds[1].first;
  tensor("a.weight").shape = {2, 4, 12};  // rows of 96, no whole blocks of 64
  EXPECT_EQ(outline("a.weight")->type, StorageType::bf16);
}

TEST_F(MadeTypes, Fp8BecomesFloatsAndPlainNumbersStay) {
  quantization_.method = Quantization::Method::float_blocks;
  add("a.weight", StorageType::f8_e4m3, {2, 2}, std::vector<std::uint8_t>(4));
  add("a.weight_scale_inv", StorageType::f32, {1, 1}, std::vector<float>{1});
  add("b.weight", StorageType::bf16, {2, 2}, std::vector<std::uint16_t>(4));
  ASSERT_TRUE(outline("a.weight"));
  EXPECT_EQ(outline("a.weight")->type, StorageType::f32);
  EXPECT_EQ(outline("a.weight")->values, 4U);
  EXPECT_FALSE(outline("b.weight"));
}

}  // namespace
}  // namespace talon::needed_memory_test
