#include "model/cache/near_memory.h"

#include "core/error.h"

namespace talon {

NearMemory::NearMemory(int pages, int far_pages)
    : pool_(pages),
      far_(static_cast<std::size_t>(pages), kNoPage),
      owned_(static_cast<std::size_t>(far_pages), kNoPage) {}

std::optional<PageId> NearMemory::allocate() {
  if (const PageId page = pool_.next_to_go(); page != kNoPage) {
    take_from(far_[static_cast<std::size_t>(page)]);
  }
  return pool_.allocate();
}

void NearMemory::give(PageId page, PageId far) {
  expects(of(far) == kNoPage, "a far page has one near page");
  pool_.keep(page);
  far_[static_cast<std::size_t>(page)] = far;
  owned_[static_cast<std::size_t>(far)] = page;
}

void NearMemory::take_from(PageId far) {
  const PageId page = of(far);
  if (page == kNoPage) return;
  owned_[static_cast<std::size_t>(far)] = kNoPage;
  pool_.let_go(page);
}

}  // namespace talon
