#include "draft/model/vocabulary_map.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "io/test_files.h"

namespace talon::vocabulary_map_test {
namespace {

/// The tokens of a llama2.c tokenizer, to be changed and written.
struct Pieces {
  std::int32_t longest = 0;
  std::vector<std::pair<float, std::string>> all;

  static Pieces read() {
    std::ifstream file(TALON_TEST_DATA "/models/tok512.bin", std::ios::binary);
    Pieces pieces;
    file.read(reinterpret_cast<char*>(&pieces.longest), 4);
    float score = 0;
    std::int32_t length = 0;
    while (file.read(reinterpret_cast<char*>(&score), 4)) {
      file.read(reinterpret_cast<char*>(&length), 4);
      std::string text(static_cast<std::size_t>(length), ' ');
      file.read(text.data(), length);
      pieces.all.emplace_back(score, text);
    }
    return pieces;
  }
  Tokenizer tokenizer() const {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "tok.bin";
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&longest), 4);
    for (const auto& [score, text] : all) {
      const auto length = static_cast<std::int32_t>(text.size());
      file.write(reinterpret_cast<const char*>(&score), 4);
      file.write(reinterpret_cast<const char*>(&length), 4);
      file.write(text.data(), length);
    }
    file.close();
    return Tokenizer::from_llama2c(path);
  }
};

VocabularyMap map_of(const Pieces& draft, const Pieces& target) {
  return map_vocabularies(draft.tokenizer(), static_cast<int>(draft.all.size()), target.tokenizer(),
                          static_cast<int>(target.all.size()), "load draft model");
}

TEST(VocabularyMap, EqualVocabulariesNeedNoTable) {
  const Pieces pieces = Pieces::read();
  ASSERT_GE(pieces.all.size(), 512U);
  EXPECT_TRUE(map_of(pieces, pieces).same);
}

TEST(VocabularyMap, TokensCorrespondByTheirText) {
  const Pieces target = Pieces::read();
  Pieces draft = target;
  std::swap(draft.all[300], draft.all[301]);
  draft.all[310].second = "zqzq";  // the target has none such
  const VocabularyMap map = map_of(draft, target);
  ASSERT_FALSE(map.same);
  const auto rows = static_cast<TokenId>(target.all.size());
  EXPECT_EQ(map.target_of[300], 301);
  EXPECT_EQ(map.target_of[301], 300);
  EXPECT_EQ(map.target_of[305], 305);
  EXPECT_EQ(map.target_of[310], rows + 310) << "the target does not have it";
  EXPECT_EQ(map.draft_of[300], std::vector<TokenId>{301});
  EXPECT_EQ(map.target_of[1], 1) << "the start token";
  // The draft model reads the text of what it does not have as several tokens.
  const Tokenizer reader = draft.tokenizer();
  std::string text;
  for (const TokenId token : map.draft_of[310]) text += reader.bytes_of(token);
  EXPECT_GE(map.draft_of[310].size(), 2U);
  EXPECT_EQ(text, target.tokenizer().bytes_of(310));
}

/// The draft tokenizer puts a space before such a text, so it is cut into tokens here.
TEST(VocabularyMap, LongTokensThatTheDraftLacksAreCutAsShortOnes) {
  Pieces target = Pieces::read();
  Pieces draft = target;
  const std::string text(60'000, 'z');
  target.all[310].second = text;
  draft.all[310].second = std::string(60'000, 'y');
  const VocabularyMap map = map_of(draft, target);
  const Tokenizer reader = draft.tokenizer();
  std::string joined;
  for (const TokenId token : map.draft_of[310]) joined += reader.bytes_of(token);
  EXPECT_EQ(joined, text);
}

/// Ends are told by what they are only where their text is none of the draft model's.
TEST(VocabularyMap, EndTokensOfEqualTextStayThemselves) {
  const Tokenizer target =
      Tokenizer::from_json_file(TALON_TEST_DATA "/text/byte_level/tokenizer.json");
  ASSERT_EQ(target.end_tokens(), (std::vector<TokenId>{602, 600}));
  const int size = target.vocabulary_size();
  const VocabularyMap map = map_vocabularies(target, size - 1, target, size, "load");
  ASSERT_FALSE(map.same);
  for (const TokenId end : target.end_tokens()) {
    EXPECT_EQ(map.draft_of[static_cast<std::size_t>(end)], std::vector<TokenId>{end});
    EXPECT_EQ(map.target_of[static_cast<std::size_t>(end)], end);
  }
}

TEST(VocabularyMap, TokensWithoutARowAreNeitherProposedNorRead) {
  const Pieces pieces = Pieces::read();
  const Tokenizer tokenizer = pieces.tokenizer();
  const int size = tokenizer.vocabulary_size();
  const VocabularyMap few = map_vocabularies(tokenizer, size - 3, tokenizer, size, "load");
  ASSERT_FALSE(few.same);
  for (const auto& tokens : few.draft_of) {
    for (const TokenId token : tokens) EXPECT_LT(token, size - 3);
  }
  const VocabularyMap many = map_vocabularies(tokenizer, size, tokenizer, size - 3, "load");
  EXPECT_EQ(many.target_of.back(), size - 3 + size - 1) << "the target does not have it";
  EXPECT_EQ(many.draft_of.size(), static_cast<std::size_t>(size - 3));
}

TEST(VocabularyMap, OneThatSharesLessThanHalfIsRefusedWithBothFingerprints) {
  const Pieces target = Pieces::read();
  Pieces draft = target;
  draft.all.resize(600, {0.0F, ""});  // all have the 256 bytes
  for (std::size_t i = 259; i < 600; ++i) draft.all[i].second = "z" + std::to_string(i);
  try {
    map_of(draft, target);
    FAIL() << "accepted";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find(vocabulary_fingerprint(draft.tokenizer())), std::string::npos);
    EXPECT_NE(message.find(vocabulary_fingerprint(target.tokenizer())), std::string::npos);
    EXPECT_NE(message.find("at least half"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace talon::vocabulary_map_test
