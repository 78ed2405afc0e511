#include "model/cache/page_memory.h"

#include "core/error.h"

namespace talon {

PageMemory::PageMemory(int pages, PageIndex::Hash hash)
    : index_(pages, hash),
      pages_(static_cast<std::size_t>(pages)),
      unused_(pages),
      available_(pages) {
  empty_.reserve(pages_.size());
  for (PageId page = pages - 1; page >= 0; --page) empty_.push_back(page);
}

std::optional<PageId> PageMemory::allocate() {
  if (available_ == 0) return std::nullopt;
  if (empty_.empty()) {
    const PageId given_up = unused_.oldest();
    expects(given_up != kNoPage && at(given_up).children == 0,
            "who holds a page lets go of its parent later");
    unused_.take_out(given_up);
    forget(given_up);
    empty_.push_back(given_up);
  }
  const PageId page = empty_.back();
  empty_.pop_back();
  acquire(page);
  return page;
}

void PageMemory::acquire(PageId page) {
  Page& acquired = at(page);
  if (acquired.references++ > 0) return;
  --available_;
  if (acquired.remembered) unused_.take_out(page);
}

void PageMemory::release(PageId page) {
  Page& released = at(page);
  expects(released.references > 0, "a released page was held");
  if (--released.references > 0) return;
  ++available_;
  if (released.remembered) {
    unused_.push(page);
  } else {
    empty_.push_back(page);
  }
}

PageId PageMemory::remember(PageId page, const Place& place, std::span<const TokenId> tokens) {
  const Match match = longest_match(place, tokens);
  if (match.rows == kPageRows) return match.page;
  insert(page, place, tokens);
  return page;
}

void PageMemory::remember_partial(PageId page, const Place& place,
                                  std::span<const TokenId> tokens) {
  const Match match = longest_match(place, tokens);
  if (match.rows == static_cast<int>(tokens.size())) return;
  insert(page, place, tokens);
}

void PageMemory::insert(PageId page, const Place& place, std::span<const TokenId> tokens) {
  expects(is_private(page), "a page is remembered once, by its holder");
  index_.insert(page, place, tokens);
  at(page).remembered = true;
  if (place.parent != kNoPage) ++at(place.parent).children;
}

bool PageMemory::is_private(PageId page) const {
  return at(page).references == 1 && !at(page).remembered;
}

bool PageMemory::forget_if_ours(PageId page) {
  if (at(page).references != 1 || at(page).children > 0) return false;
  if (at(page).remembered) forget(page);
  return true;
}

void PageMemory::forget(PageId page) {
  const PageId parent = index_.place(page).parent;
  if (parent != kNoPage) --at(parent).children;
  index_.erase(page);
  at(page).remembered = false;
}

}  // namespace talon
