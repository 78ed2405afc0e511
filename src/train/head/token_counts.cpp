#include "train/head/token_counts.h"

#include <algorithm>
#include <numeric>

namespace talon {

TokenCounts count_responses(const Dataset& data, std::span<const std::size_t> conversations,
                            int vocabulary) {
  TokenCounts counts(static_cast<std::size_t>(vocabulary), 0);
  for (const std::size_t index : conversations) {
    const Conversation conversation = data.read(index);
    const auto begin = static_cast<std::size_t>(conversation.response_begin);
    for (const TokenId token : conversation.tokens.subspan(begin))
      ++counts[static_cast<std::size_t>(token)];
  }
  return counts;
}

std::vector<TokenId> frequent_tokens(const TokenCounts& counts, std::size_t size) {
  std::vector<TokenId> tokens(counts.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::stable_sort(tokens.begin(), tokens.end(), [&](TokenId a, TokenId b) {
    return counts[static_cast<std::size_t>(a)] > counts[static_cast<std::size_t>(b)];
  });
  tokens.resize(std::min(size, tokens.size()));
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

TokenCounts seen_before(TokenCounts counts, std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) {
    if (token >= 0 && static_cast<std::size_t>(token) < counts.size()) {
      counts[static_cast<std::size_t>(token)] += kSeenBefore;
    }
  }
  return counts;
}

double coverage(const TokenCounts& counts, std::span<const TokenId> tokens) {
  const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  std::int64_t covered = 0;
  for (const TokenId token : tokens) covered += counts[static_cast<std::size_t>(token)];
  return all == 0 ? 0 : static_cast<double>(covered) / static_cast<double>(all);
}

std::vector<TokenId> union_of(std::span<const TokenId> frequent, std::span<const TokenId> batch,
                              std::size_t multiple, int vocabulary) {
  std::vector<bool> chosen(static_cast<std::size_t>(vocabulary), false);
  std::size_t count = 0;
  const auto choose = [&](TokenId token) {
    if (chosen[static_cast<std::size_t>(token)]) return;
    chosen[static_cast<std::size_t>(token)] = true;
    ++count;
  };
  for (const TokenId token : frequent) choose(token);
  for (const TokenId token : batch) choose(token);
  for (TokenId token = 0; token < vocabulary && count % multiple != 0; ++token) choose(token);
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < vocabulary; ++token) {
    if (chosen[static_cast<std::size_t>(token)]) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace talon
