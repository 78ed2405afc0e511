#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "io/json.h"
#include "io/test_files.h"
#include "text/hugging_face/folder_settings.h"
#include "text/tokenizer.h"

// Tokenizers of strangers that ask for more memory or time than there is, or for chance.
namespace talon::tokenizer_bombs_test {
namespace {

Json fixture() {
  std::ifstream file(TALON_TEST_DATA "/text/byte_level/tokenizer.json");
  return Json::parse(file);
}

Tokenizer tokenizer_of(const Json& json) {
  const std::string path = testing::TempDir() + "talon_tokenizer_bomb.json";
  std::ofstream(path) << json;
  Tokenizer tokenizer = Tokenizer::from_json_file(path);
  std::filesystem::remove(path);
  return tokenizer;
}

/// So many times one after the other: every a becomes `content`.
Json growing(int times, const std::string& content) {
  const Json step = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", content}};
  return {{"type", "Sequence"},
          {"normalizers", std::vector<Json>(static_cast<std::size_t>(times), step)}};
}

std::string error_of(const Json& json, const std::string& text = "a") {
  try {
    tokenizer_of(json).encode(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(TokenizerDropout, IsIgnoredSoThatATextHasOneEncoding) {
  const std::string text = "hello world, the tokenizer is random: abcdefghijklmnopqrstuvwxyz";
  Json json = fixture();
  const std::vector<TokenId> plain = tokenizer_of(json).encode(text);
  json["model"]["dropout"] = 0.5;
  const Tokenizer tokenizer = tokenizer_of(json);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(tokenizer.encode(text), plain);
}

TEST(TokenizerBombs, NormalizersThatMakeATextGrowWithoutEndAreRefused) {
  for (const auto& [times, content] :
       {std::pair{5, std::string(1000, 'a')}, std::pair{48, std::string("aa")}}) {
    Json json = fixture();
    json["normalizer"] = growing(times, content);
    const std::string error = error_of(json);
    EXPECT_NE(error.find("it takes more than"), std::string::npos) << times << ": " << error;
  }
}

TEST(TokenizerBombs, PatternsThatAreSearchedWithoutEndAreRefused) {
  const std::string text = std::string(64 << 10, 'a') + "-b";
  Json json = fixture();
  json["normalizer"] = nullptr;
  for (const char* pattern : {"a{0,2000}a{0,2000}\\b\\B", "(a*)*\\1b"}) {
    json["pre_tokenizer"] = {{"type", "Split"},
                             {"pattern", {{"Regex", pattern}}},
                             {"behavior", "Isolated"},
                             {"invert", false}};
    EXPECT_NE(error_of(json, text), "no error") << pattern;
  }
  json["pre_tokenizer"] = nullptr;
  json["normalizer"] = {
      {"type", "Replace"}, {"pattern", {{"Regex", "(a*)*\\1b"}}}, {"content", "c"}};
  const std::string error = error_of(json, text);
  EXPECT_NE(error.find("normalizer Replace: "), std::string::npos) << error;
}

TEST(TokenizerBombs, OfManyListedTokensTheLastOfEachTextCounts) {
  constexpr int kTokens = 300'000;
  Json decoder = Json::object();
  for (int id = 0; id < kTokens; ++id) {
    decoder[std::to_string(id)] = {{"content", fmt::format("<{}>", id)}};
  }
  // They are read in the order of their keys as texts: first 0, 05, 1, ..., 7, then the last.
  decoder["05"] = {{"content", "<7>"}, {"special", false}};
  decoder["9999999"] = {{"content", "<0>"}, {"special", false}};
  const test::TemporaryFolder folder;
  folder.add("added_tokens.json", R"({"<3>": 8, "<only>": 9})");
  const Json config = {{"added_tokens_decoder", decoder}};
  folder.add("tokenizer_config.json", config.dump());
  const std::vector<AddedPiece> pieces = FolderSettings(folder.path()).added_pieces();
  decoder.erase("05");
  decoder.erase("0");
  ASSERT_EQ(pieces.size(), 1 + decoder.size());
  EXPECT_EQ(pieces[0].id, 9);
  EXPECT_EQ(pieces[0].text, "<only>");
  std::size_t place = 1;
  for (const auto& [key, token] : decoder.items()) {
    const AddedPiece& piece = pieces[place++];
    ASSERT_EQ(piece.id, std::stoi(key));
    ASSERT_EQ(piece.text, token.at("content").get<std::string>());
    ASSERT_EQ(piece.special, key != "9999999");
  }
}

TEST(TokenizerBombs, ManyListedTokensThatAreKnownAddNone) {
  constexpr int kWords = 300'000;
  Json json = fixture();
  Json& words = json["model"]["vocab"];
  for (int id = static_cast<int>(words.size()); id < kWords; ++id) {
    words["w" + std::to_string(id)] = id;
  }
  const int known = kWords + static_cast<int>(json["added_tokens"].size());
  Json listed = Json::object();
  for (const auto& [word, id] : words.items()) listed[word] = known;
  const test::TemporaryFolder folder;
  folder.add("tokenizer.json", json.dump());
  folder.add("config.json", fmt::format(R"({{"vocab_size": {}}})", known + 2));
  folder.add("added_tokens.json", listed.dump());
  EXPECT_EQ(Tokenizer::from_json_file(folder.path() / "tokenizer.json").vocabulary_size(), known);
  listed["<more>"] = known;
  folder.add("added_tokens.json", listed.dump());
  const Tokenizer tokenizer = Tokenizer::from_json_file(folder.path() / "tokenizer.json");
  EXPECT_EQ(tokenizer.vocabulary_size(), known + 1);
  EXPECT_EQ(tokenizer.encode("<more>"), std::vector<TokenId>{known});
}

TEST(TokenizerBombs, WordsOfWordPieceHaveABound) {
  Json json = fixture();
  json["model"] = {{"type", "WordPiece"},
                   {"unk_token", "[UNK]"},
                   {"continuing_subword_prefix", "##"},
                   {"max_input_chars_per_word", 1000000000},
                   {"vocab", {{"[UNK]", 0}, {"a", 1}}}};
  const std::string error = error_of(json);
  EXPECT_NE(error.find("max_input_chars_per_word: expected at most 10000, found 1000000000"),
            std::string::npos)
      << error;
  json["model"]["max_input_chars_per_word"] = 100;
  EXPECT_EQ(error_of(json), "no error");
}

}  // namespace
}  // namespace talon::tokenizer_bombs_test
