#include <gtest/gtest.h>

#include "core/error.h"
#include "text/tokenizer.h"

// What published GGUF files leave out of their tokenizers or say in other ways.
namespace talon::published_files_test {
namespace {

using Pieces = std::vector<std::string>;

Tokenizer load(const Json& metadata) { return Tokenizer::from_gguf(metadata, "model.gguf"); }

Pieces pieces(const Tokenizer& tokenizer, std::string_view text) {
  Pieces pieces;
  for (const TokenId id : tokenizer.encode(text)) pieces.push_back(tokenizer.piece_of(id));
  return pieces;
}

/// "ab" is the best piece.
Json sentencepiece() {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int> types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    types.push_back(6);
  }
  std::vector<float> scores(tokens.size(), 0.0F);
  float score = 0.0F;
  for (const char* piece : {"ab", "▁a", "▁", "a", "b"}) {
    tokens.emplace_back(piece);
    types.push_back(1);
    scores.push_back(score -= 1.0F);
  }
  return {{"tokenizer.ggml.model", "llama"},    {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.token_type", types}, {"tokenizer.ggml.scores", scores},
          {"tokenizer.ggml.bos_token_id", 1},   {"tokenizer.ggml.eos_token_id", 2}};
}

/// As converters write it where a tokenizer_config.json or an added_tokens.json lists it.
TEST(PublishedSentencePiece, TheUnknownTokenMayBeCalledAMark) {
  for (const int type : {3, 4}) {
    Json metadata = sentencepiece();
    metadata["tokenizer.ggml.token_type"][0] = type;
    const Tokenizer tokenizer = load(metadata);
    EXPECT_EQ(pieces(tokenizer, "ab"), (Pieces{"▁", "ab"})) << type;
    EXPECT_EQ(pieces(tokenizer, "<unk>ab"), (Pieces{"<unk>", "▁", "ab"})) << type;
    EXPECT_TRUE(tokenizer.is_special(0)) << type;
  }
  Json metadata = sentencepiece();
  metadata["tokenizer.ggml.token_type"][0] = 3;
  metadata["tokenizer.ggml.tokens"][0] = "[UNK]";
  EXPECT_THROW(load(metadata), Error);
  metadata["tokenizer.ggml.unknown_token_id"] = 0;
  EXPECT_EQ(pieces(load(metadata), "ab"), (Pieces{"▁", "ab"}));
}

/// As converters write them that find a tokenizer.json alone.
TEST(PublishedSentencePiece, PiecesThatScoreAlikeAreJoinedInTheOrderOfTheirIds) {
  Json metadata = sentencepiece();
  for (Json& score : metadata["tokenizer.ggml.scores"]) score = -1000.0F;
  EXPECT_EQ(pieces(load(metadata), "ab"), (Pieces{"▁", "ab"}));
}

TEST(PublishedSentencePiece, TextsBeginWithTheUsualStartTokenWhereAFileNamesNone) {
  Json metadata = sentencepiece();
  metadata.erase("tokenizer.ggml.bos_token_id");
  EXPECT_EQ(load(metadata).start_token(), 1);
  EXPECT_TRUE(load(metadata).wants_start_token());
  metadata["tokenizer.ggml.add_bos_token"] = false;
  EXPECT_EQ(load(metadata).start_token(), std::nullopt);
  EXPECT_FALSE(load(metadata).wants_start_token());
}

/// No merge gives "ab".
Json byte_level() {
  std::vector<std::string> tokens = {"Ġ"};
  for (char c = '!'; c <= '~'; ++c) tokens.emplace_back(1, c);
  for (const char* token : {"11", "Ġ1", "ab", "<|begin_of_text|>"}) tokens.emplace_back(token);
  std::vector<int> types(tokens.size(), 1);
  types.back() = 3;
  return {{"tokenizer.ggml.model", "gpt2"},
          {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.merges", std::vector<std::string>{"1 1", "Ġ 1"}}};
}

TEST(PublishedByteLevel, OldFilesThatDoNotSayHowTextIsCutAreCutAsTheirModelsAre) {
  Json metadata = byte_level();
  const auto cut = [&](const char* architecture) {
    metadata["general.architecture"] = architecture;
    return pieces(load(metadata), "11 1");
  };
  for (const char* name : {"qwen2", "qwen2moe", "starcoder2"}) {
    EXPECT_EQ(cut(name), (Pieces{"1", "1", "Ġ", "1"})) << name;
  }
  EXPECT_EQ(cut("llama"), (Pieces{"11", "Ġ", "1"}));  // Llama 3
  metadata["tokenizer.ggml.tokens"].back() = "<|x|>";
  EXPECT_EQ(cut("llama"), (Pieces{"11", "Ġ1"}));
  metadata["tokenizer.ggml.pre"] = "llama-bpe";
  EXPECT_EQ(cut("qwen2"), (Pieces{"11", "Ġ", "1"}));  // as the file says
}

TEST(PublishedByteLevel, PiecesThatAreTokensAreTakenWholeWhereTheMakersDo) {
  Json metadata = byte_level();
  for (const char* name : {"glm4", "glm5", "chatglm-bpe", "kimi-k2"}) {
    metadata["tokenizer.ggml.pre"] = name;
    EXPECT_EQ(pieces(load(metadata), "ab"), Pieces{"ab"}) << name;
    EXPECT_FALSE(load(metadata).wants_start_token()) << name;
  }
  metadata["tokenizer.ggml.pre"] = "dbrx";
  EXPECT_EQ(pieces(load(metadata), "ab"), (Pieces{"a", "b"}));
}

}  // namespace
}  // namespace talon::published_files_test
