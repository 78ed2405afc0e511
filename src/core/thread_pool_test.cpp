#include "core/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/machine/processors.h"

namespace talon::thread_pool_test {
namespace {

/// One that is told how many workers are active.
struct ToldPool : ThreadPool {
  using ThreadPool::set_active;
  using ThreadPool::ThreadPool;
};

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

TEST(ThreadPool, SharedIndicesAreHandedOutOnceAndMostInOneRunAWorker) {
  for (int threads : {1, 2, 4}) {
    ToldPool pool(threads);
    for (std::size_t total = 0; total < 300; ++total) {
      pool.set_active(1 + static_cast<int>(total) % threads);
      std::vector<std::atomic<int>> seen(total);
      std::vector<std::size_t> longest(4);
      pool.run([&](int worker) {
        pool.share(worker, total, [&](std::size_t first, std::size_t count) {
          for (std::size_t i = first; i < first + count; ++i) seen[i]++;
          std::size_t& most = longest[static_cast<std::size_t>(worker)];
          most = std::max(most, count);
        });
      });
      for (const auto& count : seen) ASSERT_EQ(count, 1);
      const std::size_t part = total / static_cast<std::size_t>(pool.active());
      for (int worker = 0; worker < pool.active(); ++worker) {
        ASSERT_GE(longest[static_cast<std::size_t>(worker)], part * 3 / 4) << total;
      }
    }
  }
}

TEST(ThreadPool, WhatAWorkerDoesNotReachOthersTake) {
  ThreadPool pool(3);
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::atomic<std::size_t> done = 0;
    std::atomic<bool> late = false;
    pool.run([&](int worker) {
      pool.share(worker, 160, [&](std::size_t first, std::size_t count) {
        // Worker 1 gets no further than its own three quarters: indices 53 .. 92.
        if (worker == 1 && first == 53) {
          const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
          while (done < 160 - count && !late) {
            late = std::chrono::steady_clock::now() > limit;
            std::this_thread::yield();
          }
        }
        done += count;
      });
    });
    ASSERT_FALSE(late);
    ASSERT_EQ(done, 160U);
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

TEST(ThreadPool, OnlyActiveWorkersTakePartHoweverOftenTheirNumberChanges) {
  ToldPool pool(4);
  for (int repeat = 0; repeat < 500; ++repeat) {
    const int active = 1 + repeat * 7 % 4;
    pool.set_active(active);
    std::vector<int> ran(4, 0);
    std::atomic<int> early = 0;
    pool.run([&](int worker) {
      ran[static_cast<std::size_t>(worker)]++;
      pool.barrier();
      for (int other = 0; other < active; ++other) {
        if (ran[static_cast<std::size_t>(other)] != 1) early++;
      }
    });
    ASSERT_EQ(early, 0);
    for (int worker = 0; worker < 4; ++worker) {
      ASSERT_EQ(ran[static_cast<std::size_t>(worker)], worker < active);
    }
  }
}

TEST(ThreadPool, WorkersThatSleepWakeUp) {
  ToldPool pool(3);
  for (const int active : {3, 1, 2, 3}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    pool.set_active(active);
    std::atomic<int> ran = 0;
    pool.run([&](int) { ran++; });
    EXPECT_EQ(ran, active);
  }
}

TEST(ThreadPool, TimedRegionsLeaveTheChoiceOfWorkersBetweenOneAndAll) {
  ThreadPool pool(3);
  pool.adapt();
  int fewest = 3;
  bool disturbed = false;
  for (int repeat = 0; repeat < 2000; ++repeat) {
    const int active = pool.active();
    fewest = std::min(fewest, active);
    disturbed |= pool.is_disturbed();
    ASSERT_GE(active, 1);
    ASSERT_LE(active, 3);
    std::atomic<int> ran = 0;
    // Every 20th region takes long, as if a worker had lost its processor.
    pool.run_timed(100, [&](int) {
      ran++;
      if (active > 1 && repeat % 20 == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
    ASSERT_EQ(ran, active);
  }
  EXPECT_LT(fewest, 3);
  EXPECT_TRUE(disturbed);
}

/// This thread and those that it starts share one processor while the object lives.
class OneProcessor {
 public:
  OneProcessor() {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(allowed_processors().front(), &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
  ~OneProcessor() { sched_setaffinity(0, sizeof(before_), &before_); }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t before_;
};

double processor_ms() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

TEST(ThreadPool, WorkersThatShareAProcessorDoNotKeepItWhileTheyWait) {
  const OneProcessor one;
  ThreadPool pool(4);
  constexpr int kRegions = 200;
  const double before = processor_ms();
  for (int repeat = 0; repeat < kRegions; ++repeat) {
    pool.run([&](int) { pool.barrier(); });
  }
  // Of processor time, which does not depend on what else runs.
  EXPECT_LT((processor_ms() - before) / kRegions, 0.6);
}

/// The processors that each worker but the caller may use.
std::vector<std::vector<int>> processors_of_workers(int threads, bool pin) {
  std::vector<std::vector<int>> processors(static_cast<std::size_t>(threads));
  ThreadPool pool(threads, pin);
  pool.run(
      [&](int worker) { processors[static_cast<std::size_t>(worker)] = allowed_processors(); });
  processors.erase(processors.begin());
  return processors;
}

/// Other programs would bind theirs to the same ones.
TEST(ThreadPool, WorkersAreBoundOnlyWhereEachHasAProcessorOfItsOwn) {
  const std::vector<int> all = allowed_processors();
  const auto count = static_cast<int>(all.size());
  for (const int threads : {2, count + 1}) {
    if (threads == count) continue;
    for (const auto& processors : processors_of_workers(threads, /*pin=*/true))
      EXPECT_EQ(processors, all) << threads << " threads";
  }
  if (available_processors() < count) return;  // a quota: none has one of its own
  for (const auto& processors : processors_of_workers(count, /*pin=*/false))
    EXPECT_EQ(processors, all);
  int number = 0;
  for (const auto& processors : processors_of_workers(count, /*pin=*/true))
    EXPECT_EQ(processors, std::vector<int>{all[static_cast<std::size_t>(++number)]});
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(ThreadPool, AThreadThatCannotBeStartedIsAnErrorWithItsNumber) {
  const auto start_with_little_memory = [] {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t bytes = pages * 4096 + (rlim_t{100} << 20);  // a dozen stacks
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_AS, &limit);
    try {
      ThreadPool pool(1000);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::_Exit(3);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(start_with_little_memory(), testing::ExitedWithCode(3),
              "start 1000 threads: number [0-9]+ could not be started: ");
}
#endif

}  // namespace
}  // namespace talon::thread_pool_test
