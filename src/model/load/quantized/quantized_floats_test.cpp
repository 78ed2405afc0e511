#include "model/load/quantized/quantized_floats.h"

#include "model/load/test_folder.h"

namespace talon::quantized_floats_test {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Floats = std::vector<float>;

constexpr std::uint8_t kOne = 0x38;  // in f8_e4m3, as are these
constexpr std::uint8_t kTwo = 0x40;
constexpr std::uint8_t kNan = 0x7f;

class Nvfp4Parts : public FolderOfParts {
 protected:
  /// One output: 16 inputs of scale 1, 16 of scale 2. Codes 0, 1, ... 15, 0, ...
  void compressed() {
    const Json weights = {{"num_bits", 4}, {"strategy", "tensor_group"}, {"group_size", 16}};
    say({{"quant_method", "compressed-tensors"},
         {"format", "nvfp4-pack-quantized"},
         {"config_groups", {{"group_0", {{"weights", weights}}}}}});
    add("a.weight_packed", StorageType::u8, {1, 16}, codes_);
    add("a.weight_scale", StorageType::f8_e4m3, {1, 2}, Bytes{kOne, kTwo});
    add("a.weight_global_scale", StorageType::f32, {1}, Floats{4});
  }
  void of_modelopt() {
    say({{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}});
    add("a.weight", StorageType::u8, {1, 16}, codes_);
    add("a.weight_scale", StorageType::f8_e4m3, {1, 2}, Bytes{kOne, kTwo});
    add("a.weight_scale_2", StorageType::f32, {}, Floats{0.25F});
  }

  const Bytes codes_ = {0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe,
                        0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
  static Floats expected() {
    Floats values = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6, 0, -0.5F, -1, -1.5F, -2, -3, -4, -6};
    for (float& value : values) value *= 0.25F;
    for (int i = 0; i < 16; ++i) values.push_back(2 * values[static_cast<std::size_t>(i)]);
    return values;
  }
};

TEST_F(Nvfp4Parts, OfBothMakersAreTheSameMatrix) {
  compressed();
  EXPECT_EQ(values(1, 32), expected());
  folder_.tensors.clear();
  of_modelopt();
  EXPECT_EQ(values(1, 32), expected());
}

TEST_F(Nvfp4Parts, MayBeExplainedByAFileBesideTheConfiguration) {
  of_modelopt();
  folder_.metadata.erase("quantization_config");
  EXPECT_NE(refusal(1, 32), "");
  folder_.metadata["hf_quant_config"] = {
      {"producer", {{"name", "modelopt"}}},
      {"quantization", {{"quant_algo", "NVFP4"}, {"kv_cache_quant_algo", "FP8"}}}};
  EXPECT_EQ(values(1, 32), expected());
}

TEST_F(Nvfp4Parts, ThatAreMissingOrOfAnotherShapeAreRefused) {
  const auto refused = [&](const std::string& name, auto change,
                           const std::vector<std::string>& texts) {
    for (const bool is_compressed : {true, false}) {
      folder_.tensors.clear();
      if (is_compressed) {
        compressed();
      } else {
        of_modelopt();
      }
      if (!TensorLoader(folder_, *backend_, options_).has(name)) continue;
      change(tensor(name));
      expect_refused(1, 32, texts);
    }
  };
  const auto shaped = [](std::vector<std::int64_t> shape) {
    return [shape](StoredTensor& t) { t.shape = shape; };
  };
  const auto renamed = [](StoredTensor& t) { t.name = "b"; };
  refused("a.weight_packed", shaped({16, 1}), {"a.weight_packed", "[1, 16]", "[16, 1]"});
  refused("a.weight_scale", shaped({2}), {"a.weight_scale", "[1, 2]", "found [2]"});
  refused("a.weight_scale", renamed, {"a.weight_scale"});
  refused("a.weight_global_scale", renamed, {"a.weight_global_scale"});
  refused("a.weight_global_scale", shaped({1, 1}), {"a.weight_global_scale", "found [1, 1]"});
  refused("a.weight_scale_2", renamed, {"a.weight", "found u8"});
  refused("a.weight_scale_2", shaped({1, 1}), {"a.weight_scale_2", "found [1, 1]"});
  refused("a.weight", [](StoredTensor& t) { t.type = StorageType::i8; },
          {"a.weight", "expected u8, found i8"});
  refused("a.weight_scale", [](StoredTensor& t) { t.type = StorageType::u8; },
          {"a.weight_scale", "floating-point", "found u8"});
  folder_.tensors.clear();
  compressed();
  expect_refused(1, 24, {"a.weight", "groups of 16", "found 24"});
}

TEST_F(Nvfp4Parts, WithScalesThatGiveNoNumbersAreRefused) {
  compressed();
  remove("a.weight_global_scale");
  add("a.weight_global_scale", StorageType::f32, {1}, Floats{0});
  expect_refused(1, 32, {"a.weight_global_scale", "divide"});
  remove("a.weight_scale");
  add("a.weight_scale", StorageType::f8_e4m3, {1, 2}, Bytes{kOne, kNan});
  expect_refused(1, 32, {"a.weight_scale", "finite"});
  folder_.tensors.clear();
  of_modelopt();
  remove("a.weight_scale_2");
  add("a.weight_scale_2", StorageType::f32, {}, Floats{3e38F});
  expect_refused(1, 32, {"a.weight", "3.4e38", "row 0 at column 3"});
}

/// Two matrices [2, 3] in fp8: ones and twos.
class StacksInFp8 : public FolderOfParts {
 protected:
  void stack() {
    folder_.tensors.clear();
    Bytes codes(6, kOne);
    codes.insert(codes.end(), 6, kTwo);
    add("s", StorageType::f8_e4m3, {2, 2, 3}, codes);
  }
  Floats of(int index, bool inputs_first = false) {
    return values("s", place(index, inputs_first));
  }
  void refused(const std::vector<std::string>& texts) {
    expect_holds(refusal("s", place(1, false)), texts);
  }
  static StackedMatrix place(int index, bool inputs_first) {
    return {.count = 2, .index = index, .rows = 2, .cols = 3, .inputs_first = inputs_first};
  }
};

TEST_F(StacksInFp8, HaveScalesOfBlocksUnderAllNames) {
  say({{"quant_method", "fp8"}, {"weight_block_size", {1, 2}}});
  for (const char* name : {"s_scale_inv", "s_scale", "s_weight_scale"}) {
    stack();
    add(name, StorageType::f32, {2, 2, 2}, Floats{1, 2, 3, 4, 5, 6, 7, 8});
    EXPECT_EQ(of(0), (Floats{1, 1, 2, 3, 3, 4})) << name;
    EXPECT_EQ(of(1), (Floats{10, 10, 12, 14, 14, 16})) << name;
  }
}

TEST_F(StacksInFp8, HaveScalesOfOutputsWhicheverSideIsFirst) {
  say({{"quant_method", "fbgemm_fp8"}});
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{2, 2, 1}, std::vector<std::int64_t>{2, 1, 2}}) {
    stack();
    add("s_scale", StorageType::f32, shape, Floats{1, 2, 3, 4});
    EXPECT_EQ(of(0), (Floats{1, 1, 1, 2, 2, 2}));
    EXPECT_EQ(of(1), (Floats{6, 6, 6, 8, 8, 8}));
  }
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{2, 3, 1}, std::vector<std::int64_t>{2, 1, 3}}) {
    stack();
    add("s_scale", StorageType::f32, shape, Floats{1, 2, 3, 4, 5, 6});
    EXPECT_EQ(of(0, true), (Floats{1, 2, 3, 1, 2, 3}));
    EXPECT_EQ(of(1, true), (Floats{8, 10, 12, 8, 10, 12}));
    refused({"s_scale", "[2, 2, 1]"});
  }
}

