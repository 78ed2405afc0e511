#include <gtest/gtest.h>

#include "io/parse.h"
#include "io/test_files.h"

namespace talon::gguf_test {
namespace {

using namespace test;

std::string refusal(const GgufParts& parts) {
  const TestFile file = parts.build();
  return message_of([&] { parse_gguf(bytes_of(file.bytes), "x.gguf"); });
}

TEST(Gguf, ReadsEveryValueType) {
  const TestFile file = small_gguf().build();
  const Checkpoint checkpoint = parse_gguf(bytes_of(file.bytes), "x.gguf");
  const Json& metadata = checkpoint.metadata;
  EXPECT_EQ(metadata["general.architecture"], "llama");
  EXPECT_EQ(metadata["u8"], 200);
  EXPECT_EQ(metadata["i8"], -100);
  EXPECT_EQ(metadata["u16"], 60000);
  EXPECT_EQ(metadata["i16"], -30000);
  EXPECT_EQ(metadata["u32"], 4000000000u);
  EXPECT_EQ(metadata["i32"], -2000000000);
  EXPECT_EQ(metadata["f32"], 1.5);
  EXPECT_EQ(metadata["bool"], true);
  EXPECT_EQ(metadata["u64"], std::uint64_t{1} << 63);
  EXPECT_EQ(metadata["i64"], -(std::int64_t{1} << 62));
  EXPECT_EQ(metadata["f64"], 0.1);
  EXPECT_EQ(metadata["texts"][0], "\xC4\xA0the");
  EXPECT_EQ(metadata["texts"][1], std::string("\xFF\0", 2)) << "texts are kept as raw bytes";
  EXPECT_EQ(metadata["nested"], Json({{0, 7}, {1, 7}}));
  EXPECT_EQ(metadata.size(), 14u);
}

TEST(Gguf, GivesShapesOutermostFirstAndTheBytesOfEachTensor) {
  const TestFile file = small_gguf().build();
  const Checkpoint checkpoint = parse_gguf(bytes_of(file.bytes), "x.gguf");
  ASSERT_EQ(checkpoint.tensors.size(), 3u);
  const StoredTensor& f32 = checkpoint.require("f32");
  EXPECT_EQ(f32.shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(f32.bytes.size(), 24u);
  const StoredTensor& q4_1 = checkpoint.require("q4_1");
  EXPECT_EQ(q4_1.type, StorageType::q4_1);
  EXPECT_EQ(q4_1.shape, (std::vector<std::int64_t>{2, 32}));
  EXPECT_EQ(q4_1.bytes.data() - f32.bytes.data(), 32);
  const StoredTensor& f16 = checkpoint.require("f16");
  EXPECT_EQ(reinterpret_cast<const char*>(f16.bytes.data()) + 10,
            file.bytes.data() + file.bytes.size());
}

TEST(Gguf, HonoursTheAlignmentKey) {
  GgufParts parts;
  parts.add_value<std::uint32_t>("general.alignment", 4, 256);
  parts.alignment = 256;
  parts.tensors = {{"a", {1}, 0, 0}, {"b", {1}, 0, 256}};
  parts.data = test_data(260);
  const TestFile file = parts.build();
  const Checkpoint checkpoint = parse_gguf(bytes_of(file.bytes), "x.gguf");
  EXPECT_EQ(reinterpret_cast<const char*>(checkpoint.require("a").bytes.data()) - file.bytes.data(),
            256);
  parts.tensors[1].offset = 32;
  EXPECT_EQ(
      refusal(parts),
      "read GGUF \"x.gguf\": tensor \"b\": expected an offset that is a multiple of 256, found 32");
}

TEST(Gguf, RefusesAnAlignmentThatIsNoPowerOfTwo) {
  GgufParts parts;
  parts.add_value<std::uint32_t>("general.alignment", 4, 48);
  EXPECT_NE(refusal(parts).find("expected a power of two"), std::string::npos);
  GgufParts zero;
  zero.add_value<std::uint32_t>("general.alignment", 4, 0);
  EXPECT_NE(refusal(zero).find("expected a power of two"), std::string::npos);
}

TEST(Gguf, RefusesOtherVersionsAndByteOrders) {
  GgufParts parts;
  parts.version = 1;
  EXPECT_EQ(refusal(parts), "read GGUF \"x.gguf\": expected version 2 or 3, found 1");
  parts.version = 0x03000000;
  EXPECT_EQ(refusal(parts),
            "read GGUF \"x.gguf\": expected a little-endian file, found a big-endian one");
  parts.version = 2;
  EXPECT_EQ(refusal(parts), "no error");
}

TEST(Gguf, RefusesCountsThatTheFileCannotHold) {
  GgufParts parts;
  parts.add_array("x", 8, std::uint64_t{1} << 60);
  EXPECT_NE(refusal(parts).find("expected 1152921504606846976 array elements"), std::string::npos);
  GgufParts text;
  text.add_key("x", 8);
  text.values.put<std::uint64_t>("size", ~std::uint64_t{0});
  EXPECT_NE(refusal(text).find("expected 18446744073709551615 bytes of x"), std::string::npos);
}

TEST(Gguf, RefusesArraysNestedTooDeep) {
  GgufParts parts;
  parts.add_array("x", 9, 1);
  for (int depth = 0; depth < 20; ++depth) {
    parts.values.put<std::uint32_t>("type", 9);
    parts.values.put<std::uint64_t>("count", 1);
  }
  EXPECT_EQ(
      refusal(parts),
      "read GGUF \"x.gguf\": key \"x\": expected at most 8 arrays within each other, found more");
}

TEST(Gguf, RefusesMoreArrayElementsThanAnyVocabularyHas) {
  const auto array_of = [](GgufParts& parts, const std::string& key, std::uint64_t count) {
    parts.add_array(key, 0, count);
    parts.values.put_text(std::string(count, '\1'));
  };
  GgufParts parts;
  array_of(parts, "x", 1 << 23);
  array_of(parts, "y", 1 << 23);
  EXPECT_EQ(refusal(parts), "no error");
  array_of(parts, "z", 1);
  EXPECT_EQ(refusal(parts),
            "read GGUF \"x.gguf\": key \"z\": expected at most 16777216 elements in all arrays, "
            "found more");
}

TEST(Gguf, RefusesBooleansOtherThanZeroAndOne) {
  GgufParts parts;
  parts.add_value<std::uint8_t>("x", 7, 2);
  EXPECT_EQ(refusal(parts), "read GGUF \"x.gguf\": key \"x\": expected a boolean, 0 or 1, found 2");
}

TEST(Gguf, RefusesKeysTensorsAndBytesUsedTwice) {
  GgufParts keys;
  keys.add_text("x", "");
  keys.add_text("x", "");
  EXPECT_EQ(refusal(keys), "read GGUF \"x.gguf\": key \"x\": found twice");
  GgufParts names = small_gguf();
  names.tensors[2].name = "f32";
  EXPECT_EQ(refusal(names),
            "read GGUF \"x.gguf\": tensor \"f32\": expected one of that name, found two");
  GgufParts overlap = small_gguf();
  overlap.tensors[2].offset = 64;
  EXPECT_EQ(
      refusal(overlap),
      "read GGUF \"x.gguf\": tensor \"f16\": expected bytes of its own, found bytes shared with "
      "\"q4_1\"");
}

TEST(Gguf, RefusesTypesItDoesNotReadByNumberAndName) {
  GgufParts parts = small_gguf();
  parts.tensors[0].type = 41;
  EXPECT_EQ(
      refusal(parts),
      "read GGUF \"x.gguf\": tensor \"f32\": expected a tensor type this program reads, found 41 "
      "(Q1_0)");
  parts.tensors[0].type = 4;
  EXPECT_NE(refusal(parts).find("found 4 (unknown)"), std::string::npos);
}

TEST(Gguf, RefusesShapesThatDoNotFitTypeOrFile) {
  GgufParts parts = small_gguf();
  parts.tensors[1].dimensions = {33, 2};
  EXPECT_NE(refusal(parts).find("expected rows of whole q4_1 blocks"), std::string::npos);
  parts.tensors[1].dimensions = {32, 1000};
  EXPECT_NE(refusal(parts).find("expected 20000 bytes at offset 32 of the data"),
            std::string::npos);
  parts.tensors[1].dimensions = {std::uint64_t{1} << 40, std::uint64_t{1} << 40};
  EXPECT_NE(refusal(parts).find("less than 2^63 bytes"), std::string::npos);
  parts.tensors[1].dimensions = {0};
  EXPECT_NE(refusal(parts).find("expected dimensions from 1"), std::string::npos);
  parts.tensors[1].dimensions = {32, 1, 1, 1, 1};
  EXPECT_NE(refusal(parts).find("expected 1 to 4 dimensions, found 5"), std::string::npos);
}

TEST(Gguf, ShowsHostileNamesEscaped) {
  GgufParts parts = small_gguf();
  parts.tensors[0].name = "\x1B[31m";
  parts.tensors[0].type = 99;
  EXPECT_NE(refusal(parts).find(R"(tensor "\x1b[31m")"), std::string::npos);
}

}  // namespace
}  // namespace talon::gguf_test
