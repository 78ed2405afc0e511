#include "serve/predicted_tokens.h"

#include <bit>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace talon {
namespace {

constexpr std::size_t kBits = 64;

/// Where a token stands in one word of the prediction.
struct Places {
  std::size_t word = 0;
  std::uint64_t bits = 0;
};

std::unordered_map<TokenId, std::vector<Places>> places_of(std::span<const TokenId> prediction) {
  std::unordered_map<TokenId, std::vector<Places>> all;
  for (std::size_t i = 0; i < prediction.size(); ++i) {
    std::vector<Places>& places = all[prediction[i]];
    const std::size_t word = i / kBits;
    if (places.empty() || places.back().word != word) places.push_back({word, 0});
    places.back().bits |= std::uint64_t{1} << i % kBits;
  }
  return all;
}

}  // namespace

int predicted_tokens(std::span<const TokenId> prediction, std::span<const TokenId> answer) {
  const auto places = places_of(prediction);
  // Bit i of `row` is 0 where a common subsequence grows by the prediction's token i.
  const std::size_t words = (prediction.size() + kBits - 1) / kBits;
  std::vector<std::uint64_t> row(words, ~std::uint64_t{0}), equal(words);
  for (const TokenId token : answer) {
    const auto found = places.find(token);
    if (found == places.end()) continue;
    for (const auto& [word, bits] : found->second) equal[word] = bits;
    std::uint64_t carry = 0;
    for (std::size_t w = 0; w < words; ++w) {
      const std::uint64_t old = row[w], taken = old & equal[w];
      const std::uint64_t sum = old + taken, all = sum + carry;
      carry = sum < old || all < sum ? 1 : 0;
      row[w] = all | (old & ~equal[w]);
    }
    for (const auto& [word, bits] : found->second) equal[word] = 0;
  }
  int count = 0;
  for (const std::uint64_t word : row) count += std::popcount(~word);
  return count;
}

}  // namespace talon
