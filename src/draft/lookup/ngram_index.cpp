#include "draft/lookup/ngram_index.h"

#include "core/error.h"

namespace talon {

NgramIndex::NgramIndex(int max_n) : levels_(static_cast<std::size_t>(max_n)) {
  expects(max_n >= 1, "n-grams of at least one token");
}

void NgramIndex::append(TokenId token) {
  const auto position = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(token);
  // An n-gram is the (n-1)-gram that ends one position earlier, named by where that one ended
  // first, and this token: the pair is a key without collisions.
  std::int32_t shorter_class = 0;
  for (std::size_t level_index = 0; level_index < levels_.size(); ++level_index) {
    Level& level = levels_[level_index];
    if (static_cast<std::size_t>(position) < level_index) {
      level.previous.push_back(-1);
      level.first.push_back(position);
      continue;
    }
    if (level_index > 0) {
      shorter_class = levels_[level_index - 1].first[static_cast<std::size_t>(position - 1)];
    }
    const std::uint64_t key =
        (static_cast<std::uint64_t>(static_cast<std::uint32_t>(shorter_class)) << 32) |
        static_cast<std::uint32_t>(token);
    const auto [entry, is_new] = level.last.try_emplace(key, position);
    const std::int32_t before = is_new ? -1 : entry->second;
    level.previous.push_back(before);
    level.first.push_back(is_new ? position : level.first[static_cast<std::size_t>(before)]);
    entry->second = position;
  }
}

int NgramIndex::previous(int n, int position) const {
  return levels_[static_cast<std::size_t>(n - 1)].previous[static_cast<std::size_t>(position)];
}

}  // namespace talon
