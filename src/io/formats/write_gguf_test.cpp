#include "io/formats/write_gguf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "io/quant/quantize.h"
#include "io/test_files.h"

namespace talon::write_gguf_test {
namespace {

using test::message_of;

class WriteGguf : public ::testing::Test {
 protected:
  test::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "written.gguf";
};

TEST_F(WriteGguf, IsReadAgainAsItWas) {
  const GgufMetadata metadata = {{"general.architecture", "llama"},
                                 {"text", std::string("\xFF\0x", 3)},
                                 {"yes", true},
                                 {"real", 1.5},
                                 {"signed", -3},
                                 {"unsigned", 4000000000U},
                                 {"large", std::numeric_limits<std::uint64_t>::max()},
                                 {"negative", std::numeric_limits<std::int64_t>::min()},
                                 {"texts", {"a", ""}},
                                 {"numbers", {1, -2, 3}},
                                 {"wide numbers", {1, -2, std::int64_t{1} << 40}},
                                 {"nothing", Json::array()}};
  const std::vector<float> floats = {1, -2, 3.25, 4, 5, 6};
  std::vector<float> wide(64);
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<float>(i) - 31.5F;
  const std::vector<std::byte> quantised = quantize_q8_0(wide);
  const std::vector<std::int64_t> ids = {7, 9};
  const std::vector<TensorToWrite> tensors = {
      {"floats", StorageType::f32, {3, 2}, std::as_bytes(std::span(floats))},
      {"quantised", StorageType::q8_0, {2, 32}, quantised},
      {"ids", StorageType::i64, {2}, std::as_bytes(std::span(ids))}};
  write_gguf(file_, metadata, tensors);
  const Checkpoint read = open_checkpoint(file_);
  ASSERT_EQ(read.metadata.size(), metadata.size());
  for (const auto& [key, value] : metadata) EXPECT_EQ(read.metadata[key], value) << key;
  EXPECT_TRUE(read.metadata["signed"].is_number_integer());
  EXPECT_TRUE(read.metadata["unsigned"].is_number_unsigned());
  ASSERT_EQ(read.tensors.size(), tensors.size());
  for (const TensorToWrite& tensor : tensors) {
    const StoredTensor& stored = read.require(tensor.name);
    EXPECT_EQ(stored.type, tensor.type);
    EXPECT_EQ(stored.shape, tensor.shape);
    EXPECT_TRUE(std::ranges::equal(stored.bytes, tensor.bytes)) << tensor.name;
  }
}

TEST_F(WriteGguf, RefusesWhatGgufDoesNotHoldByItsKey) {
  const auto refusal = [&](const Json& value) {
    return message_of([&] { write_gguf(file_, {{"a key", value}}, {}); });
  };
  EXPECT_NE(refusal(nullptr).find("key \"a key\""), std::string::npos) << refusal(nullptr);
  EXPECT_NE(refusal(Json::object()).find("found object"), std::string::npos);
  EXPECT_NE(refusal({1, "a"}).find("several types"), std::string::npos);
  EXPECT_NE(refusal(Json::array({Json::array()})).find("within an array"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(file_));
}

}  // namespace
}  // namespace talon::write_gguf_test
