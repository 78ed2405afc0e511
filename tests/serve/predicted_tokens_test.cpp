#include "serve/predicted_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace talon::test::predicted_tokens_test {
namespace {

using Tokens = std::vector<TokenId>;

/// The textbook's table.
int longest_common_subsequence(const Tokens& a, const Tokens& b) {
  std::vector<int> row(b.size() + 1);
  for (const TokenId token : a) {
    int diagonal = 0;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const int above = row[j + 1];
      row[j + 1] = token == b[j] ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  return row.back();
}

TEST(PredictedTokens, AreThoseThatCameInOrder) {
  EXPECT_EQ(predicted_tokens({}, Tokens{1}), 0);
  EXPECT_EQ(predicted_tokens(Tokens{1}, {}), 0);
  EXPECT_EQ(predicted_tokens(Tokens{1, 2, 3}, Tokens{1, 9, 2, 3, 3}), 3);
  EXPECT_EQ(predicted_tokens(Tokens{3, 2, 1}, Tokens{1, 2, 3}), 1);
}

TEST(PredictedTokens, AreThoseOfTheTextbooksTable) {
  std::mt19937 random(20);
  for (int trial = 0; trial < 300; ++trial) {
    const auto draw = [&](int most) { return static_cast<int>(random() % (most + 1u)); };
    const int vocabulary = 1 + draw(6);
    const auto text = [&] {
      Tokens drawn(static_cast<std::size_t>(draw(200)));
      for (TokenId& token : drawn) token = draw(vocabulary - 1);
      return drawn;
    };
    const Tokens prediction = text(), answer = text();
    EXPECT_EQ(predicted_tokens(prediction, answer), longest_common_subsequence(prediction, answer));
  }
}

}  // namespace
}  // namespace talon::test::predicted_tokens_test
