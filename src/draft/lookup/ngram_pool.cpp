#include "draft/lookup/ngram_pool.h"

#include <algorithm>

#include "core/error.h"

namespace talon {

std::span<const NgramPool::Entry> NgramPool::after(TokenId first) const {
  const auto found = pool_.find(first);
  if (found == pool_.end()) return {};
  return found->second;
}

void NgramPool::add(TokenId first, Entry following) {
  expects(static_cast<int>(following.size()) == length_ - 1, "an n-gram of the pool's length");
  auto& entries = pool_[first];
  const auto known = std::find(entries.begin(), entries.end(), following);
  if (known != entries.end()) {
    entries.erase(known);
  } else if (static_cast<int>(entries.size()) == entries_) {
    entries.erase(entries.begin());
  }
  entries.push_back(std::move(following));
}

void NgramPool::add_all(std::span<const TokenId> text) {
  const auto length = static_cast<std::size_t>(length_);
  for (std::size_t begin = 0; begin + length <= text.size(); ++begin) {
    const auto ngram = text.subspan(begin, length);
    add(ngram[0], Entry(ngram.begin() + 1, ngram.end()));
  }
}

}  // namespace talon
