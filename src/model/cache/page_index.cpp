#include "model/cache/page_index.h"

#include <algorithm>
#include <bit>

#include "core/error.h"

namespace talon {
namespace {

std::size_t rows_of(int pages) {
  return static_cast<std::size_t>(pages) * static_cast<std::size_t>(kPageRows);
}

}  // namespace

std::uint64_t PageIndex::mix(std::uint64_t before, std::uint64_t next) {
  std::uint64_t value = before * 0x9E3779B97F4A7C15U + next;
  value = (value ^ (value >> 32U)) * 0xD6E8FEB86659FD93U;
  value = (value ^ (value >> 32U)) * 0xD6E8FEB86659FD93U;
  return value ^ (value >> 32U);
}

PageIndex::PageIndex(int pages, Hash hash)
    : hash_(hash),
      pages_(static_cast<std::size_t>(pages)),
      rows_(rows_of(pages)),
      buckets_(std::bit_ceil(rows_of(pages) + 1), kNoRow) {}

PageIndex::Hashes PageIndex::hashes_of(const Place& place, std::span<const TokenId> tokens) const {
  std::uint64_t hash = 0;
  if (place.parent == kNoPage) {
    hash = hash_(place.root.tenant, static_cast<std::uint32_t>(place.root.before));
  } else {
    hash = rows_[rows_of(place.parent + 1) - 1].hash;
  }
  Hashes hashes;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    hash = hash_(hash, static_cast<std::uint32_t>(tokens[i]));
    hashes[i] = hash;
  }
  return hashes;
}

bool PageIndex::holds(RowId row, const Place& place, std::span<const TokenId> tokens) const {
  const Page& page = at(row / kPageRows);
  return row % kPageRows + 1 == static_cast<RowId>(tokens.size()) && page.place == place &&
         std::equal(tokens.begin(), tokens.end(), page.tokens.begin());
}

/// The row that is in the chain of its bucket and the last of `tokens` at `place`.
PageIndex::RowId PageIndex::find(std::uint64_t hash, const Place& place,
                                 std::span<const TokenId> tokens) {
  for (RowId row = bucket(hash); row != kNoRow; row = row_at(row).next) {
    ++probes_;
    if (row_at(row).hash == hash && holds(row, place, tokens)) return row;
  }
  return kNoRow;
}

PageIndex::Match PageIndex::longest_match(const Place& place, std::span<const TokenId> tokens) {
  tokens = tokens.first(std::min<std::size_t>(tokens.size(), kPageRows));
  const Hashes hashes = hashes_of(place, tokens);
  Match best;
  // Who holds some tokens holds every beginning of them, so halving finds the most.
  int most = static_cast<int>(tokens.size());
  for (int rows = most; best.rows < most; rows = (best.rows + most + 1) / 2) {
    const auto count = static_cast<std::size_t>(rows);
    const RowId row = find(hashes[count - 1], place, tokens.first(count));
    if (row == kNoRow) {
      most = rows - 1;
    } else {
      best = {row / kPageRows, rows};
    }
  }
  return best;
}

void PageIndex::insert(PageId page, const Place& place, std::span<const TokenId> tokens) {
  expects(!tokens.empty() && tokens.size() <= kPageRows, "a page holds some tokens");
  Page& added = pages_[static_cast<std::size_t>(page)];
  expects(added.rows == 0, "an inserted page is new");
  const Hashes hashes = hashes_of(place, tokens);
  bool known = true;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const RowId row = page * kPageRows + static_cast<RowId>(i);
    const RowId twin = known ? find(hashes[i], place, tokens.first(i + 1)) : kNoRow;
    known = twin != kNoRow;
    row_at(row) = {hashes[i], kNoRow, row, row};
    if (known) {
      link_twin(row, twin);
    } else {
      row_at(row).next = std::exchange(bucket(hashes[i]), row);
    }
  }
  added.place = place;
  added.rows = static_cast<int>(tokens.size());
  std::copy(tokens.begin(), tokens.end(), added.tokens.begin());
}

void PageIndex::erase(PageId page) {
  Page& erased = pages_[static_cast<std::size_t>(page)];
  for (int row = 0; row < erased.rows; ++row) unlink(page * kPageRows + row);
  erased.rows = 0;
}

void PageIndex::link_twin(RowId row, RowId twin) {
  const RowId right = row_at(twin).right;
  row_at(row).left = twin;
  row_at(row).right = right;
  row_at(right).left = row;
  row_at(twin).right = row;
}

/// Takes a row out of its ring; if it stood for the ring in the chain, another does.
void PageIndex::unlink(RowId row) {
  const Row& gone = row_at(row);
  RowId* link = &bucket(gone.hash);
  while (*link != kNoRow && *link != row) {
    ++probes_;
    link = &row_at(*link).next;
  }
  const bool alone = gone.right == row;
  if (*link == row && alone) *link = gone.next;
  if (*link == row) {
    row_at(gone.right).next = gone.next;
    *link = gone.right;
  }
  row_at(gone.left).right = gone.right;
  row_at(gone.right).left = gone.left;
}

}  // namespace talon
