#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "core/types.h"

namespace talon {

/// Who uses which page, and what the unused ones still hold. Remembered pages form a tree: the path
/// from the root to a page spells the tokens of a prompt, kPageRows a page (fewer only in a leaf).
/// A remembered page is immutable; it is given up, the one longest unused and without children
/// first, when allocate() finds no empty page.
class PageMemory {
 public:
  static constexpr PageId kRoot = -1;

  explicit PageMemory(int pages);

  int total() const { return static_cast<int>(pages_.size()); }
  /// Empty pages and those that only the memory holds.
  int available() const { return available_; }

  /// A page with one reference and no content; nothing when every page is in use.
  std::optional<PageId> allocate();
  void acquire(PageId page);
  /// Drops a reference. The content of a remembered page stays.
  void release(PageId page);

  struct Match {
    PageId page = kRoot;
    int rows = 0;
  };
  /// The child of `parent` that shares the longest beginning with `tokens`; rows is the number of
  /// tokens shared.
  Match longest_match(PageId parent, std::span<const TokenId> tokens) const;

  /// Remembers the full page under `parent` and returns it, or the page remembered there with the
  /// same tokens.
  PageId remember(PageId page, PageId parent, std::span<const TokenId> tokens);
  /// Remembers a page that is not full unless a remembered one begins with the same tokens.
  void remember_partial(PageId page, PageId parent, std::span<const TokenId> tokens);

  /// One reference and not remembered: may be written.
  bool is_private(PageId page) const;
  /// Makes a remembered page private if it has one reference and no children.
  bool forget_if_ours(PageId page);

 private:
  struct Page {
    int references = 0;
    bool remembered = false;
    PageId parent = kRoot;
    std::vector<TokenId> tokens;  // of a remembered page
    std::vector<PageId> children;
    std::uint64_t last_use = 0;
  };
  Page& at(PageId page) { return pages_[static_cast<std::size_t>(page)]; }
  const Page& at(PageId page) const { return pages_[static_cast<std::size_t>(page)]; }
  std::vector<PageId>& children_of(PageId parent);
  void insert(PageId page, PageId parent, std::span<const TokenId> tokens);
  void forget(PageId page);
  PageId longest_unused() const;

  std::vector<Page> pages_;
  std::vector<PageId> empty_;
  std::vector<PageId> first_pages_;  // children of the root
  int available_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace talon
