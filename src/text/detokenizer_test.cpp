#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/utf8.h"

namespace talon::detokenizer_test {
namespace {

class Streaming : public testing::TestWithParam<const char*> {
 protected:
  static Tokenizer tokenizer() {
    const std::filesystem::path folder =
        std::filesystem::path(TALON_TEST_DATA "/text") / GetParam();
    const auto json = folder / "tokenizer.json";
    return std::filesystem::exists(json)
               ? Tokenizer::from_json_file(json)
               : Tokenizer::from_sentencepiece(folder / "tokenizer.model");
  }
};

/// Ids drawn mostly from single-byte tokens, so that characters are cut and broken in every way.
std::vector<TokenId> draw(const Tokenizer& tokenizer, std::mt19937& random) {
  std::vector<TokenId> ids(random() % 40);
  for (TokenId& id : ids) {
    do {
      id = static_cast<TokenId>(random() % static_cast<unsigned>(tokenizer.vocabulary_size()));
    } while (tokenizer.bytes_of(id).size() > 1 && random() % 4 != 0);
  }
  return ids;
}

TEST_P(Streaming, PiecesOfAnyTokensJoinToTheDecodedTextAndNeverHoldHalfACharacter) {
  const Tokenizer tokenizer = this->tokenizer();
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    const std::vector<TokenId> ids = draw(tokenizer, random);
    const bool skip_special = round % 2 == 0;
    Detokenizer detokenizer(tokenizer, skip_special, false);
    std::string joined;
    for (const TokenId id : ids) {
      const std::string piece = detokenizer.push(id);
      ASSERT_TRUE(is_well_formed(piece));
      joined += piece;
    }
    joined += detokenizer.finish();
    ASSERT_EQ(joined, replace_ill_formed(tokenizer.decode(ids, skip_special)));
    ASSERT_EQ(detokenizer.finish(), "");
  }
}

TEST_P(Streaming, ACharacterAppearsWithTheTokenThatCompletesIt) {
  const Tokenizer tokenizer = this->tokenizer();
  std::vector<TokenId> byte_tokens;
  for (const char byte : std::string("\xF0\x9F\x99\x82")) {
    for (TokenId id = 0; id < tokenizer.vocabulary_size(); ++id) {
      if (tokenizer.bytes_of(id) == std::string(1, byte)) {
        byte_tokens.push_back(id);
        break;
      }
    }
  }
  ASSERT_EQ(byte_tokens.size(), 4U);
  Detokenizer detokenizer(tokenizer);
  EXPECT_EQ(detokenizer.push(byte_tokens[0]), "");
  EXPECT_EQ(detokenizer.push(byte_tokens[1]), "");
  EXPECT_EQ(detokenizer.push(byte_tokens[2]), "");
  EXPECT_EQ(detokenizer.push(byte_tokens[3]), "\U0001F642");
  EXPECT_EQ(detokenizer.push(byte_tokens[0]), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
}

INSTANTIATE_TEST_SUITE_P(Kinds, Streaming, testing::Values("byte_level", "llama_style", "spm_bpe"),
                         [](const auto& of) { return std::string(of.param); });

TEST(Detokenizer, KeepsTheFirstSpaceOnlyWhereTheTextContinues) {
  const auto tokenizer =
      Tokenizer::from_json_file(TALON_TEST_DATA "/text/llama_style/tokenizer.json");
  const auto ids = tokenizer.encode("the end");
  const auto stream = [&](bool continues_text) {
    Detokenizer detokenizer(tokenizer, true, continues_text);
    std::string text;
    for (const TokenId id : ids) text += detokenizer.push(id);
    return text + detokenizer.finish();
  };
  EXPECT_EQ(stream(false), "the end");
  EXPECT_EQ(stream(true), " the end");
}

}  // namespace
}  // namespace talon::detokenizer_test
