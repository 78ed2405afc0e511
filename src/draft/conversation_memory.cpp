#include "draft/conversation_memory.h"

#include <algorithm>

namespace talon {

void ConversationMemory::add(std::span<const TokenId> tokens) {
  const auto half = static_cast<std::size_t>(most_tokens_ / 2);
  if (half < 2 || tokens.empty()) return;
  const bool goes_on = volumes_[0].text && !last_.empty() && last_.size() <= tokens.size() &&
                       std::equal(last_.begin(), last_.end(), tokens.begin());
  std::span<const TokenId> added = goes_on ? tokens.subspan(last_.size()) : tokens;
  bool needs_border = !goes_on;
  if (added.size() >= half) {
    added = added.last(half - 1);
    needs_border = true;
  }

  Volume& newer = volumes_[0];
  if (newer.text && static_cast<std::size_t>(newer.text->size()) + added.size() + 1 > half) {
    volumes_[1] = std::move(newer);
    newer = {};
  }
  if (!newer.text) newer = {next_id_++, std::make_unique<SuffixAutomaton>()};
  if (needs_border) newer.text->append(kBorder);
  for (const TokenId token : added) newer.text->append(token);
  last_.assign(tokens.begin(), tokens.end());
}

int ConversationMemory::size() const {
  int tokens = 0;
  for (const Volume& volume : volumes_) tokens += volume.text ? volume.text->size() : 0;
  return tokens;
}

}  // namespace talon
