#include "text/ranked/ranked_bpe.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

#include "io/test_files.h"
#include "text/hugging_face/bridge_encoder.h"
#include "text/ranked/test_ranks.h"

namespace talon::ranked_bpe_test {
namespace {

using Ids = std::vector<TokenId>;
using Texts = std::vector<std::string>;

RankedBpe bpe_of(std::vector<std::string> tokens) {
  RankedBpe bpe;
  bpe.tokens = std::move(tokens);
  bpe.pipeline = cutting_pipeline(R"([a-z]+|[^a-z]+)");
  return bpe;
}

Ids encode(const RankedBpe& bpe, std::string_view text) {
  return load_tokenizer_json(tokenizer_json_of(bpe, "load").dump(), "load")
      .encoder->encode(text, {});
}

TEST(Base64Token, IsReadWithItsPaddingAndNoOtherwise) {
  EXPECT_EQ(token_of_base64("YQ=="), "a");
  EXPECT_EQ(token_of_base64("YWI="), "ab");
  EXPECT_EQ(token_of_base64("YWJj"), "abc");
  EXPECT_EQ(token_of_base64("+/8A"), std::string_view("\xFB\xFF\0", 3));
  for (const char* text : {"", "YQ", "YQ=", "Y===", "====", "=YQ=", "YQ==YQ==", "Y Q=", "YQ=\n"}) {
    EXPECT_EQ(token_of_base64(text), std::nullopt) << text;
  }
  EXPECT_EQ(test::base64_of("abcd"), "YWJjZA==");
}

TEST(RankedBpe, ATokenHasTheMergeOfItsOwnBytes) {
  const RankedBpe bpe =
      bpe_of(test::ranked_tokens({"bc", "ab", "abc", "xyz", "qrs", "rs", " ab", "aa", "aaa"}));
  const Json merges = tokenizer_json_of(bpe, "load")["model"]["merges"];
  // Not "ab c", and none for "xyz", in which nothing can be joined. A part may be of a higher rank.
  const std::vector<Texts> expected = {Texts{"b", "c"},  Texts{"a", "b"}, Texts{"a", "bc"},
                                       Texts{"q", "rs"}, Texts{"r", "s"}, Texts{"\u0120", "ab"},
                                       Texts{"a", "a"},  Texts{"aa", "a"}};
  EXPECT_EQ(merges.get<std::vector<Texts>>(), expected);
}

TEST(RankedBpe, JoinsTheLowestRankFirstAndOfSeveralTheLeftmost) {
  const RankedBpe bpe =
      bpe_of(test::ranked_tokens({"bc", "ab", "abc", "xyz", "qrs", "rs", "aa", "aaa"}));
  EXPECT_EQ(encode(bpe, "xab"), (Ids{'x', 257}));
  EXPECT_EQ(encode(bpe, "xabc"), (Ids{'x', 258}));  // b and c, then a
  EXPECT_EQ(encode(bpe, "dabcab"), (Ids{'d', 258, 257}));
  EXPECT_EQ(encode(bpe, "xyz"), Ids{259});  // as a whole
  EXPECT_EQ(encode(bpe, "axyz"), (Ids{'a', 'x', 'y', 'z'}));
  EXPECT_EQ(encode(bpe, "aqrs"), (Ids{'a', 260}));  // r and s, of a higher rank, first
  EXPECT_EQ(encode(bpe, "baaa"), (Ids{'b', 263}));
  EXPECT_EQ(encode(bpe, "baaaa"), (Ids{'b', 262, 262}));
}

TEST(RankedBpe, ATokenMayBeginAsTheHeadOfAFileOfMerges) {
  RankedBpe bpe = bpe_of(test::ranked_tokens(
      {"#v", "#ve", "#ver", "#vers", "#versi", "#versio", "#version", "#version!"}));
  bpe.pipeline = cutting_pipeline(R"(\S+)");
  EXPECT_EQ(encode(bpe, "x#version!"), (Ids{'x', 263}));
}

TEST(RankedBpe, IdsOfRanksFollowTheFirst) {
  RankedBpe bpe = bpe_of(test::ranked_tokens({"ab"}));
  bpe.first = 2;
  bpe.added = {{0, "<s>"}, {1, "<tool>", false}, {259, "<last>"}};
  EXPECT_EQ(encode(bpe, "<s>xab<tool><last>"), (Ids{0, 'x' + 2, 258, 1, 259}));
}

/// What tiktoken does with a piece, done plainly.
Ids join_by_ranks(const std::map<std::string, TokenId>& ranks, const std::string& piece) {
  if (const auto whole = ranks.find(piece); whole != ranks.end()) return {whole->second};
  Texts parts;
  for (const char byte : piece) parts.emplace_back(1, byte);
  while (true) {
    std::size_t best = parts.size();
    TokenId lowest = std::numeric_limits<TokenId>::max();
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find(parts[i] + parts[i + 1]);
      if (found == ranks.end() || found->second >= lowest) continue;
      lowest = found->second;
      best = i;
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Ids ids;
  for (const std::string& part : parts) ids.push_back(ranks.at(part));
  return ids;
}

std::string random_text(std::mt19937& random, std::size_t longest) {
  std::string text;
  for (std::size_t size = 2 + random() % (longest - 1); text.size() < size;) {
    text += static_cast<char>('a' + random() % 2);
  }
  return text;
}

/// Of two letters, so that tokens overlap in every way; ranks in no order at all.
TEST(RankedBpe, GivesTheIdsOfJoiningByRanksWhateverTheRanks) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<std::string> tokens = test::ranked_tokens({});
    std::map<std::string, TokenId> ranks;
    for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
      ranks[tokens[rank]] = static_cast<TokenId>(rank);
    }
    for (int i = 0; i < 40; ++i) {
      const std::string token = random_text(random, 7);
      if (ranks.emplace(token, static_cast<TokenId>(tokens.size())).second) tokens.push_back(token);
    }
    const std::string json = tokenizer_json_of(bpe_of(tokens), "load").dump();
    const TokenizerParts parts = load_tokenizer_json(json, "load");
    for (int i = 0; i < 100; ++i) {
      const std::string text = random_text(random, 24);
      ASSERT_EQ(parts.encoder->encode(text, {}), join_by_ranks(ranks, text)) << text;
    }
  }
}

