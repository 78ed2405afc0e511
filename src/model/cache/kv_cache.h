#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "core/types.h"
#include "model/cache/cache_shape.h"
#include "model/cache/page_index.h"
#include "model/cache/state_memory.h"

namespace talon {

class KvSequence;

/// A cache has pages of its far layers, whose rows see all of a text, and of its near ones
/// (NearShape), which a sequence lets go of behind the reach of its next row.
enum class KvLayers { far, near };
/// Where a layer of a model's cache lies.
struct KvPlace {
  KvStore* store = nullptr;
  int layer = 0;  // of the store
  KvLayers of = KvLayers::far;
};

/// A fixed number of pages of keys and values for all sequences. Full pages of committed tokens are
/// remembered by the tokens they hold, so that a later sequence with the same beginning reuses them
/// (a page is shared by reference count and never written while shared); remembered pages are given
/// up, oldest first, when room is needed. A model with states (StateMemory) reuses a prefix where
/// there is a snapshot behind it, one with near layers where their pages are remembered, too. Must
/// outlive its sequences. One caller at a time.
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
  /// Of far and of near layers: never used, or held only by the memory of prefixes.
  int free_pages() const;
  /// Most rows that one sequence may have in flight, if it is alone.
  int rows_at_once() const;
  std::size_t bytes() const;
  KvStore& store();       // of the far layers; of a model that has none, of the near ones
  bool has_near() const;  // layers
  KvPlace place(int layer) const;
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

  /// Makes room for `rows` more positions, of which `at_once` at most will be in flight at once;
  /// false if the budget does not allow it (nothing changes then).
  bool reserve(int rows, int at_once = INT32_MAX);
  /// The slot of row i of the forward in flight (it lies at logical position length() + i while it
  /// is in flight).
  Slot slot(int row, KvLayers of = KvLayers::far) const;
  std::span<const PageId> pages(KvLayers of = KvLayers::far) const;
  /// Where a layer of the cache lies that it is in.
  KvPlace place(int layer) const;

  /// Commits rows `path` (ascending, parents before children) of the forward in flight, whose
  /// tokens are `tokens`; the others are dropped. Moves cache rows where path is not 0, 1, 2, ...
  void keep(std::span<const NodeId> path, std::span<const TokenId> tokens);
  /// Commits `count` positions for which there is room as if some text stood there that was never
  /// run: to time what follows it.
  void assume(int count);
  /// Forgets committed positions from `length` on; of a model with states, those from the last
  /// snapshot before it on; of one with near layers, those from where their pages are gone on.
  void truncate(int length);

  /// From now on reserve(), keep() and truncate() do the same to `guide`, whose text is `prompt`,
  /// then what follows the prompt here. `lead`: how many tokens the prompt here is longer; the
  /// first `lead` rows have none beside them. REQUIRES: neither has rows or states.
  void pair(KvSequence guide, std::vector<TokenId> prompt, int lead = 0);
  /// From now on there is no guide: its pages are given back as those of a sequence that ends.
  void unpair();
  KvSequence* guide();  // null: none
  const KvSequence* guide() const;
  int guide_lead() const;
  /// Of rows from `position` on, those that have none beside them.
  int rows_without_guide(int position, int rows) const;
  /// What the guide's text has where this one has `tokens` from `position` on, those left out that
  /// have nothing beside them.
  std::vector<TokenId> guide_tokens(int position, std::span<const TokenId> tokens) const;

  /// The rows of a forward of which row 0 is `first`, in layers with a state (SequenceState).
  void lay_out_states(int first, int count, std::span<const NodeId> parents, bool kept, int flight,
                      AttentionLayout& layout);
  void settle_states();

 private:
  friend class KvCache;
  struct State;
  explicit KvSequence(std::unique_ptr<State> state);
  bool reserve_own(int rows, int at_once);
  void move_rows(KvLayers of, std::span<const NodeId> path);
  void keep_guide(std::span<const NodeId> path, std::span<const TokenId> tokens);
  std::unique_ptr<State> state_;
};

}  // namespace talon
