#include "model/cache/page_memory.h"

#include "core/error.h"

namespace talon {

PageMemory::PageMemory(int pages, PageIndex::Hash hash)
    : index_(pages, hash), pool_(pages), children_(static_cast<std::size_t>(pages)) {}

std::optional<PageId> PageMemory::allocate() {
  if (const PageId page = pool_.next_to_go(); page != kNoPage) {
    expects(children(page) == 0, "who holds a page lets go of its parent later");
    forget(page);
  }
  return pool_.allocate();
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
  pool_.keep(page);
  index_.insert(page, place, tokens);
  if (place.parent != kNoPage) ++children(place.parent);
}

bool PageMemory::forget_if_ours(PageId page) {
  if (pool_.references(page) != 1 || children(page) > 0) return false;
  if (is_remembered(page)) forget(page);
  return true;
}

void PageMemory::forget(PageId page) {
  const PageId parent = index_.place(page).parent;
  if (parent != kNoPage) --children(parent);
  index_.erase(page);
  pool_.let_go(page);
}

}  // namespace talon
