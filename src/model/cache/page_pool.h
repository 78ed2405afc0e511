#pragma once

#include <optional>
#include <vector>

#include "backend/backend.h"
#include "model/cache/page_queue.h"

namespace talon {

/// Who holds which page. One that nobody holds is empty, or kept for what lies in it. Allocates in
/// its constructor alone.
class PagePool {
 public:
  static constexpr PageId kNoPage = PageQueue::kNoPage;

  explicit PagePool(int pages);

  int total() const { return static_cast<int>(pages_.size()); }
  /// Pages that nobody holds.
  int available() const { return available_; }

  /// An empty page, from now on with one reference; nothing when there is none.
  std::optional<PageId> allocate();
  /// The page to let_go() of before allocate(): of those that are kept the one longest unused.
  /// kNoPage: there is an empty one, or none that nobody holds.
  PageId next_to_go() const { return empty_.empty() ? unused_.oldest() : kNoPage; }
  void acquire(PageId page);
  /// Drops a reference. What lies in a page that is kept stays.
  void release(PageId page);

  /// From now on the page is kept. REQUIRES: is_private(page).
  void keep(PageId page);
  /// From now on it is not: empty, if nobody holds it. REQUIRES: is_kept(page).
  void let_go(PageId page);
  bool is_kept(PageId page) const { return at(page).kept; }
  int references(PageId page) const { return at(page).references; }
  /// One reference and not kept: may be written.
  bool is_private(PageId page) const { return at(page).references == 1 && !at(page).kept; }

 private:
  struct Page {
    int references = 0;
    bool kept = false;
  };
  Page& at(PageId page) { return pages_[static_cast<std::size_t>(page)]; }
  const Page& at(PageId page) const { return pages_[static_cast<std::size_t>(page)]; }

  std::vector<Page> pages_;
  std::vector<PageId> empty_;
  PageQueue unused_;  // kept, and held by nobody
  int available_ = 0;
};

}  // namespace talon
