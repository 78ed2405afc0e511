#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "core/types.h"

namespace talon {

/// What stands before the first token of a text. Texts share pages only if their roots are equal.
struct TextRoot {
  std::uint64_t tenant = 0;  // whose text it is
  TokenId before = -1;       // a token that lies in no page; -1: none
  bool operator==(const TextRoot&) const = default;
};

/// Finds pages by what they hold: each row by a running 64-bit hash of all tokens from the root of
/// the text up to it. A hash only leads to a row, the tokens decide. No step gets longer with the
/// number of pages. Allocates in its constructor alone.
class PageIndex {
 public:
  static constexpr PageId kNoPage = -1;
  /// Where the tokens of a page follow.
  struct Place {
    TextRoot root;
    PageId parent = kNoPage;  // the full page before it; kNoPage: it is the first
    bool operator==(const Place&) const = default;
  };
  using Hash = std::uint64_t (*)(std::uint64_t before, std::uint64_t next);
  static std::uint64_t mix(std::uint64_t before, std::uint64_t next);

  explicit PageIndex(int pages, Hash hash = mix);

  struct Match {
    PageId page = kNoPage;
    int rows = 0;
  };
  /// The page at `place` that shares the longest beginning with `tokens`; rows is the number of
  /// tokens shared.
  Match longest_match(const Place& place, std::span<const TokenId> tokens);

  /// REQUIRES: the page is not in the index, its parent is, with kPageRows tokens.
  void insert(PageId page, const Place& place, std::span<const TokenId> tokens);
  void erase(PageId page);
  const Place& place(PageId page) const { return at(page).place; }

  /// Rows looked at so far, by all calls.
  std::int64_t probes() const { return probes_; }

 private:
  using RowId = std::int32_t;  // page * kPageRows + row
  static constexpr RowId kNoRow = -1;
  using Hashes = std::array<std::uint64_t, kPageRows>;

  struct Page {
    Place place;
    int rows = 0;
    std::array<TokenId, kPageRows> tokens;
  };
  /// Rows of several pages with the same tokens up to them form a ring, one of which is in the
  /// chain of the bucket.
  struct Row {
    std::uint64_t hash = 0;
    RowId next = kNoRow;  // in the chain
    RowId left = kNoRow, right = kNoRow;
  };

  const Page& at(PageId page) const { return pages_[static_cast<std::size_t>(page)]; }
  Row& row_at(RowId row) { return rows_[static_cast<std::size_t>(row)]; }
  RowId& bucket(std::uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  Hashes hashes_of(const Place& place, std::span<const TokenId> tokens) const;
  bool holds(RowId row, const Place& place, std::span<const TokenId> tokens) const;
  RowId find(std::uint64_t hash, const Place& place, std::span<const TokenId> tokens);
  void link_twin(RowId row, RowId twin);
  void unlink(RowId row);

  Hash hash_;
  std::vector<Page> pages_;
  std::vector<Row> rows_;
  std::vector<RowId> buckets_;  // a power of two
  std::int64_t probes_ = 0;
};

}  // namespace talon
