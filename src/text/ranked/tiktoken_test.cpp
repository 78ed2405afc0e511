#include "text/ranked/tiktoken.h"

#include <gtest/gtest.h>

#include "io/test_files.h"
#include "text/gguf/write_tokenizer.h"
#include "text/ranked/test_ranks.h"

namespace talon::tiktoken_test {
namespace {

using Ids = std::vector<TokenId>;

constexpr TokenId kRanks = 261;

/// Ranks 256 to 260: "bc", "ab", "abc", the last byte of U+4E2D with an "a", U+00E9.
std::string ranks() {
  std::string lines;
  int rank = 0;
  for (const std::string& token : test::ranked_tokens({"bc", "ab", "abc", "\xAD\x61", "\u00e9"})) {
    lines += fmt::format("{} {}\n", test::base64_of(token), rank++);
  }
  return lines;
}

std::string refusal(const test::TemporaryFolder& folder) {
  return test::message_of([&] { test::load_folder(folder.path()); });
}

std::string refusal(std::string_view lines) {
  return test::message_of([&] { parse_tiktoken(lines, "load x"); });
}

TEST(Tiktoken, LinesMayComeInAnyOrder) {
  const std::vector<std::string> expected = {"a", "b"};
  EXPECT_EQ(parse_tiktoken("YQ== 0\nYg== 1\n", "load"), expected);
  EXPECT_EQ(parse_tiktoken("Yg== 1\r\n\r\nYQ== 0", "load"), expected);
}

TEST(Tiktoken, LinesThatSayNothingAreNamed) {
  for (const char* line : {"YQ== x", "YQ==", "YQ== ", "YQ== -1", "YQ== 1 ", "YQ 0", "? 0", " 0",
                           "YQ==  0", "YQ== 99999999999999999999"}) {
    const std::string message = refusal(std::string("Yg== 0\n") + line);
    EXPECT_EQ(message.find("load x: line 2: expected a token in base64"), 0U) << message;
  }
  EXPECT_EQ(refusal("YQ== 0\n\nYg== 0"),
            "load x: line 3: expected a new rank, found 0 as in line 1");
  EXPECT_EQ(refusal("YQ== 0\nYg== 2"),
            "load x: line 2: expected a rank below 2, the number of tokens, found 2");
}

TEST(Tiktoken, Llama3sTokenizerModelIsRead) {
  const test::TemporaryFolder folder;
  folder.add("tokenizer.model", ranks());
  folder.add("config.json", R"({"model_type": "llama", "vocab_size": 517})");
  const Tokenizer tokenizer = test::load_folder(folder.path());
  EXPECT_EQ(tokenizer.kind(), "byte-level BPE");
  EXPECT_EQ(tokenizer.vocabulary_size(), 517);
  EXPECT_EQ(tokenizer.encode("abc xabc", {.add_start = true}), (Ids{kRanks, 258, ' ', 'x', 258}));
  EXPECT_EQ(tokenizer.encode("\u4e2da"), (Ids{0xE4, 0xB8, 259}));
  EXPECT_EQ(tokenizer.encode("ab<|eot_id|>"), (Ids{257, kRanks + 9}));
  EXPECT_EQ(tokenizer.piece_of(516), "<|reserved_special_token_247|>");
  EXPECT_EQ(tokenizer.end_tokens(), (Ids{kRanks + 1, kRanks + 9, kRanks + 8}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("abc \u00e9\u4e2d\n")), "abc \u00e9\u4e2d\n");
  folder.add("config.json", R"({"model_type": "llama", "vocab_size": 600})");
  EXPECT_NE(refusal(folder).find("expected the 600 tokens of config.json"), std::string::npos);
}

TEST(Tiktoken, TheFolderNamesSpecialTokens) {
  const test::TemporaryFolder folder;
  folder.add("tokenizer.model", ranks());
  folder.add("config.json", R"({"model_type": "llama"})");
  folder.add("tokenizer_config.json",
             R"({"added_tokens_decoder": {"269": {"content": "<|reserved_special_token_3|>"},
                                          "520": {"content": "<|mine|>", "special": false}}})");
  const Tokenizer tokenizer = test::load_folder(folder.path());
  EXPECT_EQ(tokenizer.encode("<|reserved_special_token_3|><|mine|>"), (Ids{269, 520}));
  EXPECT_EQ(tokenizer.piece_of(272), "");  // of that name otherwise
  EXPECT_FALSE(tokenizer.is_special(520));
  folder.add("tokenizer_config.json", R"({"added_tokens_decoder": {"5": {"content": "<x>"}}})");
  EXPECT_NE(refusal(folder).find("added token \"<x>\""), std::string::npos);
}

