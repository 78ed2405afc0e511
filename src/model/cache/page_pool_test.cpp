#include "model/cache/page_pool.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace talon::page_pool_test {
namespace {

/// A page that is kept and that nobody holds.
PageId unused(PagePool& pool) {
  const PageId page = pool.allocate().value();
  pool.keep(page);
  pool.release(page);
  return page;
}

TEST(PagePool, APageIsAvailableUntilItIsHeldAndAfterItsLastRelease) {
  PagePool pool(2);
  const PageId first = pool.allocate().value(), second = pool.allocate().value();
  EXPECT_NE(first, second);
  EXPECT_EQ(pool.available(), 0);
  EXPECT_FALSE(pool.allocate());
  EXPECT_EQ(pool.next_to_go(), PagePool::kNoPage);
  pool.acquire(first);
  EXPECT_FALSE(pool.is_private(first));
  pool.release(first);
  EXPECT_TRUE(pool.is_private(first));
  EXPECT_EQ(pool.available(), 0);
  pool.release(first);
  EXPECT_EQ(pool.available(), 1);
  EXPECT_EQ(pool.allocate(), first);
}

TEST(PagePool, EmptyPagesComeFirstThenThoseThatAreKeptTheLongestUnusedBeforeOthers) {
  PagePool pool(4);
  const PageId used_again = unused(pool), oldest = unused(pool), newest = unused(pool);
  pool.acquire(used_again);
  pool.release(used_again);
  EXPECT_EQ(pool.available(), 4);
  EXPECT_EQ(pool.next_to_go(), PagePool::kNoPage);
  EXPECT_TRUE(pool.allocate());
  for (const PageId page : {oldest, newest, used_again}) {
    EXPECT_FALSE(pool.allocate());
    ASSERT_EQ(pool.next_to_go(), page);
    pool.let_go(page);
    EXPECT_EQ(pool.allocate(), page);
    EXPECT_TRUE(pool.is_private(page));
  }
  EXPECT_EQ(pool.available(), 0);
}

TEST(PagePool, AKeptPageThatIsHeldIsNotTheNextToGo) {
  PagePool pool(2);
  const PageId held = unused(pool), other = unused(pool);
  pool.acquire(held);
  EXPECT_EQ(pool.next_to_go(), other);
  pool.acquire(other);
  EXPECT_EQ(pool.next_to_go(), PagePool::kNoPage);
}

TEST(PagePool, APageThatIsLetGoOfWhileItIsHeldIsItsHoldersAlone) {
  PagePool pool(1);
  const PageId page = unused(pool);
  pool.acquire(page);
  EXPECT_FALSE(pool.is_private(page));
  pool.let_go(page);
  EXPECT_TRUE(pool.is_private(page));
  EXPECT_EQ(pool.available(), 0);
  pool.release(page);
  EXPECT_EQ(pool.allocate(), page);
}

TEST(PagePool, MistakesAreBugs) {
  PagePool pool(1);
  EXPECT_THROW(pool.release(0), Bug);
  EXPECT_THROW(pool.keep(0), Bug);
  EXPECT_THROW(pool.let_go(0), Bug);
  unused(pool);
  pool.acquire(0);
  EXPECT_THROW(pool.keep(0), Bug);
}

}  // namespace
}  // namespace talon::page_pool_test
