#include "model/page_memory.h"

#include <gtest/gtest.h>

namespace talon {
namespace {

std::vector<TokenId> full(TokenId token) { return std::vector<TokenId>(kPageRows, token); }

/// A page of `token`s under `parent` that only the memory holds.
PageId remembered(PageMemory& memory, PageId parent, TokenId token) {
  const PageId page = memory.allocate().value();
  EXPECT_EQ(memory.remember(page, parent, full(token)), page);
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

TEST(PageMemory, APageWithChildrenIsGivenUpAfterThem) {
  PageMemory memory(3);
  const PageId parent = remembered(memory, PageMemory::kRoot, 1);
  const PageId child = remembered(memory, parent, 2);
  memory.acquire(child);
  memory.release(child);  // used later than its parent
  memory.allocate();      // the empty third page
  EXPECT_EQ(memory.available(), 2);
  EXPECT_EQ(memory.allocate(), child);
  EXPECT_EQ(memory.longest_match(PageMemory::kRoot, full(1)).page, parent);
  EXPECT_EQ(memory.longest_match(parent, full(2)).rows, 0);
}

TEST(PageMemory, APageWithChildrenIsNotForgottenByItsOnlyHolder) {
  PageMemory memory(3);
  const PageId parent = remembered(memory, PageMemory::kRoot, 1);
  const PageId child = remembered(memory, parent, 2);
  memory.acquire(parent);
  EXPECT_FALSE(memory.is_private(parent));
  EXPECT_FALSE(memory.forget_if_ours(parent));
  memory.acquire(child);
  EXPECT_TRUE(memory.forget_if_ours(child));
  EXPECT_TRUE(memory.is_private(child));
  EXPECT_TRUE(memory.forget_if_ours(parent));
  memory.acquire(parent);
  EXPECT_FALSE(memory.is_private(parent));
}

TEST(PageMemory, OfSeveralChildrenTheOneThatAgreesLongestIsFound) {
  PageMemory memory(4);
  std::vector<TokenId> tokens = full(5);
  remembered(memory, PageMemory::kRoot, 7);
  const PageId whole = remembered(memory, PageMemory::kRoot, 5);
  tokens[10] = 6;
  const PageId partial = memory.allocate().value();
  memory.remember_partial(partial, PageMemory::kRoot, std::span(tokens).first(20));
  EXPECT_EQ(memory.longest_match(PageMemory::kRoot, tokens).page, partial);
  EXPECT_EQ(memory.longest_match(PageMemory::kRoot, tokens).rows, 20);
  EXPECT_EQ(memory.longest_match(PageMemory::kRoot, full(5)).page, whole);
  EXPECT_EQ(memory.longest_match(PageMemory::kRoot, full(8)).rows, 0);
  // What is known already is not remembered twice.
  const PageId again = memory.allocate().value();
  EXPECT_EQ(memory.remember(again, PageMemory::kRoot, full(5)), whole);
  EXPECT_TRUE(memory.is_private(again));
}

}  // namespace
}  // namespace talon
