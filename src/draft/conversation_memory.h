#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/types.h"
#include "draft/lookup/suffix_automaton.h"

namespace talon {

/// Earlier conversations, as at most two suffix automata: the newer one takes what is added, and
/// when it holds half of what may be kept the older one is forgotten and it becomes the older.
class ConversationMemory {
 public:
  /// most_tokens: kept at most; 0: remembers nothing.
  explicit ConversationMemory(int most_tokens) : most_tokens_(most_tokens) {}

  /// Remembers a conversation that ended; of a longer one than half of what may be kept, its end.
  /// One that begins with the one remembered last goes on with it.
  void add(std::span<const TokenId> tokens);

  /// Part of the memory. The id is that of no other, so that a match in a forgotten one is known to
  /// be stale.
  struct Volume {
    std::uint64_t id = 0;
    std::unique_ptr<SuffixAutomaton> text;  // null: nothing yet
  };
  static constexpr std::size_t kVolumes = 2;
  const std::array<Volume, kVolumes>& volumes() const { return volumes_; }  // the newer one first
  int size() const;                                                         // tokens

  static constexpr TokenId kBorder = -1;  // between conversations; no text has it

 private:
  int most_tokens_;
  std::uint64_t next_id_ = 1;
  std::array<Volume, kVolumes> volumes_;
  std::vector<TokenId> last_;
};

}  // namespace talon
