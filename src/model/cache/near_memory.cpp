#include "model/cache/near_memory.h"

#include "core/error.h"

namespace talon {

NearMemory::NearMemory(int pages, int far_pages)
    : pages_(static_cast<std::size_t>(pages)),
      owned_(static_cast<std::size_t>(far_pages), kNoPage),
      unused_(pages),
      available_(pages) {
  empty_.reserve(pages_.size());
  for (PageId page = pages - 1; page >= 0; --page) empty_.push_back(page);
}

std::optional<PageId> NearMemory::allocate() {
  if (available_ == 0) return std::nullopt;
  if (empty_.empty()) take_from(at(unused_.oldest()).far);
  const PageId page = empty_.back();
  empty_.pop_back();
  acquire(page);
  return page;
}

void NearMemory::acquire(PageId page) {
  Page& acquired = at(page);
  if (acquired.references++ > 0) return;
  --available_;
  if (acquired.far != kNoPage) unused_.take_out(page);
}

void NearMemory::release(PageId page) {
  Page& released = at(page);
  expects(released.references > 0, "a released page was held");
  if (--released.references > 0) return;
  ++available_;
  if (released.far != kNoPage) {
    unused_.push(page);
  } else {
    empty_.push_back(page);
  }
}

void NearMemory::give(PageId page, PageId far) {
  expects(is_private(page) && of(far) == kNoPage, "a page is given once, by its holder");
  at(page).far = far;
  owned_[static_cast<std::size_t>(far)] = page;
}

void NearMemory::take_from(PageId far) {
  const PageId page = of(far);
  if (page == kNoPage) return;
  owned_[static_cast<std::size_t>(far)] = kNoPage;
  at(page).far = kNoPage;
  if (at(page).references > 0) return;
  unused_.take_out(page);
  empty_.push_back(page);
}

bool NearMemory::is_private(PageId page) const {
  return at(page).references == 1 && at(page).far == kNoPage;
}

}  // namespace talon
