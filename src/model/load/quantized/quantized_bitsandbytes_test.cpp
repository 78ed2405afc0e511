#include "model/load/quantized/quantized_floats.h"
#include "model/load/test_folder.h"

namespace talon::quantized_bitsandbytes_test {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Floats = std::vector<float>;

constexpr const char* kState = "a.weight.quant_state.bitsandbytes__nf4";

/// A matrix [3, 3] whose codes are 0 to 8, in blocks of 4 values.
class TableCodes : public FolderOfParts {
 protected:
  void SetUp() override {
    say({{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}});
    add("a.weight", StorageType::u8, {5, 1}, Bytes{0x01, 0x23, 0x45, 0x67, 0x80});
    Floats table(16);
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i) - 4;
    add("a.weight.quant_map", StorageType::f32, {16}, table);
    add("a.weight.absmax", StorageType::f32, {3}, Floats{1, 2, 0.5F});
    state();
  }
  /// Scales of blocks become codes of a table, with a scale for each two and an offset.
  void nest() {
    remove("a.weight.absmax");
    add("a.weight.absmax", StorageType::u8, {3}, Bytes{0, 255, 7});
    Floats table(256);
    table[0] = -1;
    table[255] = 1;
    table[7] = 0.25F;
    add("a.weight.nested_quant_map", StorageType::f32, {256}, table);
    add("a.weight.nested_absmax", StorageType::f32, {2}, Floats{0.5F, 2});
    state_["nested_blocksize"] = 2;
    state_["nested_dtype"] = "float32";
    state_["nested_offset"] = 1.5;
    state();
  }
  void state() { state(state_.dump()); }
  void state(const std::string& text) {
    remove(kState);
    add_text(kState, text);
  }
  void refused(const std::vector<std::string>& texts) { expect_refused(3, 3, texts); }

  Json state_ = {{"quant_type", "nf4"}, {"blocksize", 4}, {"dtype", "float32"}, {"shape", {3, 3}}};
};

TEST_F(TableCodes, AreScaledInBlocksThatRunAcrossRows) {
  EXPECT_EQ(values(3, 3), (Floats{-4, -3, -2, -1, 0, 2, 4, 6, 2}));
}

TEST_F(TableCodes, MayHaveScalesThatAreCodesThemselves) {
  nest();
  EXPECT_EQ(values(3, 3), (Floats{-4, -3, -2, -1, 0, 2, 4, 6, 8}));
}

TEST_F(TableCodes, MayBeOfTheOtherTable) {
  tensor(kState).name = "a.weight.quant_state.bitsandbytes__fp4";
  EXPECT_EQ(values(3, 3)[0], -4);
}

TEST_F(TableCodes, AreRoundedToTheTypeOfTheState) {
  remove("a.weight.absmax");
  add("a.weight.absmax", StorageType::f32, {3}, Floats{1 + 0x1p-9F, 1 + 0x1p-12F, 1});
  EXPECT_EQ(values(3, 3)[0], -4 - 0x1p-7F);
  state_["dtype"] = "float16";
  state();
  EXPECT_EQ(values(3, 3)[0], -4 - 0x1p-7F);
  EXPECT_EQ(values(3, 3)[5], 1);
  state_["dtype"] = "bfloat16";
  state();
  EXPECT_EQ(values(3, 3)[0], -4);
  state_["dtype"] = "float64";
  state();
  refused({kState, "dtype", "float64"});
  state_["dtype"] = "float16";
  state();
  remove("a.weight.absmax");
  add("a.weight.absmax", StorageType::f32, {3}, Floats{1, 70000, 1});
  refused({"a.weight", "row 1 at column 2"});
}

TEST_F(TableCodes, WithABadStateAreRefused) {
  const std::string good = state_.dump();
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[1]"), std::string("\"nf4\""),
        std::string(5, '\0'), good + "}", good.substr(0, good.size() - 1)}) {
    state(text);
    refused({kState, "expected"});
  }
  const std::pair<const char*, Json> values_of[] = {
      {"blocksize", 0},       {"blocksize", -4},   {"blocksize", 1e9}, {"blocksize", "four"},
      {"blocksize", nullptr}, {"shape", {3, 4}},   {"shape", {9, 1}},  {"shape", {3}},
      {"shape", nullptr},     {"shape", {-3, -3}}, {"dtype", nullptr}, {"dtype", 3}};
  for (const auto& [key, value] : values_of) {
    Json bad = state_;
    bad[key] = value;
    state(bad.dump());
    refused({kState, key, "expected", "found"});
  }
}

