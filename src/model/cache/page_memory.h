#pragma once

#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "core/types.h"
#include "model/cache/page_index.h"
#include "model/cache/page_pool.h"

namespace talon {

/// Who uses which page, and what the unused ones still hold. Remembered pages form a tree: the path
/// from the root to a page spells the tokens of a prompt, kPageRows a page (fewer only in a leaf).
/// A remembered page is immutable; when allocate() finds no empty page, the one longest unused is
/// given up. Who holds a page holds its parent, and lets go of it later: so the one longest unused
/// has no children. Allocates in its constructor alone.
class PageMemory {
 public:
  using Place = PageIndex::Place;
  using Match = PageIndex::Match;
  static constexpr PageId kNoPage = PageIndex::kNoPage;

  explicit PageMemory(int pages, PageIndex::Hash hash = PageIndex::mix);

  int total() const { return pool_.total(); }
  /// Empty pages and those that only the memory holds.
  int available() const { return pool_.available(); }

  /// A page with one reference and no content; nothing when every page is in use.
  std::optional<PageId> allocate();
  void acquire(PageId page) { pool_.acquire(page); }
  /// Drops a reference. The content of a remembered page stays.
  void release(PageId page) { pool_.release(page); }

  /// The page at `place` that shares the longest beginning with `tokens`.
  Match longest_match(const Place& place, std::span<const TokenId> tokens) {
    return index_.longest_match(place, tokens);
  }
  /// Remembers the full page at `place` and returns it, or the page remembered there with the same
  /// tokens.
  PageId remember(PageId page, const Place& place, std::span<const TokenId> tokens);
  /// Remembers a page that is not full unless a remembered one begins with the same tokens.
  void remember_partial(PageId page, const Place& place, std::span<const TokenId> tokens);

  bool is_remembered(PageId page) const { return pool_.is_kept(page); }
  /// One reference and not remembered: may be written.
  bool is_private(PageId page) const { return pool_.is_private(page); }
  /// Makes a remembered page private if it has one reference and no children.
  bool forget_if_ours(PageId page);

  /// Rows looked at so far, by all calls.
  std::int64_t probes() const { return index_.probes(); }

 private:
  int& children(PageId page) { return children_[static_cast<std::size_t>(page)]; }
  void insert(PageId page, const Place& place, std::span<const TokenId> tokens);
  void forget(PageId page);

  PageIndex index_;
  PagePool pool_;  // remembered pages are kept
  std::vector<int> children_;
};

}  // namespace talon
