#include <gtest/gtest.h>

#include "io/parse.h"
#include "io/test_files.h"

namespace talon::safetensors_test {
namespace {

using namespace test;

std::string header_refusal(std::string_view header, std::size_t data_bytes = 8) {
  const std::string data = test_data(data_bytes);
  const TestFile file = safetensors_file(header, data);
  return message_of([&] { parse_safetensors(bytes_of(file.bytes), "x.safetensors"); });
}

TEST(Safetensors, GivesTensorsInFileOrder) {
  const TestFile file = small_safetensors();
  const Checkpoint checkpoint = parse_safetensors(bytes_of(file.bytes), "x.safetensors");
  ASSERT_EQ(checkpoint.tensors.size(), 3u);
  EXPECT_EQ(checkpoint.tensors[0].name, "a");
  EXPECT_EQ(checkpoint.tensors[0].shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(checkpoint.tensors[1].type, StorageType::bf16);
  EXPECT_EQ(checkpoint.tensors[2].name, "scalar");
  EXPECT_TRUE(checkpoint.tensors[2].shape.empty());
  EXPECT_EQ(checkpoint.tensors[2].bytes.size(), 8u);
  EXPECT_EQ(checkpoint.metadata, Json({{"format", "pt"}}));
}

TEST(Safetensors, AcceptsTensorsWithoutElementsAndNoTensorsAtAll) {
  EXPECT_EQ(header_refusal(R"({"a":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]}})", 0),
            "no error");
  EXPECT_EQ(header_refusal("{}", 0), "no error");
  EXPECT_EQ(header_refusal("{}   ", 0), "no error") << "headers are padded with spaces";
}

/// MLX's groups of weights are such: the folder opens, and its configuration tells what it is.
TEST(Safetensors, TakesWholeNumbersWithoutASign) {
  EXPECT_EQ(header_refusal(R"({"a":{"dtype":"U16","shape":[4],"data_offsets":[0,8]}})"),
            "no error");
  EXPECT_EQ(header_refusal(R"({"a":{"dtype":"U32","shape":[2],"data_offsets":[0,8]}})"),
            "no error");
  EXPECT_EQ(header_refusal(R"({"a":{"dtype":"U64","shape":[1],"data_offsets":[0,8]}})"),
            "no error");
}

TEST(Safetensors, RefusesGapsOverlapsAndLeftOvers) {
  EXPECT_EQ(
      header_refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
      "read safetensors \"x.safetensors\": tensor \"a\": expected its data to begin at offset 0, "
      "where the one before ends, found 4");
  EXPECT_NE(header_refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                           R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})")
                .find("tensor \"b\": expected its data to begin at offset 4"),
            std::string::npos);
  EXPECT_NE(header_refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})")
                .find("expected 4 bytes of data, found 8"),
            std::string::npos);
}

TEST(Safetensors, RefusesSizesThatDoNotFit) {
  EXPECT_EQ(
      header_refusal(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})"),
      "read safetensors \"x.safetensors\": tensor \"a\": expected 12 bytes for f32 [3], found 8");
  EXPECT_NE(header_refusal(
                R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})")
                .find("expected more than 2^63 bytes for f32 [4294967296, 4294967296]"),
            std::string::npos);
  EXPECT_NE(header_refusal(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})")
                .find("expected ascending data_offsets up to 8, found 0 and 12"),
            std::string::npos);
  EXPECT_NE(header_refusal(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}})")
                .find("expected dimensions from 0"),
            std::string::npos);
  EXPECT_NE(header_refusal(R"({"a":{"dtype":"F32","shape":[1e0],"data_offsets":[0,8]}})")
                .find("expected dimensions from 0"),
            std::string::npos);
}

TEST(Safetensors, RefusesDuplicateKeys) {
  EXPECT_EQ(header_refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                           R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
            "read safetensors \"x.safetensors\": key \"a\": found twice");
}

TEST(Safetensors, RefusesOtherTypesAndMissingKeysByName) {
  EXPECT_NE(header_refusal(R"({"a":{"dtype":"F8_E5M2","shape":[8],"data_offsets":[0,8]}})")
                .find("found \"F8_E5M2\""),
            std::string::npos);
  EXPECT_NE(header_refusal(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})")
                .find("tensor \"a\": expected the key \"shape\", found none"),
            std::string::npos);
  EXPECT_NE(header_refusal(R"({"a":7})").find("expected an object, found number"),
            std::string::npos);
  EXPECT_NE(header_refusal(R"({"__metadata__":{"n":7}})", 0).find("expected an object of texts"),
            std::string::npos);
}

TEST(Safetensors, RefusesHeadersThatAreNoJsonObject) {
  EXPECT_NE(header_refusal("[]", 0).find("expected an object as header, found array"),
            std::string::npos);
  EXPECT_NE(header_refusal("{\"a\":", 0).find("expected JSON text"), std::string::npos);
  EXPECT_NE(header_refusal("{\"\xFF\":1}", 0).find("expected JSON text"), std::string::npos);
  EXPECT_NE(header_refusal(std::string(100000, '['), 0).find("values within each other"),
            std::string::npos);
}

TEST(Safetensors, RefusesHeadersOfMoreValuesThanTensorsNeed) {
  std::string header = "[";
  for (int i = 0; i < 4'000'000; ++i) header += "[],";
  EXPECT_EQ(header_refusal(header + "[]]", 0),
            "read safetensors \"x.safetensors\": expected at most 4000000 values, found more");
}

TEST(Safetensors, RefusesHeaderSizesBeyondFileAndLimit) {
  TestFile file = small_safetensors();
  const std::uint64_t too_large = 100'000'001;
  std::memcpy(file.bytes.data(), &too_large, 8);
  EXPECT_EQ(
      message_of([&] { parse_safetensors(bytes_of(file.bytes), "x"); }),
      "read safetensors \"x\": expected a header of at most 100000000 bytes, found 100000001");
  const std::uint64_t beyond = 1000;
  std::memcpy(file.bytes.data(), &beyond, 8);
  EXPECT_NE(message_of([&] {
              parse_safetensors(bytes_of(file.bytes), "x");
            }).find("expected 1000 bytes of the header"),
            std::string::npos);
}

}  // namespace
}  // namespace talon::safetensors_test
