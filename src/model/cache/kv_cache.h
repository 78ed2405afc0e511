#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "core/types.h"
#include "model/cache/page_index.h"
#include "model/cache/state_memory.h"
#include "model/config/config.h"

namespace talon {

class KvSequence;

/// `pages` pages for the keys and values of a model.
KvShape kv_shape(const ModelConfig& config, int pages, KvType type = KvType::f16);
/// `shape` with as many pages as the budget holds. Throws Error if that is none.
KvShape within_budget(KvShape shape, std::size_t budget_bytes);

/// A fixed number of pages of keys and values for all sequences. Full pages of committed tokens are
/// remembered by the tokens they hold, so that a later sequence with the same beginning reuses them
/// (a page is shared by reference count and never written while shared); remembered pages are given
/// up, oldest first, when room is needed. A model with states (StateMemory) reuses a prefix where
/// there is a snapshot behind it. Must outlive its sequences. One caller at a time.
class KvCache {
 public:
  /// REQUIRES: shape.pages is at least one.
  KvCache(Backend& backend, const KvShape& shape);
  ~KvCache();

  /// A new sequence that begins with the longest remembered prefix of `prompt`, but always leaves
  /// at least the last prompt token to be computed, and begins with `most` tokens at most. `reuse`
  /// = false starts empty. Texts with different roots share nothing.
  KvSequence start(std::span<const TokenId> prompt, bool reuse = true, const TextRoot& root = {},
                   int most = INT32_MAX);

  int total_pages() const;
  int free_pages() const;  // never used, or held only by the memory of prefixes
  std::size_t bytes() const;
  KvStore& store();
  StateMemory& states();

 private:
  friend class KvSequence;
  struct State;
  std::unique_ptr<State> state_;
};

/// The cached positions of one sequence: `length()` committed ones, then rows of the forward in
/// flight. Move-only; gives its pages back when destroyed. After a forward over n rows, keep() says
/// which of them become committed.
class KvSequence {
 public:
  KvSequence(KvSequence&&) noexcept;
  KvSequence& operator=(KvSequence&&) noexcept;
  ~KvSequence();

  int length() const;
  /// Tokens of the committed positions.
  std::span<const TokenId> tokens() const;

  /// Makes room for `rows` more positions; false if the budget does not allow it (nothing changes
  /// then).
  bool reserve(int rows);
  /// The slot of row i of the forward in flight (it lies at logical position length() + i while it
  /// is in flight).
  Slot slot(int row) const;
  std::span<const PageId> pages() const;

  /// Commits rows `path` (ascending, parents before children) of the forward in flight, whose
  /// tokens are `tokens`; the others are dropped. Moves cache rows where path is not 0, 1, 2, ...
  void keep(std::span<const NodeId> path, std::span<const TokenId> tokens);
  /// Forgets committed positions from `length` on; of a model with states, those from the last
  /// snapshot before it on.
  void truncate(int length);

  /// From now on `guide` has as many rows, and reserve(), keep() and truncate() do the same to it:
  /// its text is `prompt`, then what follows the same number of tokens here. REQUIRES: neither has
  /// rows or states, `prompt` is as long as this text's own.
  void pair(KvSequence guide, std::vector<TokenId> prompt);
  KvSequence* guide();  // null: none
  /// What the guide's text has where this one has `tokens` from `position` on.
  std::vector<TokenId> guide_tokens(int position, std::span<const TokenId> tokens) const;

  /// The rows of a forward of which row 0 is `first`, in layers with a state (SequenceState).
  void lay_out_states(int first, int count, std::span<const NodeId> parents, bool kept, int flight,
                      AttentionLayout& layout);
  void settle_states();

 private:
  friend class KvCache;
  struct State;
  explicit KvSequence(std::unique_ptr<State> state);
  bool reserve_own(int rows);
  std::unique_ptr<State> state_;
};

}  // namespace talon
