#include "bench/contention/contention.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "bench/contention/child_process.h"
#include "bench/contention/neighbour.h"
#include "core/error.h"
#include "core/machine/processors.h"

namespace talon::contention_test {
namespace {

DecodedSlice slice(int tokens, double ms, std::vector<double> step_ms = {}) {
  return {tokens, ms, std::move(step_ms)};
}

TEST(CompareRivals, TakesTheFixedOneWithTheBestMedianForMeasureRoundByRound) {
  const std::vector<Rival> rivals = {{"1", true, {}}, {"2", true, {}}, {"adaptive", false, {}}};
  const auto results =
      compare_rivals(rivals, {{slice(100, 1000), slice(50, 1000), slice(100, 1000)},
                              {slice(90, 1000), slice(90, 1000), slice(200, 1000)},
                              {slice(95, 1000), slice(60, 1000), slice(90, 1000, {1, 9, 2})}});
  EXPECT_DOUBLE_EQ(results[0].ratio.median, 1);
  EXPECT_DOUBLE_EQ(results[1].ratio.least, 0.9);
  EXPECT_DOUBLE_EQ(results[2].tok_s.median, 90);
  EXPECT_DOUBLE_EQ(results[2].ratio.median, 0.95);
  EXPECT_DOUBLE_EQ(results[2].ratio.most, 1.2);
  EXPECT_DOUBLE_EQ(results[2].step_ms, 2);
  EXPECT_DOUBLE_EQ(results[2].step_p99_ms, 9);
}

TEST(Race, LetsAllDecodeInTurnsAndLeavesOutARoundThatWasStopped) {
  StopFlag stop;
  std::string turns;
  const auto rival = [&](const std::string& name) {
    return Rival{name, true, [&turns, &stop, name](double) {
                   turns += name;
                   if (turns.size() == 9) stop.request();
                   return slice(1, 1);
                 }};
  };
  const auto slices = race({rival("a"), rival("b")}, {.rounds = 10}, stop);
  EXPECT_EQ(turns, "ababbaabb");
  EXPECT_EQ(slices[0].size(), 3u);
  EXPECT_EQ(slices[1].size(), 3u);
}

/// Whether a process still runs: neither gone nor dead and not yet waited for.
bool runs(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string id, name, state;
  return file >> id >> name >> state && state != "Z" && state != "X";
}

bool ends_within(pid_t process, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    if (!runs(process)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

TEST(ChildProcess, EndsWithItsObjectAndSoDoItsChildren) {
  pid_t child = -1;
  int grandchild_end[2];
  ASSERT_EQ(pipe(grandchild_end), 0);
  pid_t grandchild = -1;
  {
    const ChildProcess process([&] {
      const pid_t id = fork();
      if (id == 0) {
        for (;;) pause();
      }
      if (write(grandchild_end[1], &id, sizeof(id)) != sizeof(id)) _exit(1);
      for (;;) pause();
    });
    child = process.id();
    ASSERT_EQ(read(grandchild_end[0], &grandchild, sizeof(grandchild)),
              static_cast<ssize_t>(sizeof(grandchild)));
    EXPECT_TRUE(runs(child));
    EXPECT_TRUE(runs(grandchild));
  }
  EXPECT_FALSE(runs(child));
  EXPECT_TRUE(ends_within(grandchild, std::chrono::milliseconds(2000)));
  close(grandchild_end[0]);
  close(grandchild_end[1]);
}

TEST(ChildProcess, EndsWhenTheProgramIsKilled) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t program = fork();
  if (program == 0) {
    const ChildProcess process([] {
      for (;;) pause();
    });
    const pid_t id = process.id();
    if (write(ends[1], &id, sizeof(id)) != sizeof(id)) _exit(1);
    for (;;) pause();
  }
  pid_t child = -1;
  ASSERT_EQ(read(ends[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
  EXPECT_TRUE(runs(child));
  kill(program, SIGKILL);
  waitpid(program, nullptr, 0);
  EXPECT_TRUE(ends_within(child, std::chrono::milliseconds(2000)));
  close(ends[0]);
  close(ends[1]);
}

TEST(Neighbour, AProgramThatEndsWithoutAWordIsAnError) {
  EXPECT_THROW(make_program({"/bin/true"}, 5000), Error);
  EXPECT_THROW(make_program({"/no/such/program"}, 5000), Error);
  EXPECT_EQ(make_program({"/bin/sh", "-c", "echo ready; sleep 60"}, 5000)->description(), "sh");
}

TEST(Neighbour, AQuotaIsSeenWhileItLastsOrIsAnErrorWhereItCannotBeSet) {
  const auto before = cpu_quota();
  try {
    const auto quota = make_cpu_quota(0.5);
    EXPECT_EQ(cpu_quota(), 0.5);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_EQ(cpu_quota(), before);
}

}  // namespace
}  // namespace talon::contention_test
