#include "model/cache/page_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>

namespace talon::page_memory_test {
namespace {

const PageMemory::Place kFirst;

std::vector<TokenId> full(TokenId token) { return std::vector<TokenId>(kPageRows, token); }

/// Tokens that agree with full(token) up to `rows`.
std::vector<TokenId> branch(TokenId token, int rows, TokenId then) {
  std::vector<TokenId> tokens = full(then);
  std::fill_n(tokens.begin(), rows, token);
  return tokens;
}

PageMemory::Place under(PageId parent) { return {{}, parent}; }

/// A page that only the memory holds.
PageId remembered(PageMemory& memory, const PageMemory::Place& place,
                  const std::vector<TokenId>& tokens) {
  const PageId page = memory.allocate().value();
  EXPECT_EQ(memory.remember(page, place, tokens), page);
  memory.release(page);
  return page;
}

TEST(PageMemory, EveryPageIsAvailableUntilItIsHeld) {
  PageMemory memory(2);
  const PageId first = memory.allocate().value(), second = memory.allocate().value();
  EXPECT_NE(first, second);
  EXPECT_FALSE(memory.allocate());
  memory.acquire(first);
  memory.release(first);
  EXPECT_EQ(memory.available(), 0);
  memory.release(first);
  EXPECT_EQ(memory.available(), 1);
  EXPECT_EQ(memory.allocate(), first);
}

TEST(PageMemory, ThePageLongestUnusedIsGivenUpAndAParentAfterItsChildren) {
  PageMemory memory(4);
  const PageId other = remembered(memory, kFirst, full(3));
  const PageId parent = memory.allocate().value(), child = memory.allocate().value();
  memory.remember(parent, kFirst, full(1));
  memory.remember(child, under(parent), full(2));
  memory.release(child);
  memory.release(parent);
  memory.acquire(other);  // used later than both
  memory.release(other);
  memory.allocate();  // the empty fourth page
  EXPECT_EQ(memory.available(), 3);
  EXPECT_EQ(memory.allocate(), child);
  EXPECT_EQ(memory.longest_match(kFirst, full(1)).page, parent);
  EXPECT_EQ(memory.longest_match(under(parent), full(2)).rows, 0);
  EXPECT_EQ(memory.allocate(), parent);
  EXPECT_EQ(memory.allocate(), other);
  EXPECT_FALSE(memory.allocate());
}

TEST(PageMemory, APageWithChildrenIsNotForgottenByItsOnlyHolder) {
  PageMemory memory(3);
  const PageId parent = memory.allocate().value(), child = memory.allocate().value();
  memory.remember(parent, kFirst, full(1));
  memory.remember(child, under(parent), full(2));
  EXPECT_FALSE(memory.is_private(parent));
  EXPECT_FALSE(memory.forget_if_ours(parent));
  EXPECT_TRUE(memory.forget_if_ours(child));
  EXPECT_TRUE(memory.is_private(child));
  EXPECT_TRUE(memory.forget_if_ours(parent));
  memory.acquire(parent);
  EXPECT_FALSE(memory.is_private(parent));
}

TEST(PageMemory, OfSeveralChildrenTheOneThatAgreesLongestIsFound) {
  PageMemory memory(4);
  remembered(memory, kFirst, full(7));
  const PageId whole = remembered(memory, kFirst, full(5));
  const std::vector<TokenId> tokens = branch(5, 10, 6);
  const PageId partial = memory.allocate().value();
  memory.remember_partial(partial, kFirst, std::span(tokens).first(20));
  EXPECT_EQ(memory.longest_match(kFirst, tokens).page, partial);
  EXPECT_EQ(memory.longest_match(kFirst, tokens).rows, 20);
  EXPECT_EQ(memory.longest_match(kFirst, full(5)).page, whole);
  EXPECT_EQ(memory.longest_match(kFirst, full(8)).rows, 0);
  // What is known already is not remembered twice.
  const PageId again = memory.allocate().value();
  EXPECT_EQ(memory.remember(again, kFirst, full(5)), whole);
  EXPECT_TRUE(memory.is_private(again));
}

TEST(PageMemory, WhatSeveralPagesBeginWithIsFoundUntilTheLastOfThemIsGivenUp) {
  PageMemory memory(3);
  for (const TokenId then : {1, 2, 3}) remembered(memory, kFirst, branch(9, 30, then));
  for (int left = 3; left > 0; --left) {
    EXPECT_EQ(memory.longest_match(kFirst, full(9)).rows, 30);
    EXPECT_EQ(memory.longest_match(kFirst, branch(9, 30, 3)).rows, kPageRows);
    EXPECT_EQ(memory.longest_match(kFirst, branch(9, 30, 1)).rows, left == 3 ? kPageRows : 30);
    memory.allocate();
  }
  EXPECT_EQ(memory.longest_match(kFirst, full(9)).rows, 0);
}

TEST(PageMemory, TextsWithDifferentRootsShareNothing) {
  PageMemory memory(8);
  const std::vector<TextRoot> roots = {{}, {.tenant = 1}, {.tenant = 2}, {.before = 0}};
  for (const TextRoot& root : roots) {
    EXPECT_EQ(memory.longest_match({root, PageMemory::kNoPage}, full(5)).rows, 0);
    const PageId page = remembered(memory, {root, PageMemory::kNoPage}, full(5));
    EXPECT_EQ(memory.longest_match({root, PageMemory::kNoPage}, full(5)).page, page);
  }
}

/// The slow truth beside the memory: all pages compared token by token.
class RandomPages {
 public:
  RandomPages(unsigned seed, PageIndex::Hash hash) : random_(seed), memory_(kPages, hash) {}

