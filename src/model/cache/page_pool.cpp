#include "model/cache/page_pool.h"

#include "core/error.h"

namespace talon {

PagePool::PagePool(int pages)
    : pages_(static_cast<std::size_t>(pages)), unused_(pages), available_(pages) {
  empty_.reserve(pages_.size());
  for (PageId page = pages - 1; page >= 0; --page) empty_.push_back(page);
}

std::optional<PageId> PagePool::allocate() {
  if (empty_.empty()) return std::nullopt;
  const PageId page = empty_.back();
  empty_.pop_back();
  acquire(page);
  return page;
}

void PagePool::acquire(PageId page) {
  Page& acquired = at(page);
  if (acquired.references++ > 0) return;
  --available_;
  if (acquired.kept) unused_.take_out(page);
}

void PagePool::release(PageId page) {
  Page& released = at(page);
  expects(released.references > 0, "a released page was held");
  if (--released.references > 0) return;
  ++available_;
  if (released.kept) {
    unused_.push(page);
  } else {
    empty_.push_back(page);
  }
}

void PagePool::keep(PageId page) {
  expects(is_private(page), "a page is kept once, by its holder");
  at(page).kept = true;
}

void PagePool::let_go(PageId page) {
  expects(is_kept(page), "a page that is let go of was kept");
  at(page).kept = false;
  if (at(page).references > 0) return;
  unused_.take_out(page);
  empty_.push_back(page);
}

}  // namespace talon