std::string refusal(const RankedBpe& bpe) {
  return test::message_of([&] { tokenizer_json_of(bpe, "load x"); });
}

TEST(RankedBpe, RefusesWhatIsThereTwiceOrNotAtAll) {
  EXPECT_EQ(refusal(bpe_of(test::ranked_tokens({"ab", "ab"}))),
            "load x: rank 257: expected a new token, found \"ab\" as of rank 256");
  EXPECT_EQ(refusal(bpe_of(test::ranked_tokens({""}))),
            "load x: rank 256: expected a token of 1 to 1024 bytes, found 0");
  const std::string longer(1025, 'a');
  EXPECT_EQ(refusal(bpe_of(test::ranked_tokens({longer}))),
            "load x: rank 256: expected a token of 1 to 1024 bytes, found 1025");
  std::vector<std::string> tokens = test::ranked_tokens({});
  tokens[7] = "ab";
  EXPECT_EQ(refusal(bpe_of(tokens)), "load x: expected a token for each byte, found none for 0x07");
}

TEST(RankedBpe, RefusesAddedTokensThatAreOthers) {
  RankedBpe bpe = bpe_of(test::ranked_tokens({"ab"}));
  for (const TokenId id : {-1, 0, 256}) {
    bpe.added = {{id, "<s>"}};
    EXPECT_EQ(refusal(bpe), fmt::format("load x: added token \"<s>\": expected an id of its own, "
                                        "found {}",
                                        id));
  }
  bpe.added = {{257, "<s>"}, {257, "</s>"}};
  EXPECT_NE(refusal(bpe).find("an id of its own"), std::string::npos);
  for (const char* text : {"ab", "<s>", ""}) {
    bpe.added = {{257, "<s>"}, {258, text}};
    EXPECT_NE(refusal(bpe).find("added token 258: expected a text"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace talon::ranked_bpe_test
