#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace talon {
namespace {

TEST(ThreadPool, EveryIndexIsHandedOutOnce) {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (int repeat = 0; repeat < 200; ++repeat) {
      std::vector<std::atomic<int>> seen(97);
      pool.run([&](int) {
        for (std::size_t i = pool.next(0, 3); i < seen.size(); i = pool.next(0, 3)) {
          for (std::size_t j = i; j < std::min(i + 3, seen.size()); ++j) seen[j]++;
        }
      });
      for (const auto& count : seen) ASSERT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, TheBarrierSeparatesPhases) {
  ThreadPool pool(3);
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::vector<int> first(3, 0);
    std::atomic<int> wrong = 0;
    pool.run([&](int worker) {
      first[static_cast<std::size_t>(worker)] = 1;
      pool.barrier();
      if (first != std::vector<int>{1, 1, 1}) wrong++;
    });
    ASSERT_EQ(wrong, 0);
  }
}

TEST(ThreadPool, AnExceptionOfAWorkerReachesTheCallerAndThePoolLivesOn) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.run([](int worker) {
    if (worker == 1) throw std::runtime_error("worker");
  }),
               std::runtime_error);
  std::atomic<int> ran = 0;
  pool.run([&](int) { ran++; });
  EXPECT_EQ(ran, 2);
}

}  // namespace
}  // namespace talon
