#include "text/sentencepiece/added_pieces.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "io/mapped_file.h"

namespace talon::added_pieces_test {
namespace {

using Match = AddedPieces::Match;

/// Tries every piece at every place.
std::optional<Match> find_slowly(std::span<const AddedPiece> pieces, std::string_view text,
                                 std::size_t from, std::span<const TextRange> own) {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    const AddedPiece* best = nullptr;
    for (const AddedPiece& piece : pieces) {
      const std::size_t size = piece.text.size();
      if (size == 0 || !text.substr(begin).starts_with(piece.text)) continue;
      if (piece.special && touches({begin, begin + size}, own)) continue;
      if (best == nullptr || size > best->text.size()) best = &piece;
    }
    if (best == nullptr) continue;
    std::size_t end = begin + best->text.size();
    while (best->takes_spaces && end < text.size() && text[end] == ' ') ++end;
    return Match{begin, end - begin, best->id};
  }
  return std::nullopt;
}

std::string described(const std::optional<Match>& match) {
  return match ? fmt::format("{} at {}, {} bytes", match->id, match->begin, match->size) : "none";
}

void expect_same(const std::vector<AddedPiece>& pieces, std::string_view text,
                 std::span<const TextRange> own = {}) {
  const AddedPieces added(pieces);
  for (std::size_t from = 0; from <= text.size(); ++from) {
    ASSERT_EQ(described(added.find(text, from, own)),
              described(find_slowly(pieces, text, from, own)));
  }
}

class Draws {
 public:
  std::size_t below(std::size_t bound) { return random_() % bound; }
  std::string text(std::size_t longest) {
    std::string drawn(below(longest + 1), 'a');
    for (char& c : drawn) c = "aab\xFF "[below(5)];
    return drawn;
  }
  std::vector<TextRange> ranges(std::size_t size) {
    std::vector<TextRange> apart;
    for (std::size_t begin = below(4); begin < size; begin += 1 + below(9)) {
      const std::size_t end = std::min(size, begin + 1 + below(3));
      apart.push_back({begin, end});
      begin = end;
    }
    return apart;
  }

 private:
  std::mt19937 random_{5};
};

TEST(AddedPieces, AreFoundAsIfEachWereTriedEverywhere) {
  Draws draws;
  for (int round = 0; round < 2000; ++round) {
    std::vector<AddedPiece> pieces;
    for (std::size_t count = draws.below(12); count > 0; --count) {
      const auto id = static_cast<TokenId>(pieces.size());
      pieces.push_back({id, draws.text(5), draws.below(3) != 0, draws.below(4) == 0});
    }
    const std::string text = draws.text(24);
    expect_same(pieces, text);
    expect_same(pieces, text, draws.ranges(text.size()));
  }
}

TEST(AddedPieces, OfTheSameTextTheFirstThatMayBeThereIsFound) {
  const std::vector<AddedPiece> pieces = {
      {4, "<a>", true}, {3, "<a>", false}, {5, "<a>", false}, {6, "<", false}};
  const AddedPieces added(pieces);
  const TextRange own{2, 3};
  EXPECT_EQ(described(added.find("<a>", 0)), "4 at 0, 3 bytes");
  EXPECT_EQ(described(added.find("<a>", 0, {&own, 1})), "3 at 0, 3 bytes");
}

TEST(AddedPieces, OfAnySizeAreFoundWhole) {
  std::vector<AddedPiece> pieces;
  for (const std::size_t size : {511, 512, 513, 1023, 1024, 1025}) {
    const auto id = static_cast<TokenId>(size);
    pieces.push_back({id, std::string(size, 'a')});
    pieces.push_back({-id, std::string(size, 'a') + "b"});
  }
  const AddedPieces added(pieces);
  for (std::size_t size = 505; size < 1030; ++size) {
    for (const char* end : {"", "b", "c"}) {
      const std::string text = std::string(size, 'a') + end;
      ASSERT_EQ(described(added.find(text, 0)), described(find_slowly(pieces, text, 0, {})));
    }
  }
}

TEST(AddedPiecesBombs, ManyAreFoundAsFewAre) {
  constexpr TokenId kPieces = 200'000;
  std::vector<AddedPiece> pieces;
  std::string text(400'000, '<');
  for (TokenId id = 0; id < kPieces; ++id) {
    pieces.push_back({id, fmt::format("<{}>", id)});
    text += pieces.back().text;
  }
  const AddedPieces added(std::move(pieces));
  std::size_t at = 0;
  for (TokenId id = 0; id < kPieces; ++id) {
    const auto match = added.find(text, at);
    ASSERT_TRUE(match.has_value()) << id;
    ASSERT_EQ(match->id, id);
    at = match->begin + match->size;
  }
  EXPECT_EQ(at, text.size());
}

TEST(AddedPiecesBombs, ManyAreAddedToAModelAsFewAre) {
  const MappedFile file(TALON_TEST_DATA "/text/spm_bpe/tokenizer.model");
  const SentencePieceModel model = parse_sentencepiece(file.bytes(), "load x");
  const auto pieces = static_cast<TokenId>(model.pieces.size());
  constexpr TokenId kAdded = 400'000;
  std::vector<AddedPiece> added;
  for (TokenId i = 0; i < kAdded; ++i) added.push_back({pieces + i, fmt::format("<{}>", i)});
  // Texts that another token has already: that one is found.
  added.push_back({pieces + kAdded, "<7>"});
  added.push_back({pieces + kAdded + 1, "</s>"});
  const TokenizerParts parts = load_sentencepiece(model, "load x", added);
  EXPECT_EQ(parts.vocabulary.size(), pieces + kAdded + 2);
  EXPECT_EQ(parts.vocabulary.piece(pieces + kAdded), "<7>");
  EXPECT_EQ(parts.encoder->encode("<7></s><399999>", {}),
            (std::vector<TokenId>{pieces + 7, 2, pieces + kAdded - 1}));
}

}  // namespace
}  // namespace talon::added_pieces_test
