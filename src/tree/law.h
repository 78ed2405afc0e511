#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/types.h"

namespace talon {

/// A finite law over tokens, or what is left of one: the tokens that may have weight, ascending.
/// Number is double, or an exact type in proofs by enumeration.
template <typename Number>
struct Law {
  struct Entry {
    TokenId token;
    Number weight;
  };
  std::vector<Entry> entries;

  static Law certain(TokenId token) { return {{{token, Number(1)}}}; }

  Number of(TokenId token) const {
    const auto entry = find(token);
    return entry != entries.end() && entry->token == token ? entry->weight : Number(0);
  }
  Number total() const {
    Number sum(0);
    for (const Entry& entry : entries) sum = sum + entry.weight;
    return sum;
  }
  void divide_by(const Number& divisor) {
    for (Entry& entry : entries) entry.weight = entry.weight / divisor;
  }
  void remove(TokenId token) {
    const auto entry = find(token);
    if (entry != entries.end() && entry->token == token) entries.erase(entry);
  }

 private:
  auto find(TokenId token) const {
    return std::lower_bound(
        entries.begin(), entries.end(), token,
        [](const Entry& entry, TokenId wanted) { return entry.token < wanted; });
  }
};

/// The positive part of scale * p - q: where the target wants more than was proposed. Not
/// normalised.
template <typename Number>
Law<Number> excess(const Number& scale, const Law<Number>& p, const Law<Number>& q) {
  Law<Number> left;
  left.entries.reserve(p.entries.size());
  auto proposed = q.entries.begin();
  for (const auto& [token, weight] : p.entries) {
    while (proposed != q.entries.end() && proposed->token < token) ++proposed;
    Number more = scale * weight;
    if (proposed != q.entries.end() && proposed->token == token) more = more - proposed->weight;
    if (Number(0) < more) left.entries.push_back({token, std::move(more)});
  }
  return left;
}

/// The token at which the running sum of weights exceeds u of the total: the law's draw for a
/// uniform u in [0, 1). REQUIRES: some weight.
inline TokenId pick(const Law<double>& law, double u) {
  const double wanted = u * law.total();
  double sum = 0;
  TokenId last = -1;
  for (const auto& [token, weight] : law.entries) {
    if (!(weight > 0)) continue;
    sum += weight;
    last = token;
    if (sum > wanted) break;
  }
  return last;  // also when the sum fell short of the total by rounding
}

/// Draws up to `count` tokens one after the other without replacement, fewer when no more have
/// weight. draw(law) draws one token from a law that sums to 1.
template <typename Number, typename Draw>
std::vector<TokenId> draw_without_replacement(Law<Number> law, int count, Draw&& draw) {
  std::vector<TokenId> drawn;
  while (static_cast<int>(drawn.size()) < count) {
    const Number total = law.total();
    if (!(Number(0) < total)) break;
    law.divide_by(total);
    drawn.push_back(draw(law));
    law.remove(drawn.back());
  }
  return drawn;
}

}  // namespace talon
