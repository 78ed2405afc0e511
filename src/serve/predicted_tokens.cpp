#include "serve/predicted_tokens.h"

#include <bit>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace talon {

int predicted_tokens(std::span<const TokenId> prediction, std::span<const TokenId> answer) {
  constexpr std::size_t kBits = 64;
  std::unordered_map<TokenId, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < prediction.size(); ++i) places[prediction[i]].push_back(i);

  // Bit i of `row` is 0 where a common subsequence grows by the prediction's token i.
  const std::size_t words = (prediction.size() + kBits - 1) / kBits;
  std::vector<std::uint64_t> row(words, ~std::uint64_t{0}), equal(words);
  for (const TokenId token : answer) {
    const auto found = places.find(token);
    if (found == places.end()) continue;
    for (const std::size_t i : found->second) equal[i / kBits] |= std::uint64_t{1} << i % kBits;
    std::uint64_t carry = 0;
    for (std::size_t w = 0; w < words; ++w) {
      const std::uint64_t old = row[w], taken = old & equal[w];
      const std::uint64_t sum = old + taken, all = sum + carry;
      carry = sum < old || all < sum ? 1 : 0;
      row[w] = all | (old & ~equal[w]);
    }
    for (const std::size_t i : found->second) equal[i / kBits] = 0;
  }
  int count = 0;
  for (const std::uint64_t word : row) count += std::popcount(~word);
  return count;
}

}  // namespace talon
