#include "model/page_memory.h"

#include <algorithm>

#include "core/error.h"

namespace talon {
namespace {

int shared_beginning(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<int>(end.first - a.begin());
}

}  // namespace

PageMemory::PageMemory(int pages) : pages_(static_cast<std::size_t>(pages)), available_(pages) {
  empty_.reserve(pages_.size());  // giving a page back asks for no memory
  for (PageId page = pages - 1; page >= 0; --page) empty_.push_back(page);
}

std::optional<PageId> PageMemory::allocate() {
  if (available_ == 0) return std::nullopt;
  if (empty_.empty()) {
    const PageId given_up = longest_unused();
    forget(given_up);
    empty_.push_back(given_up);
  }
  const PageId page = empty_.back();
  empty_.pop_back();
  acquire(page);
  return page;
}

void PageMemory::acquire(PageId page) {
  if (at(page).references++ == 0) --available_;
}

void PageMemory::release(PageId page) {
  Page& released = at(page);
  expects(released.references > 0, "a released page was held");
  released.last_use = ++clock_;
  if (--released.references > 0) return;
  ++available_;
  if (!released.remembered) empty_.push_back(page);
}

PageMemory::Match PageMemory::longest_match(PageId parent, std::span<const TokenId> tokens) const {
  Match best;
  for (const PageId child : parent == kRoot ? first_pages_ : at(parent).children) {
    const int rows = shared_beginning(at(child).tokens, tokens);
    if (rows > best.rows) best = {child, rows};
  }
  return best;
}

PageId PageMemory::remember(PageId page, PageId parent, std::span<const TokenId> tokens) {
  const Match match = longest_match(parent, tokens);
  if (match.rows == kPageRows) return match.page;
  insert(page, parent, tokens);
  return page;
}

void PageMemory::remember_partial(PageId page, PageId parent, std::span<const TokenId> tokens) {
  const Match match = longest_match(parent, tokens);
  if (match.rows == static_cast<int>(tokens.size())) return;
  insert(page, parent, tokens);
}

void PageMemory::insert(PageId page, PageId parent, std::span<const TokenId> tokens) {
  Page& added = at(page);
  added.tokens.assign(tokens.begin(), tokens.end());
  children_of(parent).push_back(page);  // the last that may throw
  added.remembered = true;
  added.parent = parent;
}

bool PageMemory::is_private(PageId page) const {
  return at(page).references == 1 && !at(page).remembered;
}

bool PageMemory::forget_if_ours(PageId page) {
  if (at(page).references != 1 || !at(page).children.empty()) return false;
  forget(page);
  return true;
}

void PageMemory::forget(PageId page) {
  Page& forgotten = at(page);
  std::erase(children_of(forgotten.parent), page);
  forgotten.remembered = false;
  forgotten.parent = kRoot;
  forgotten.tokens.clear();
}

std::vector<PageId>& PageMemory::children_of(PageId parent) {
  return parent == kRoot ? first_pages_ : at(parent).children;
}

PageId PageMemory::longest_unused() const {
  PageId oldest = kRoot;
  for (PageId page = 0; page < total(); ++page) {
    const Page& candidate = at(page);
    const bool unused = candidate.references == 0 && candidate.remembered;
    if (!unused || !candidate.children.empty()) continue;
    if (oldest == kRoot || candidate.last_use < at(oldest).last_use) oldest = page;
  }
  expects(oldest != kRoot, "a page that only the memory holds");
  return oldest;
}

}  // namespace talon
