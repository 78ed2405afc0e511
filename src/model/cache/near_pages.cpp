#include "model/cache/near_pages.h"

#include <algorithm>

#include "core/error.h"

namespace talon {
namespace {

constexpr std::size_t kSlackPages = 1;  // kept beyond reach, for texts that are shortened a little

std::size_t pages_for(int length) {
  return (static_cast<std::size_t>(length) + kPageRows - 1) / kPageRows;
}

}  // namespace

int NearPages::most(int reach, int at_once) {
  return (reach + at_once) / kPageRows + 2 + static_cast<int>(kSlackPages);
}

int NearPages::most_at_once(int reach, int pages) {
  return std::max(1, (pages - most(0, 0)) * kPageRows - reach);
}

/// The first page that rows behind `length` positions see.
std::size_t NearPages::first_needed(int length) const {
  return static_cast<std::size_t>(std::clamp(length + 1 - reach_, 0, length) / kPageRows);
}

int NearPages::adopt(std::span<const PageId> far, int length) {
  for (std::size_t i = pages_for(length); i-- > first_needed(length);) {
    if (!holds(i) && memory_.of(far[i]) == NearMemory::kNoPage) {
      length = static_cast<int>(i) * kPageRows;
    }
  }
  const std::size_t first = first_needed(length), end = pages_for(length);
  release_from(end);
  pages_.resize(std::max(pages_.size(), end), 0);
  if (begin_ >= end_) begin_ = end_ = end;
  while (begin_ > first) {
    const PageId page = memory_.of(far[begin_ - 1]);
    memory_.acquire(page);
    pages_[--begin_] = page;
  }
  return length;
}

bool NearPages::reserve(std::size_t end, int rows, int at_once) {
  std::size_t wanted = end;
  if (rows > at_once) {
    wanted = std::min(end, begin_ + static_cast<std::size_t>(most(reach_, at_once)));
  }
  const std::size_t missing = wanted > end_ ? wanted - end_ : 0;
  if (missing > static_cast<std::size_t>(memory_.available())) return false;
  pages_.resize(std::max(pages_.size(), end), 0);
  for (std::size_t i = 0; i < missing; ++i) pages_[end_++] = memory_.allocate().value();
  return true;
}

void NearPages::slide(int length) {
  const std::size_t needed = first_needed(length);
  const std::size_t first = needed > kSlackPages ? needed - kSlackPages : 0;
  while (begin_ < std::min(first, end_)) {
    memory_.release(pages_[begin_]);
    pages_[begin_++] = 0;
    if (end_ == pages_.size()) continue;
    // None may be free, since others may hold the page that was let go of.
    if (const auto page = memory_.allocate()) pages_[end_++] = *page;
  }
}

void NearPages::release_from(std::size_t index) {
  for (std::size_t i = std::max(begin_, index); i < end_; ++i) memory_.release(pages_[i]);
  end_ = std::min(end_, std::max(begin_, index));
  if (index < begin_) begin_ = end_ = index;
  if (index < pages_.size()) pages_.resize(index);
}

void NearPages::replace(std::size_t index, PageId page) {
  expects(holds(index));
  memory_.release(pages_[index]);
  pages_[index] = page;
}

}  // namespace talon
