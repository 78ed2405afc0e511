#pragma once

#include <vector>

#include "backend/backend.h"

namespace talon {

/// Pages in the order in which they came, each at most once. Allocates in its constructor alone.
class PageQueue {
 public:
  static constexpr PageId kNoPage = -1;

  explicit PageQueue(int pages) : links_(static_cast<std::size_t>(pages)) {}

  PageId oldest() const { return oldest_; }  // kNoPage: the queue is empty
  void push(PageId page) {
    at(page) = {newest_, kNoPage};
    (newest_ == kNoPage ? oldest_ : at(newest_).newer) = page;
    newest_ = page;
  }
  void take_out(PageId page) {
    const Links taken = at(page);
    (taken.older == kNoPage ? oldest_ : at(taken.older).newer) = taken.newer;
    (taken.newer == kNoPage ? newest_ : at(taken.newer).older) = taken.older;
  }

 private:
  struct Links {
    PageId older = kNoPage, newer = kNoPage;
  };
  Links& at(PageId page) { return links_[static_cast<std::size_t>(page)]; }

  std::vector<Links> links_;
  PageId oldest_ = kNoPage, newest_ = kNoPage;
};

}  // namespace talon
