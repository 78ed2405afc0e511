#include "text/sentencepiece/sentencepiece_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "io/mapped_file.h"
#include "text/sentencepiece/character_map.h"
#include "text/sentencepiece/protocol_buffer.h"

namespace talon::sentencepiece_model_test {
namespace {

const std::filesystem::path kBpe = TALON_TEST_DATA "/text/spm_bpe/tokenizer.model";
const std::filesystem::path kUnigram = TALON_TEST_DATA "/text/spm_unigram/tokenizer.model";

SentencePieceModel read(const std::filesystem::path& path) {
  const MappedFile file(path);
  return parse_sentencepiece(file.bytes(), "load x");
}

template <typename Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void expect_named(const std::string& message, std::string_view named) {
  EXPECT_NE(message.find(named), std::string::npos) << message;
}

TEST(SentencePieceModel, SerializedAndReadAgainIsTheSame) {
  for (const auto& path : {kBpe, kUnigram}) {
    const SentencePieceModel model = read(path);
    const std::string bytes = serialize(model);
    const SentencePieceModel again =
        parse_sentencepiece(std::as_bytes(std::span(bytes.data(), bytes.size())), "load x");
    EXPECT_EQ(serialize(again), bytes);
    EXPECT_EQ(again.pieces.size(), model.pieces.size());
    EXPECT_EQ(again.character_map, model.character_map);
    EXPECT_EQ(again.remove_extra_whitespaces, model.remove_extra_whitespaces);
  }
}

TEST(SentencePieceModel, EveryTruncationIsAnErrorOrAnotherSoundModel) {
  for (const auto& path : {kBpe, kUnigram}) {
    const MappedFile file(path);
    int errors = 0;
    for (std::size_t size = 0; size < file.bytes().size(); size += size < 64 ? 1 : 53) {
      try {
        const auto model = parse_sentencepiece(file.bytes().first(size), "load x");
        load_sentencepiece(model, "load x").encoder->encode("Hello, world \u00e9", {});
      } catch (const Error&) {
        ++errors;
      }
    }
    EXPECT_GT(errors, 100);
  }
}

TEST(SentencePieceModel, FieldsThatCannotBeAreNamed) {
  const auto parse = [](const ProtoWriter& out) {
    const std::string& bytes = out.message();
    return error_of([&] {
      parse_sentencepiece(std::as_bytes(std::span(bytes.data(), bytes.size())), "load x");
    });
  };
  ProtoWriter piece;
  piece.number(3, 9);
  ProtoWriter with_type;
  with_type.bytes(1, piece.message());
  expect_named(parse(with_type), "pieces[0]: type: expected 1 to 6, found 9");

  ProtoWriter trainer;
  trainer.number(3, 4);
  ProtoWriter with_algorithm;
  with_algorithm.bytes(2, trainer.message());
  expect_named(parse(with_algorithm), "model_type: expected 1 (unigram) or 2 (BPE), found 4");

  ProtoWriter of_other_kind;
  of_other_kind.number(1, 5);
  expect_named(parse(of_other_kind), "pieces: expected wire type 2, found 0");

  const auto load = [](auto change) {
    SentencePieceModel model = read(kBpe);
    change(model);
    return error_of([&] { load_sentencepiece(model, "load x"); });
  };
  using Model = SentencePieceModel;
  expect_named(load([](Model& m) { m.pieces.clear(); }), "pieces: expected 1 to");
  expect_named(load([](Model& m) { m.pieces[300].score = std::nanf(""); }), "score of piece 300");
  expect_named(load([](Model& m) { m.pieces[300].text.clear(); }), "piece 300");
  expect_named(load([](Model& m) { m.pieces[300].text = m.pieces[301].text; }), "load x");
  expect_named(load([](Model& m) { m.pieces[10].type = Model::Type::normal; }), "byte");
}

TEST(SentencePieceModel, FurtherTokensFollowThePiecesAndAreCutOut) {
  const SentencePieceModel model = read(kBpe);
  const auto pieces = static_cast<TokenId>(model.pieces.size());
  const AddedPiece added[] = {{pieces + 1, "<|im_start|>", true}, {pieces + 3, "<tool>", false}};
  const TokenizerParts parts = load_sentencepiece(model, "load x", added);
  EXPECT_EQ(parts.vocabulary.size(), pieces + 4);
  EXPECT_EQ(parts.vocabulary.kind(pieces), Vocabulary::Kind::absent);
  EXPECT_EQ(parts.vocabulary.kind(pieces + 1), Vocabulary::Kind::special);
  EXPECT_EQ(parts.encoder->encode("<|im_start|><tool>", {}),
            (std::vector<TokenId>{pieces + 1, pieces + 3}));
  const TextRange whole{0, 6};
  EXPECT_EQ(parts.encoder->encode("<tool>", {&whole, 1}), std::vector<TokenId>{pieces + 3});
  const AddedPiece far[] = {{std::numeric_limits<TokenId>::max(), "<x>", true}};
  expect_named(error_of([&] { load_sentencepiece(model, "load x", far); }), "added token \"<x>\"");
}

/// A map with its trie as numbers, put back together by bytes().
struct Map {
  explicit Map(const std::string& bytes) {
    std::uint32_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof size);
    units.resize(size / sizeof(std::uint32_t));
    std::memcpy(units.data(), bytes.data() + sizeof size, size);
    texts = bytes.substr(sizeof size + size);
  }
  std::string bytes() const {
    const auto size = static_cast<std::uint32_t>(units.size() * sizeof(std::uint32_t));
    return std::string(reinterpret_cast<const char*>(&size), sizeof size) +
           std::string(reinterpret_cast<const char*>(units.data()), size) + texts;
  }
  std::vector<std::uint32_t> units;
  std::string texts;
};

TEST(CharacterMap, EveryUnitThatLeadsJustOutsideTheTrieIsAnError) {
  const Map map(read(kUnigram).character_map);
  check_character_map(map.bytes(), "load x");
  for (std::size_t i = 0; i < map.units.size(); ++i) {
    Map damaged = map;
    damaged.units[i] = static_cast<std::uint32_t>(i ^ map.units.size()) << 10;
    ASSERT_THROW(check_character_map(damaged.bytes(), "load x"), Error) << i;
  }
}

TEST(CharacterMap, EveryValueJustOutsideTheTextsIsAnError) {
  const Map map(read(kUnigram).character_map);
  int values = 0;
  for (std::size_t i = 0; i < map.units.size(); ++i) {
    const bool is_value = map.units[i] >> 31 != 0;
    if (!is_value || (map.units[i] & 0x7FFFFFFF) >= map.texts.size()) continue;
    ++values;
    Map damaged = map;
    damaged.units[i] = static_cast<std::uint32_t>(map.texts.size()) | 1U << 31;
    EXPECT_THROW(check_character_map(damaged.bytes(), "load x"), Error) << i;
  }
  EXPECT_EQ(values, 7);  // one for each different text in rules.tsv
}

TEST(CharacterMap, ATextThatWouldMakePromptsGrowIsAnError) {
  SentencePieceModel model = read(kUnigram);
  const Map map(model.character_map);
  const auto is_text = [&](std::uint32_t unit) {
    return unit >> 31 != 0 && (unit & 0x7FFFFFFF) < map.texts.size();
  };
  const auto leaf = std::find_if(map.units.begin(), map.units.end(), is_text) - map.units.begin();
  ASSERT_LT(static_cast<std::size_t>(leaf), map.units.size());
  const auto error_with = [&](std::size_t size) {
    Map grown = map;
    grown.units[static_cast<std::size_t>(leaf)] =
        static_cast<std::uint32_t>(map.texts.size()) | 1U << 31;
    grown.texts += std::string(size, 'b') + '\0' + "end" + '\0';
    model.character_map = grown.bytes();
    return error_of([&] { load_sentencepiece(model, "load x"); });
  };
  EXPECT_EQ(error_with(256), "no error");
  expect_named(error_with(257), "load x: precompiled_charsmap: unit ");
  expect_named(error_with(257), "expected a text of at most 256 bytes, found 257");
  expect_named(error_with(1 << 20), "found 1048576");
}

TEST(CharacterMap, SizesThatDoNotFitAreErrors) {
  const std::string map = read(kUnigram).character_map;
  for (const std::uint32_t size : {0U, 3U, static_cast<std::uint32_t>(map.size()), 0xFFFFFFFCU}) {
    std::string damaged = map;
    std::memcpy(damaged.data(), &size, sizeof size);
    EXPECT_THROW(check_character_map(damaged, "load x"), Error) << size;
  }
  EXPECT_THROW(check_character_map("abc", "load x"), Error);
  EXPECT_THROW(check_character_map(map.substr(0, map.size() - 1), "load x"), Error);
  EXPECT_THROW(check_character_map(map + "x", "load x"), Error);
}

}  // namespace
}  // namespace talon::sentencepiece_model_test
