#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "model/cache/near_memory.h"

namespace talon {

/// The pages that one sequence holds of the near layers: those that its next rows see, in a run
/// that ends where its far pages do, or earlier where many more rows have been promised room than
/// are in flight at once. Positions are counted from the first token of the text.
class NearPages {
 public:
  /// A row sees the last `reach` positions, itself among them.
  NearPages(NearMemory& memory, int reach) : memory_(memory), reach_(reach) {}
  ~NearPages() { release_from(0); }
  NearPages(const NearPages&) = delete;
  NearPages& operator=(const NearPages&) = delete;

  /// Page by page of the text; those that are not held are 0.
  std::span<const PageId> pages() const { return pages_; }

  /// Takes over what belongs to `far`, the pages of the text's first positions, for as many of the
  /// first `length` as can be gone on from, and lets go of all behind them. Returns that number.
  int adopt(std::span<const PageId> far, int length);
  /// Room for `rows` more positions, the last of them in page `end` - 1, of which `at_once` at most
  /// are in flight at once; false if there is none (nothing changes then).
  bool reserve(std::size_t end, int rows, int at_once);
  /// The text has grown to `length`: lets go of pages that are out of reach, and gives the rows
  /// that were promised room theirs, as far as there are pages. The next reserve() wants the rest.
  void slide(int length);
  void release_from(std::size_t index);

  bool holds(std::size_t index) const { return index >= begin_ && index < end_; }
  PageId at(std::size_t index) const { return pages_[index]; }
  /// REQUIRES: holds(index). Takes over the reference to `page` and drops the one to what was
  /// there.
  void replace(std::size_t index, PageId page);

  /// Pages that a text with so many rows in flight at once needs, however long it is.
  static int most(int reach, int at_once);
  /// The rows in flight at once for which so many pages are enough.
  static int most_at_once(int reach, int pages);

 private:
  std::size_t first_needed(int length) const;

  NearMemory& memory_;
  int reach_;
  std::vector<PageId> pages_;
  std::size_t begin_ = 0, end_ = 0;  // held
};

}  // namespace talon
