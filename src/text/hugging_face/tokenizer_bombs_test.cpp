#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "io/json.h"
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

std::string error_of(const Json& json) {
  try {
    tokenizer_of(json).encode("a");
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

}  // namespace
}  // namespace talon::tokenizer_bombs_test
