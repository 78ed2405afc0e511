#pragma once

#include <optional>
#include <vector>

#include "backend/backend.h"
#include "model/cache/page_pool.h"

namespace talon {

/// Who uses which page of the near layers, and to which far page each belongs: the one of the same
/// positions of the same text. Who takes over a far page finds its near page here until that is
/// given up, the one longest unused first. Allocates in its constructor alone.
class NearMemory {
 public:
  static constexpr PageId kNoPage = PagePool::kNoPage;

  NearMemory(int pages, int far_pages);

  int total() const { return pool_.total(); }
  /// Pages that nobody holds.
  int available() const { return pool_.available(); }

  /// A page with one reference that belongs to no far page; nothing when every page is in use.
  std::optional<PageId> allocate();
  void acquire(PageId page) { pool_.acquire(page); }
  /// Drops a reference. What belongs to a far page stays there.
  void release(PageId page) { pool_.release(page); }

  /// The page that belongs to `far`, or kNoPage.
  PageId of(PageId far) const { return owned_[static_cast<std::size_t>(far)]; }
  /// From now on `page`, which belongs to none, belongs to `far`, which has none.
  void give(PageId page, PageId far);
  /// From now on nothing belongs to `far`.
  void take_from(PageId far);
  /// One reference, and it belongs to none: may be written.
  bool is_private(PageId page) const { return pool_.is_private(page); }

 private:
  PagePool pool_;              // those that belong to a far page are kept
  std::vector<PageId> far_;    // of those
  std::vector<PageId> owned_;  // by far page
};

}  // namespace talon
