#include <gtest/gtest.h>

#include "io/parse.h"
#include "io/test_files.h"

namespace talon::llama2c_test {
namespace {

using namespace test;

std::string refusal(std::string_view bytes) {
  return message_of([&] { parse_llama2c(bytes_of(bytes), "x.bin"); });
}

std::string with_field(std::size_t index, std::int32_t value) {
  std::string bytes = small_llama2c().bytes;
  std::memcpy(bytes.data() + 4 * index, &value, 4);
  return bytes;
}

TEST(Llama2c, NamesTheTensorsAsGgufDoes) {
  const TestFile file = small_llama2c();
  const Checkpoint checkpoint = parse_llama2c(bytes_of(file.bytes), "x.bin");
  EXPECT_EQ(checkpoint.tensors.size(), 1 + 9 * 2 + 1 + 1u);
  const auto offset_of = [&](std::string_view name) {
    const auto* begin = reinterpret_cast<const char*>(checkpoint.require(name).bytes.data());
    return (begin - file.bytes.data() - 28) / 4;
  };
  EXPECT_EQ(offset_of("token_embd.weight"), 0);
  EXPECT_EQ(offset_of("blk.1.attn_norm.weight"), 40 + 8);
  EXPECT_EQ(offset_of("blk.0.attn_q.weight"), 56);
  EXPECT_EQ(offset_of("blk.1.attn_k.weight"), 56 + 128 + 32);
  EXPECT_EQ(offset_of("blk.0.ffn_norm.weight"), 56 + 128 + 64 + 64 + 128);
  EXPECT_EQ(offset_of("blk.0.ffn_gate.weight"), 456);
  EXPECT_EQ(offset_of("blk.0.ffn_down.weight"), 456 + 96);
  EXPECT_EQ(offset_of("blk.0.ffn_up.weight"), 456 + 192);
  EXPECT_EQ(offset_of("output_norm.weight"), 744);
  EXPECT_EQ(offset_of("output.weight"), 744 + 8 + 6) << "behind the tables of cos and sin";
  EXPECT_EQ(checkpoint.require("blk.0.attn_k.weight").shape, (std::vector<std::int64_t>{4, 8}));
  EXPECT_EQ(checkpoint.require("blk.0.ffn_down.weight").shape, (std::vector<std::int64_t>{8, 6}));
  EXPECT_EQ(checkpoint.metadata["vocab_size"], 5);
  EXPECT_EQ(checkpoint.metadata["n_kv_heads"], 2);
}

TEST(Llama2c, HasNoOutputMatrixWhenTheEmbeddingServes) {
  const TestFile file = small_llama2c(false);
  const Checkpoint checkpoint = parse_llama2c(bytes_of(file.bytes), "x.bin");
  EXPECT_EQ(checkpoint.find("output.weight"), nullptr);
  EXPECT_EQ(checkpoint.metadata["vocab_size"], 5);
}

TEST(Llama2c, RefusesHeadersThatMakeNoSense) {
  EXPECT_EQ(refusal(with_field(0, 0)),
            "read llama2.c checkpoint \"x.bin\": field dim: expected a positive number, found 0");
  EXPECT_NE(refusal(with_field(0, 12)).find("expected an even multiple of n_heads 4, found 12"),
            std::string::npos);
  EXPECT_NE(refusal(with_field(4, 3)).find("expected a divisor of n_heads 4, found 3"),
            std::string::npos);
  EXPECT_NE(refusal(with_field(5, 0)).find("field vocab_size"), std::string::npos);
}

TEST(Llama2c, RefusesAFileOfAnotherSizeThanTheHeaderSays) {
  EXPECT_EQ(
      refusal(with_field(6, 4)),
      "read llama2.c checkpoint \"x.bin\": expected 3228 bytes as its header says, found 3220");
  EXPECT_NE(refusal(small_llama2c().bytes + "x").find("expected 3220 bytes"), std::string::npos);
  EXPECT_NE(refusal(with_field(2, 0x7FFFFFFF)).find("bytes as its header says"), std::string::npos);
}

TEST(Llama2c, ReadsStories260K) {
  const Checkpoint checkpoint = read_llama2c(TALON_TEST_DATA "/models/stories260K.bin");
  EXPECT_EQ(checkpoint.tensors.size(), 47u);
  EXPECT_EQ(checkpoint.metadata["n_layers"], 5);
}

}  // namespace
}  // namespace talon::llama2c_test