TEST(Tiktoken, KimisTiktokenModelIsCutAtHan) {
  const test::TemporaryFolder folder;
  folder.add("tiktoken.model", ranks());
  folder.add("config.json", R"({"model_type": "deepseek_v3"})");
  folder.add("tokenizer_config.json",
             R"({"tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]",
                 "eos_token": "[EOS]", "added_tokens_decoder": {
                   "261": {"content": "[BOS]", "special": true},
                   "262": {"content": "[EOS]", "special": true},
                   "263": {"content": "<|tool|>", "special": false}}})");
  const Tokenizer tokenizer = test::load_folder(folder.path());
  EXPECT_EQ(tokenizer.vocabulary_size(), kRanks + 256);
  EXPECT_EQ(tokenizer.encode("\u4e2da"), (Ids{0xE4, 0xB8, 0xAD, 'a'}));
  EXPECT_EQ(tokenizer.encode("[BOS]abc<|tool|>"), (Ids{261, 258, 263}));
  EXPECT_TRUE(tokenizer.is_special(261));
  EXPECT_FALSE(tokenizer.is_special(263));
  EXPECT_EQ(tokenizer.piece_of(264), "<|reserved_token_264|>");
  EXPECT_EQ(tokenizer.start_token(), 261);
  EXPECT_FALSE(tokenizer.wants_start_token());
  EXPECT_EQ(tokenizer.end_tokens(), Ids{262});
}

TEST(Tiktoken, QwensTextIsComposed) {
  const test::TemporaryFolder folder;
  folder.add("qwen.tiktoken", ranks());
  folder.add("config.json", R"({"model_type": "qwen"})");
  const Tokenizer tokenizer = test::load_folder(folder.path());
  EXPECT_EQ(tokenizer.vocabulary_size(), kRanks + 208);
  EXPECT_EQ(tokenizer.encode("e\u0301"), Ids{260});
  EXPECT_EQ(tokenizer.encode("<|im_start|>ab<|extra_204|>"), (Ids{262, 257, 468}));
  EXPECT_EQ(tokenizer.end_tokens(), (Ids{263, 261}));
  folder.add("other.tiktoken", ranks());
  EXPECT_NE(refusal(folder).find("expected one file *.tiktoken"), std::string::npos);
}

TEST(Tiktoken, OfOthersTheCuttingIsNotKnown) {
  const test::TemporaryFolder folder;
  folder.add("tiktoken.model", ranks());
  folder.add("config.json", R"({"model_type": "chatglm"})");
  folder.add("tokenizer_config.json", R"({"tokenizer_class": "ChatGLM4Tokenizer"})");
  const std::string message = refusal(folder);
  for (const char* named : {"tiktoken.model", "Llama 3, Qwen, Kimi K2", "model_type \"chatglm\"",
                            "tokenizer_class \"ChatGLM4Tokenizer\""}) {
    EXPECT_NE(message.find(named), std::string::npos) << message;
  }
}

TEST(Tiktoken, BecomesTheTokenizerOfAGguf) {
  const test::TemporaryFolder folder;
  folder.add("tiktoken.model", ranks());
  folder.add("config.json", R"({"model_type": "kimi_k2"})");
  Checkpoint checkpoint;
  checkpoint.format = CheckpointFormat::hugging_face;
  checkpoint.path = folder.path();
  checkpoint.metadata = Json::object();
  Json keys = Json::object();
  for (const auto& [key, value] : write_gguf_tokenizer(checkpoint, kRanks + 256)) keys[key] = value;
  EXPECT_EQ(keys["tokenizer.ggml.pre"], "kimi-k2");
  EXPECT_EQ(Tokenizer::from_gguf(keys, "written").encode("xabc\u4e2da"),
            (Ids{'x', 258, 0xE4, 0xB8, 0xAD, 'a'}));
}

}  // namespace
}  // namespace talon::tiktoken_test
