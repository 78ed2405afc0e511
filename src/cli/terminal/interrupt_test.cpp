#include "cli/terminal/interrupt.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include "io/atomic_file.h"
#include "io/test_files.h"

namespace talon::interrupt_test {
namespace {

using namespace test;

/// A program that is busy with a file and never looks whether it shall stop.
void write_until_killed(const std::filesystem::path& path) {
  const InterruptGuard interrupt;
  AtomicFile file(path);
  file.write(bytes_of("half"));
  while (true) {
    std::raise(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

/// A program whose reader leaves while it writes a file.
void write_to_nobody(const std::filesystem::path& path) {
  std::signal(SIGPIPE, SIG_DFL);
  const InterruptGuard interrupt;
  AtomicFile file(path);
  file.write(bytes_of("half"));
  std::raise(SIGPIPE);
}

TEST(Interrupt, AHangUpIsOneUnlessItIsIgnored) {
  const auto before = std::signal(SIGHUP, SIG_DFL);
  {
    const InterruptGuard interrupt;
    std::raise(SIGHUP);
    EXPECT_TRUE(interrupt.stop().requested());
    EXPECT_TRUE(interrupt.is_over());
  }
  std::signal(SIGHUP, SIG_IGN);
  {
    const InterruptGuard interrupt;
    std::raise(SIGHUP);
    EXPECT_FALSE(interrupt.stop().requested());
    EXPECT_EQ(ending_signals(), (std::vector<int>{SIGINT, SIGTERM}));
  }
  std::raise(SIGHUP);  // is ignored as before
  std::signal(SIGHUP, before);
}

TEST(Interrupt, ASecondOneLeavesNoPartOfAFile) {
  const TemporaryFolder folder;
  const auto path = folder.add("x", "old");
  EXPECT_EXIT(write_until_killed(path), testing::ExitedWithCode(130), "");
  const std::filesystem::directory_iterator files(folder.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
  EXPECT_EQ(std::filesystem::file_size(path), 3u);
}

TEST(Interrupt, AReaderThatLeavesEndsItWithoutAPartOfAFile) {
  const TemporaryFolder folder;
  const auto path = folder.add("x", "old");
  EXPECT_EXIT(write_to_nobody(path), testing::KilledBySignal(SIGPIPE), "");
  const std::filesystem::directory_iterator files(folder.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

}  // namespace
}  // namespace talon::interrupt_test
