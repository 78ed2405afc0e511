#include "verify/relaxed/neighbour_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "verify/relaxed/test_codebook.h"

namespace talon::neighbour_table_test {
namespace {

using test::codebook;
using test::CodebookFile;

TEST(NeighbourTable, IsTheOfficialOne) {
  constexpr int kAll = 1000;
  for (const Json& stored : test::recorded()["codebooks"]) {
    const std::string name = stored["name"];
    const NeighbourTable table = test::table_of(name, kAll);
    const auto expected = stored["table"].get<std::vector<std::vector<TokenId>>>();
    for (std::size_t code = 0; code < expected.size(); ++code) {
      const NearestCodes found = table.of(static_cast<TokenId>(code));
      std::vector<TokenId> tokens;
      for (std::size_t i = 0; i < found.size(); ++i) tokens.push_back(found[i]);
      EXPECT_EQ(tokens, expected[code]) << name << code;
    }
  }
}

TEST(NeighbourTable, LeavesTokensThatAreNoCodesAloneAndUsesUnitRowsIfAsked) {
  const std::vector<float> rows = {1, 0, 10, 1, 1, 0.5f};
  const NeighbourTable stored(CodeVectors(rows, 2, /*unit=*/false), 1, /*first=*/4);
  const NeighbourTable unit(CodeVectors(rows, 2, /*unit=*/true), 1, /*first=*/4);
  EXPECT_TRUE(stored.of(3).empty());
  EXPECT_TRUE(stored.of(7).empty());
  EXPECT_EQ(stored.of(4)[0], 6);
  EXPECT_EQ(unit.of(4)[0], 5) << "10, 1 points nearly where 1, 0 does";
}

TEST(NeighbourTable, OfManyCodesIsThatOfAllDistances) {
  constexpr int kCodes = 333, kKept = 20;
  std::vector<float> values;
  for (int i = 0; i < 3 * kCodes; ++i) values.push_back(static_cast<float>(i * i % 97));
  const CodeVectors vectors(values, 3, /*unit=*/false);
  const NeighbourTable table(vectors, kKept, 0);
  for (int code = 0; code < kCodes; ++code) {
    std::vector<std::pair<double, TokenId>> all;
    for (int other = 0; other < kCodes; ++other) {
      double squares = 0;
      for (int i = 0; i < 3; ++i)
        squares += std::pow(values[3 * code + i] - values[3 * other + i], 2);
      if (other != code) all.emplace_back(squares, other);
    }
    std::ranges::sort(all);
    for (std::size_t i = 0; i < kKept; ++i) ASSERT_EQ(table.of(code)[i], all[i].second) << code;
  }
}

TEST(NeighbourTables, OneServesAllThatAskForNoMoreOfTheSameCodes) {
  const CodeVectors codes(codebook("A"), 8, /*unit=*/true), others(codebook("A"), 8, false);
  NeighbourTables tables;
  auto table = tables.get(codes, 9, 0);
  EXPECT_EQ(table->of(3).size(), 16u) << "a few more than were asked for";
  EXPECT_EQ(table->bytes(), 64u * 16 * 2);
  const NeighbourTable alone(codes, 9, 0);
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(table->of(3)[i], alone.of(3)[i]);
  EXPECT_EQ(tables.get(codes, 16, 0), table);
  EXPECT_EQ(tables.get(CodeVectors(codebook("A"), 8, true), 2, 0), table);
  EXPECT_NE(tables.get(codes, 17, 0), table);
  EXPECT_NE(tables.get(codes, 9, 4), table);
  EXPECT_NE(tables.get(others, 9, 0), table);
  const std::weak_ptr<const NeighbourTable> left = table;
  table.reset();
  EXPECT_TRUE(left.expired()) << "it goes with the last that has it";
}

TEST(NeighbourTable, ReadsCodesAsTheirTokenizerUsesThem) {
  const std::vector<float> rows = {1, 0, 10, 1, 1, 0.5f};  // as above
  const auto nearest = [](const CodebookFile& file, std::optional<bool> unit) {
    return NeighbourTable(read_code_vectors(file.path(), unit), 1, 0).of(0)[0];
  };
  constexpr TokenId kByUnit = 1, kByStored = 2;
  const CodebookFile plain("", "", rows, 2);
  const CodebookFile janus("gen_vision_model.", "decoder.mid.0.norm1.weight", rows, 2);
  const CodebookFile chameleon("", "decoder.up.0.block.0.norm1.weight", rows, 2);
  const CodebookFile of_model("model.vqmodel.", "encoder.conv_in.weight", rows, 2);
  EXPECT_EQ(nearest(plain, std::nullopt), kByUnit);
  EXPECT_EQ(nearest(janus, std::nullopt), kByUnit);
  EXPECT_EQ(nearest(chameleon, std::nullopt), kByStored);
  EXPECT_EQ(nearest(of_model, std::nullopt), kByStored);
  for (const CodebookFile* file : {&plain, &janus, &chameleon, &of_model}) {
    EXPECT_EQ(nearest(*file, true), kByUnit);
    EXPECT_EQ(nearest(*file, false), kByStored);
  }
}

}  // namespace
}  // namespace talon::neighbour_table_test
