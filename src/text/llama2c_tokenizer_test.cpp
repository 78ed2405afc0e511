#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "core/error.h"
#include "io/test_files.h"
#include "text/tokenizer.h"

namespace talon::llama2c_tokenizer_test {
namespace {

const std::filesystem::path kTok512 = TALON_TEST_DATA "/models/tok512.bin";

struct Entry {
  std::string text;
  float score = 0.0F;
};

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename T>
T number_at(const std::string& bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::vector<Entry> read_entries(const std::string& bytes) {
  std::vector<Entry> entries;
  for (std::size_t at = 4; at < bytes.size();) {
    const auto size = static_cast<std::size_t>(number_at<std::int32_t>(bytes, at + 4));
    entries.push_back({bytes.substr(at + 8, size), number_at<float>(bytes, at)});
    at += 8 + size;
  }
  return entries;
}

/// The method of llama2.c: characters or their bytes, then again and again the pair whose piece has
/// the best score.
std::vector<TokenId> merge_by_score(const std::vector<Entry>& entries, const std::string& text) {
  std::map<std::string, TokenId> ids;
  for (TokenId id = 259; id < static_cast<TokenId>(entries.size()); ++id) {
    ids[entries[static_cast<std::size_t>(id)].text] = id;
  }
  std::vector<TokenId> out;
  const std::string padded = text.empty() ? "" : " " + text;
  for (std::size_t at = 0; at < padded.size();) {
    std::size_t size = 1;
    while (at + size < padded.size() && (padded[at + size] & 0xC0) == 0x80) ++size;
    const auto whole = ids.find(padded.substr(at, size));
    if (whole != ids.end()) {
      out.push_back(whole->second);
    } else {
      for (std::size_t i = 0; i < size; ++i) {
        out.push_back(static_cast<unsigned char>(padded[at + i]) + 3);
      }
    }
    at += size;
  }
  while (true) {
    float best = -1e10F;
    std::size_t where = out.size();
    TokenId merged = 0;
    for (std::size_t i = 0; i + 1 < out.size(); ++i) {
      if (out[i] < 259 || out[i + 1] < 259) continue;
      const auto pair = ids.find(entries[static_cast<std::size_t>(out[i])].text +
                                 entries[static_cast<std::size_t>(out[i + 1])].text);
      if (pair == ids.end()) continue;
      const float score = entries[static_cast<std::size_t>(pair->second)].score;
      if (score > best) {
        best = score;
        where = i;
        merged = pair->second;
      }
    }
    if (where == out.size()) return out;
    out[where] = merged;
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
}

TEST(Llama2cTokenizer, EncodesAsLlama2cDoes) {
  const Tokenizer tokenizer = Tokenizer::from_llama2c(kTok512);
  const auto entries = read_entries(read_bytes(kTok512));
  ASSERT_EQ(entries.size(), 512U);
  EXPECT_EQ(tokenizer.vocabulary_size(), 512);
  EXPECT_EQ(tokenizer.encode("Once upon a time", {.add_start = true}),
            (std::vector<TokenId>{1, 403, 407, 261, 378}));
  std::mt19937 random(3);
  const std::vector<std::string> parts = {"the ", "Lily", " was", "happy", ".",   "\n",
                                          "  ",   "é",    "🙂", "and",   "a",   "e",
                                          "ing",  "\"",   "Q",    "7",     "ed ", "s"};
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (std::size_t i = random() % 12; i > 0; --i) text += parts[random() % parts.size()];
    ASSERT_EQ(tokenizer.encode(text), merge_by_score(entries, text)) << text;
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(Llama2cTokenizer, AStoryBeginsWithTokenOneAndEndsWithOneOrTwo) {
  const Tokenizer tokenizer = Tokenizer::from_llama2c(kTok512);
  EXPECT_EQ(tokenizer.start_token(), 1);
  EXPECT_TRUE(tokenizer.wants_start_token());
  auto ends = tokenizer.end_tokens();
  std::sort(ends.begin(), ends.end());
  EXPECT_EQ(ends, (std::vector<TokenId>{1, 2}));
}

TEST(Llama2cTokenizer, IsFoundBesideItsModelByItsNumberOfTokens) {
  const auto checkpoint = open_checkpoint(TALON_TEST_DATA "/models/stories260K.bin");
  EXPECT_EQ(Tokenizer::for_checkpoint(checkpoint).vocabulary_size(), 512);
  Checkpoint other = open_checkpoint(TALON_TEST_DATA "/models/stories260K.bin");
  other.metadata["vocab_size"] = 513;
  try {
    Tokenizer::for_checkpoint(other);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("\"tok512.bin\" has 512"), std::string::npos)
        << error.what();
  }
}

class DamagedTokBin : public testing::Test {
 protected:
  const test::TemporaryFolder folder_;  // other tests run beside this one
  const std::filesystem::path path_ = folder_.path() / "talon_damaged_tok.bin";

  void expect_error(const std::string& bytes, std::string_view named) {
    std::ofstream(path_, std::ios::binary) << bytes;
    try {
      Tokenizer::from_llama2c(path_);
      ADD_FAILURE() << "no error: " << named;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("talon_damaged_tok.bin"), std::string::npos);
    }
  }
};

TEST_F(DamagedTokBin, EveryTruncationInsideATokenIsAnError) {
  const std::string whole = read_bytes(kTok512);
  for (std::size_t size = 0; size < 200; ++size) expect_error(whole.substr(0, size), "");
  expect_error(whole.substr(0, whole.size() - 1), "token 511");
  expect_error(whole.substr(0, whole.size() - 4), "token 511");
}

TEST_F(DamagedTokBin, SizesScoresAndBytesThatCannotBeAreErrors) {
  const std::string whole = read_bytes(kTok512);
  const auto with = [&](std::size_t at, auto value) {
    std::string bytes = whole;
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return bytes;
  };
  for (const std::int32_t size : {-1, 0x7FFFFFFF, 0x7FFFFFFE, 1 << 17}) {
    expect_error(with(8, size), "token 0");
  }
  expect_error(with(whole.size() - 11, NAN), "score");
  expect_error(with(whole.size() - 2, static_cast<char>(0xFF)), "UTF-8");
  std::string spoiled = whole;
  spoiled.replace(spoiled.find("<0x41>"), 6, "<0x42>");
  expect_error(spoiled, "<0x41>");
}

}  // namespace
}  // namespace talon::llama2c_tokenizer_test
