#include <gtest/gtest.h>

#include "io/checkpoint.h"
#include "io/formats/write_gguf.h"
#include "io/test_files.h"

namespace talon::split_gguf_test {
namespace {

using namespace test;

/// A model in three files of one tensor each.
class SplitGguf : public testing::Test {
 protected:
  std::filesystem::path file(int index) const {
    return folder_.path() / fmt::format("tiny-{:05}-of-00003.gguf", index + 1);
  }
  void write(int index, unsigned number, unsigned count, unsigned tensors = 3,
             const std::string& name = "t") {
    const std::vector<float> values = {1.0F + static_cast<float>(index), 2};
    const TensorToWrite tensor{
        name + std::to_string(index), StorageType::f32, {2}, std::as_bytes(std::span(values))};
    write_gguf(file(index),
               {{"general.architecture", "llama"},
                {"split.no", number},
                {"split.count", count},
                {"split.tensors.count", tensors}},
               {&tensor, 1});
  }
  std::string refusal(int index = 0) const {
    return message_of([&] { open_checkpoint(file(index)); });
  }

  TemporaryFolder folder_;
};

TEST_F(SplitGguf, FilesAreReadAsOne) {
  for (unsigned i = 0; i < 3; ++i) write(static_cast<int>(i), i, 3);
  const Checkpoint whole = open_checkpoint(file(0));
  ASSERT_EQ(whole.tensors.size(), 3U);
  EXPECT_EQ(whole.files.size(), 3U);
  float value = 0;
  dequantize(StorageType::f32, whole.require("t2").bytes.first(4), {&value, 1});
  EXPECT_EQ(value, 3.0F);
}

TEST_F(SplitGguf, WhatDoesNotBelongTogetherIsRefused) {
  for (unsigned i = 0; i < 3; ++i) write(static_cast<int>(i), i, 3);
  EXPECT_NE(refusal(1).find("the first of 3"), std::string::npos) << refusal(1);
  write(2, 1, 3);
  EXPECT_NE(refusal().find("file 3 of 3"), std::string::npos) << refusal();
  write(2, 2, 4);
  EXPECT_NE(refusal().find("file 3 of 3"), std::string::npos) << refusal();
  write(2, 2, 3);
  write(0, 0, 3, 7);
  EXPECT_NE(refusal().find("7 tensors"), std::string::npos) << refusal();
  write(0, 0, 100000000);
  EXPECT_NE(refusal().find("split.count"), std::string::npos) << refusal();
  write(0, 0, 99999);
  EXPECT_NE(refusal().find("the first of 99999"), std::string::npos) << refusal();
  std::filesystem::remove(file(2));
  write(0, 0, 3);
  EXPECT_NE(refusal().find("00003-of-00003"), std::string::npos) << refusal();
}

TEST_F(SplitGguf, ACountThatIsATextOfAnyBytesIsRefused) {
  GgufParts parts = small_gguf();
  parts.add_text("split.count", "\xFF");
  const auto path = folder_.add("text.gguf", parts.build().bytes);
  const std::string said = message_of([&] { open_checkpoint(path); });
  EXPECT_NE(said.find("\"split.count\": expected a number of at most"), std::string::npos) << said;
}

}  // namespace
}  // namespace talon::split_gguf_test