  void step() {
    const auto [place, tokens] = pick_text();
    const auto match = memory_.longest_match(place, tokens);
    ASSERT_EQ(match.rows, longest(place, tokens));
    if (match.rows > 0) {
      const Known& found = known_.at(static_cast<std::size_t>(match.page));
      ASSERT_EQ(found.place, place);
      ASSERT_GE(shared(found.tokens, tokens), match.rows);
    }
    if (match.rows == static_cast<int>(tokens.size())) return;
    hold_parent(place, [&] { add(place, tokens); });
  }

 private:
  static constexpr int kPages = 12;
  struct Known {
    PageMemory::Place place;
    std::vector<TokenId> tokens;  // empty: unknown
  };

  static int shared(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
    const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    return static_cast<int>(end.first - a.begin());
  }
  int longest(const PageMemory::Place& place, const std::vector<TokenId>& tokens) const {
    int rows = 0;
    for (const Known& page : known_) {
      if (page.place == place) rows = std::max(rows, shared(page.tokens, tokens));
    }
    return rows;
  }
  std::pair<PageMemory::Place, std::vector<TokenId>> pick_text() {
    PageMemory::Place place{{.tenant = random_() % 2}, PageMemory::kNoPage};
    const auto parent = static_cast<PageId>(random_() % (2 * kPages));
    if (parent < kPages && known_[static_cast<std::size_t>(parent)].tokens.size() == kPageRows) {
      place = {known_[static_cast<std::size_t>(parent)].place.root, parent};
    }
    std::vector<TokenId> tokens =
        branch(1, static_cast<int>(random_() % kPageRows), static_cast<TokenId>(random_() % 3));
    if (random_() % 3 == 0) tokens.resize(1 + random_() % kPageRows);
    return {place, tokens};
  }
  template <typename Work>
  void hold_parent(const PageMemory::Place& place, Work&& work) {
    std::vector<PageId> path;
    for (PageId page = place.parent; page != PageMemory::kNoPage;
         page = known_[static_cast<std::size_t>(page)].place.parent) {
      path.push_back(page);
      memory_.acquire(page);
    }
    work();
    for (const PageId page : path) memory_.release(page);
  }
  void add(const PageMemory::Place& place, const std::vector<TokenId>& tokens) {
    const auto page = memory_.allocate();
    if (!page) return;
    for (const Known& other : known_) ASSERT_NE(other.place.parent, *page) << "it has children";
    known_[static_cast<std::size_t>(*page)] = {place, tokens};
    if (tokens.size() == kPageRows) {
      memory_.remember(*page, place, tokens);
    } else {
      memory_.remember_partial(*page, place, tokens);
    }
    memory_.release(*page);
  }

  std::mt19937 random_;
  PageMemory memory_;
  std::vector<Known> known_ = std::vector<Known>(kPages);
};

/// Hashes that all collide, that often do, and the right ones.
const std::vector<PageIndex::Hash> kHashes = {
    [](std::uint64_t, std::uint64_t) -> std::uint64_t { return 7; },
    [](std::uint64_t before, std::uint64_t next) { return (before * 3 + next) % 5; },
    PageIndex::mix};

TEST(PageMemory, FindsWhatComparingEveryPageFindsWhateverTheHashesAre) {
  for (const PageIndex::Hash hash : kHashes) {
    for (unsigned seed = 1; seed <= 10; ++seed) {
      RandomPages work(seed, hash);
      for (int i = 0; i < 400; ++i) {
        work.step();
        if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " step " << i;
      }
    }
  }
}

/// Rows looked at to find, remember and give up a page among `pages` that all begin alike.
double probes_per_page(int pages) {
  PageMemory memory(pages);
  const auto text = [](int number) {
    std::vector<TokenId> tokens = full(1);
    tokens[40] = number;
    return tokens;
  };
  for (int i = 0; i < pages; ++i) remembered(memory, kFirst, text(i));
  const auto before = memory.probes();
  constexpr int kMore = 200;
  for (int i = 0; i < kMore; ++i) {
    const std::vector<TokenId> tokens = text(pages + i);
    EXPECT_EQ(memory.longest_match(kFirst, tokens).rows, 40);
    remembered(memory, kFirst, tokens);
  }
  return static_cast<double>(memory.probes() - before) / kMore;
}

TEST(PageMemory, TheCostOfAPageDoesNotGrowWithTheirNumber) {
  const double few = probes_per_page(100), many = probes_per_page(20000);
  EXPECT_GT(few, 40);  // it counts
  EXPECT_LT(many, 1.2 * few);
  EXPECT_LT(many, 5 * kPageRows);
}

/// Processor time of giving up a page, in a memory of so many remembered ones.
double microseconds_per_eviction(int pages) {
  PageMemory memory(pages);
  std::vector<TokenId> text = full(1);
  for (int i = 0; i < pages; ++i) {
    text[0] = i;
    remembered(memory, kFirst, text);
  }
  constexpr int kEvictions = 2000;
  const std::clock_t before = std::clock();
  for (int i = 0; i < kEvictions; ++i) EXPECT_TRUE(memory.allocate());
  return 1e6 * static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC / kEvictions;
}

TEST(PageMemory, ThePageLongestUnusedIsNotSearchedFor) {
  EXPECT_LT(microseconds_per_eviction(200'000), 100);  // looking at all of them takes longer
}

}  // namespace
}  // namespace talon::page_memory_test
