#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "core/error.h"
#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

// Small tokenizers of several kinds, with what their reference implementations do
// (tests/data/text/make_fixtures.py).
namespace talon::fixture_test {
namespace {

const std::filesystem::path kFolder = TALON_TEST_DATA "/text";

Tokenizer load(const std::string& folder) {
  const std::filesystem::path json = kFolder / folder / "tokenizer.json";
  return std::filesystem::exists(json)
             ? Tokenizer::from_json_file(json)
             : Tokenizer::from_sentencepiece(kFolder / folder / "tokenizer.model");
}

class Fixture : public testing::TestWithParam<const char*> {
 protected:
  static Json cases() {
    std::ifstream file(kFolder / "golden.json");
    return Json::parse(file).at(GetParam());
  }
};

TEST_P(Fixture, EveryTextHasTheIdsOfTheReferenceImplementation) {
  const Tokenizer tokenizer = load(GetParam());
  EXPECT_GE(cases().size(), 200U);
  // The sentencepiece library never reads special tokens from a text.
  const bool parse_special = !std::string_view(GetParam()).starts_with("spm");
  for (const Json& test_case : cases()) {
    EXPECT_EQ(
        tokenizer.encode(test_case.at("text").get<std::string>(), {.parse_special = parse_special}),
        test_case.at("ids").get<std::vector<TokenId>>())
        << test_case.at("text");
  }
}

TEST_P(Fixture, IdsDecodeAsInTheReferenceImplementation) {
  const Tokenizer tokenizer = load(GetParam());
  for (const Json& test_case : cases()) {
    if (!test_case.contains("decoded")) continue;
    const auto ids = test_case.at("ids").get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer.decode(ids, false), test_case.at("decoded").get<std::string>());
  }
}

TEST_P(Fixture, EveryIdHasAPieceAndOthersAddNothing) {
  const Tokenizer tokenizer = load(GetParam());
  for (TokenId id = 0; id < tokenizer.vocabulary_size(); ++id) {
    EXPECT_FALSE(tokenizer.piece_of(id).empty()) << id;
    EXPECT_FALSE(tokenizer.bytes_of(id).empty()) << id;
  }
  for (const TokenId id : {-1, tokenizer.vocabulary_size(), 1 << 30}) {
    EXPECT_EQ(tokenizer.piece_of(id), "");
    EXPECT_EQ(tokenizer.bytes_of(id), "");
    EXPECT_FALSE(tokenizer.is_special(id));
    EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{10, id, 11}, false),
              tokenizer.decode(std::vector<TokenId>{10, 11}, false));
    Detokenizer stream(tokenizer);
    EXPECT_EQ(stream.push(id), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Fixture,
                         testing::Values("spm_bpe", "spm_unigram", "byte_level", "llama_style",
                                         "unigram"),
                         [](const auto& of) { return std::string(of.param); });

TEST(FixtureFacts, ByteLevelFolderSaysItsEndTokensAndTemplateAndNoStart) {
  const Tokenizer tokenizer = load("byte_level");
  EXPECT_EQ(tokenizer.kind(), "byte-level BPE");
  EXPECT_FALSE(tokenizer.wants_start_token());
  EXPECT_FALSE(tokenizer.drops_first_space());
  EXPECT_EQ(tokenizer.end_tokens(), (std::vector<TokenId>{602, 600}));
  EXPECT_EQ(tokenizer.end_text(), "<|im_end|>");
  const ChatTemplate chat(tokenizer.chat_template().value(), tokenizer.start_text(),
                          tokenizer.end_text());
  EXPECT_EQ(chat.render(std::vector<ChatMessage>{{"user", "Hi"}}),
            "<|im_start|>user\nHi<|im_end|>\n");
}

TEST(FixtureFacts, PostProcessorSaysThatTextBeginsWithTheStartToken) {
  const Tokenizer tokenizer = load("llama_style");
  EXPECT_EQ(tokenizer.kind(), "SentencePiece BPE");
  EXPECT_TRUE(tokenizer.drops_first_space());
  EXPECT_TRUE(tokenizer.wants_start_token());
  EXPECT_EQ(tokenizer.start_token(), 1);
  EXPECT_EQ(tokenizer.end_tokens(), std::vector<TokenId>{2});
  EXPECT_EQ(tokenizer.encode("a", {.add_start = true}).front(), 1);
  EXPECT_NE(tokenizer.encode("a").front(), 1);
  EXPECT_EQ(tokenizer.chat_template()->substr(0, 15), "{{ bos_token }}");
}

TEST(FixtureFacts, SentencePieceModelNamesItsStartAndEnd) {
  const Tokenizer tokenizer = load("spm_bpe");
  EXPECT_EQ(tokenizer.kind(), "SentencePiece BPE");
  EXPECT_EQ(tokenizer.start_token(), 1);
  EXPECT_TRUE(tokenizer.wants_start_token());
  EXPECT_EQ(tokenizer.end_tokens(), std::vector<TokenId>{2});
  EXPECT_EQ(load("spm_unigram").kind(), "SentencePiece unigram");
  EXPECT_EQ(load("unigram").kind(), "Unigram");
}

TEST(FixtureFacts, AStartTokenAlreadyWrittenIsNotAddedAgain) {
  const Tokenizer tokenizer = load("spm_bpe");
  const auto ids = tokenizer.encode("<s>a", {.add_start = true});
  EXPECT_EQ(ids, tokenizer.encode("a", {.add_start = true}));
}

TEST(SpecialText, IsOrdinaryTextUnlessAskedFor) {
  for (const auto& [folder, special] :
       {std::pair("byte_level", "<|im_end|>"), std::pair("llama_style", "</s>"),
        std::pair("spm_bpe", "</s>")}) {
    const Tokenizer tokenizer = load(folder);
    const std::string text = std::string("a") + special + "b";
    const auto contains_special = [&](const std::vector<TokenId>& ids) {
      return std::any_of(ids.begin(), ids.end(),
                         [&](TokenId id) { return tokenizer.is_special(id); });
    };
    EXPECT_TRUE(contains_special(tokenizer.encode(text))) << folder;
    const auto plain = tokenizer.encode(text, {.parse_special = false});
    EXPECT_FALSE(contains_special(plain)) << folder;
    EXPECT_EQ(tokenizer.decode(plain), text) << folder;
  }
}

TEST(SpecialText, IsLeftOutOfDecodedTextOnlyWhenSkipped) {
  const Tokenizer tokenizer = load("byte_level");
  const auto ids = tokenizer.encode("<|im_start|>a<|im_end|><tool>");
  EXPECT_EQ(tokenizer.decode(ids), "a<tool>");
  EXPECT_EQ(tokenizer.decode(ids, false), "<|im_start|>a<|im_end|><tool>");
}

TEST(InvalidText, IsEncodedAsIfReplacedFirst) {
  for (const char* folder : {"byte_level", "llama_style", "spm_bpe", "spm_unigram", "unigram"}) {
    const Tokenizer tokenizer = load(folder);
    for (const std::string text : {"\xFF", "a\xC3", "\xED\xA0\x80z", "\xF0\x9F\x98 x", "\x80\x80",
                                   "caf\xE9 au lait", "\xC0\xAF", "\xF4\x90\x80\x80"}) {
      EXPECT_EQ(tokenizer.encode(text), tokenizer.encode(replace_ill_formed(text))) << folder;
    }
  }
}

}  // namespace
}  // namespace talon::fixture_test