TEST_F(TableCodes, WithABadStateOfNestedScalesAreRefused) {
  nest();
  const std::pair<const char*, Json> values_of[] = {
      {"nested_blocksize", 0},   {"nested_blocksize", nullptr}, {"nested_blocksize", 1000000},
      {"nested_offset", "much"}, {"nested_offset", 1e300},      {"nested_offset", nullptr}};
  for (const auto& [key, value] : values_of) {
    Json bad = state_;
    bad[key] = value;
    state(bad.dump());
    refused({kState, key, "expected", "found"});
  }
  state_["nested_blocksize"] = 1;
  state();
  refused({"a.weight.nested_absmax", "[3]", "found [2]"});
}

TEST_F(TableCodes, ThatAreMissingOrOfAnotherShapeAreRefused) {
  nest();
  const auto without = [&](const std::string& name) {
    const std::string plain = tensor(name).name;
    tensor(name).name = "b";
    refused({name});
    tensor("b").name = plain;
  };
  for (const char* part : {"", ".quant_map", ".nested_quant_map"}) {
    without(std::string("a.weight") + part);
  }
  without(kState);
  const std::pair<const char*, std::vector<std::int64_t>> shapes[] = {
      {"a.weight", {1, 5}},
      {"a.weight.quant_map", {4, 4}},
      {"a.weight.absmax", {3, 1}},
      {"a.weight.nested_quant_map", {16, 16}},
      {"a.weight.nested_absmax", {1, 2}},
      {kState, {1, 1}}};
  for (const auto& [name, shape] : shapes) {
    const auto before = tensor(name).shape;
    tensor(name).shape = shape;
    refused({name, "expected [", "found ["});
    tensor(name).shape = before;
  }
  remove("a.weight.absmax");
  add("a.weight.absmax", StorageType::u8, {2}, Bytes{0, 0});
  refused({"a.weight.absmax", "[3]", "found [2]"});
  remove("a.weight.nested_absmax");  // its codes are no scales
  refused({"a.weight.absmax"});
}

TEST_F(TableCodes, WithNumbersThatAreNoneAreRefused) {
  remove("a.weight.absmax");
  add("a.weight.absmax", StorageType::f32, {3},
      Floats{1, std::numeric_limits<float>::quiet_NaN(), 1});
  refused({"a.weight.absmax", "finite"});
  remove("a.weight.absmax");
  add("a.weight.absmax", StorageType::f32, {3}, Floats{1, 3e38F, 1});
  refused({"a.weight", "3.4e38", "row 2 at column 0"});
}

class ScaledBytes : public FolderOfParts {
 protected:
  void SetUp() override {
    say({{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}});
    add("a.weight", StorageType::i8, {2, 2}, std::vector<std::int8_t>{127, -127, 0, 64});
    add("a.SCB", StorageType::f32, {2}, Floats{254, 127});
  }
};

TEST_F(ScaledBytes, HaveWhatTheLargestCodeStandsForBesideThem) {
  EXPECT_EQ(values(2, 2), (Floats{254, -254, 0, 64}));
  add("a.weight_format", StorageType::u8, {}, Bytes{0});
  EXPECT_EQ(values(2, 2), (Floats{254, -254, 0, 64}));
}

TEST_F(ScaledBytes, InAnotherOrderOrShapeAreRefused) {
  add("a.weight_format", StorageType::u8, {}, Bytes{2});
  expect_refused(2, 2, {"a.weight_format", "found 2"});
  remove("a.weight_format");
  tensor("a.SCB").shape = {2, 1};
  expect_refused(2, 2, {"a.SCB", "expected [2]", "found [2, 1]"});
  remove("a.SCB");
  expect_refused(2, 2, {"a.weight", "found i8"});
  add("a.SCB", StorageType::f32, {2}, Floats{1, 1});
  tensor("a.weight").type = StorageType::u8;
  expect_refused(2, 2, {"a.weight", "expected i8, found u8"});
}

}  // namespace
}  // namespace talon::quantized_bitsandbytes_test