TEST_F(StacksInFp8, HaveAScaleForEachMatrixOrOneForAll) {
  say({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}});
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{2}, std::vector<std::int64_t>{2, 1, 1}}) {
    stack();
    add("s_weight_scale", StorageType::f32, shape, Floats{3, 4});
    EXPECT_EQ(of(0), Floats(6, 3));
    EXPECT_EQ(of(1, true), Floats(6, 8));
  }
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{1}, std::vector<std::int64_t>{}}) {
    stack();
    add("s_weight_scale", StorageType::f32, shape, Floats{3});
    EXPECT_EQ(of(1), Floats(6, 6));
  }
}

TEST_F(StacksInFp8, OfOneLoaderAreEachPutTogether) {
  say({{"quant_method", "fp8"}});
  stack();
  add("s_scale_inv", StorageType::f32, {2}, Floats{3, 4});
  TensorLoader loader(folder_, *backend_, options_);
  for (const int index : {0, 1, 1, 0}) {
    const StoredMatrix matrix = loader.stored_matrix("s", place(index, false));
    Floats found(6);
    dequantize(matrix.type, matrix.bytes, found);
    EXPECT_EQ(found, Floats(6, index == 0 ? 3 : 8)) << index;
  }
}

TEST_F(StacksInFp8, WithoutScalesOrWithOthersAreRefused) {
  say({{"quant_method", "fp8"}, {"weight_block_size", {1, 2}}});
  stack();
  refused({"\"s\"", "found f8_e4m3"});
  add("s_scale_inv", StorageType::f32, {2, 2, 1}, Floats{1, 2, 3, 4});
  refused({"s_scale_inv", "[2, 2, 2]", "found [2, 2, 1]"});
  remove("s_scale_inv");
  add("s_scale_inv", StorageType::i32, {2, 2, 2}, std::vector<std::int32_t>(8, 1));
  refused({"s_scale_inv", "floating-point", "found i32"});
  remove("s_scale_inv");
  add("s_scale_inv", StorageType::f32, {2, 2, 2}, Floats{1, 1, 1, 1, 1, 1, 1, 3e38F});
  refused({"\"s\"", "3.4e38", "row 3 at column 2"});
  EXPECT_EQ(of(0), Floats(6, 1));
  remove("s");
  add("s", StorageType::f8_e4m3, {2, 3, 2}, Bytes(12, kOne));
  refused({"\"s\"", "[2, 2, 3]", "found [2, 3, 2]"});
  remove("s");
  add("s", StorageType::f8_e4m3, {2, 2, 3}, Bytes(12, kNan));
  refused({"\"s\"", "finite", "row 0"});
}

}  // namespace
}  // namespace talon::quantized_floats_test
