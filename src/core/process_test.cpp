#include "core/process.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>

#include "core/error.h"

namespace talon::process_test {
namespace {

int run(const std::vector<std::string>& command, int output = STDERR_FILENO) {
  const auto process = start_process({.command = command, .output = output});
  return process ? wait_for_process(*process) : -1;
}

TEST(Process, EndsWithItsCodeOrItsSignal) {
  EXPECT_EQ(run({"true"}), 0);
  EXPECT_EQ(run({"sh", "-c", "exit 3"}), 3);
  EXPECT_EQ(run({"sh", "-c", "kill -TERM $$"}), 128 + SIGTERM);
}

TEST(Process, ThatDoesNotExistIsNothingAndOneThatCannotRunAnError) {
  EXPECT_EQ(run({"no-such-program-of-any-kind"}), -1);
  EXPECT_EQ(run({"/no/such/program"}), -1);
  EXPECT_THROW(run({"/"}), Error);
}

TEST(Process, WritesAllToItsOutputAndReadsNothing) {
  const int output = memfd_create("output", MFD_CLOEXEC);
  EXPECT_EQ(run({"sh", "-c", "cat; echo words; echo trouble >&2"}, output), 0);
  std::string text(64, ' ');
  text.resize(static_cast<std::size_t>(pread(output, text.data(), text.size(), 0)));
  close(output);
  EXPECT_EQ(text, "words\ntrouble\n");
}

TEST(Process, RunsInItsFolderWithItsArgumentsAsTheyAre) {
  const auto process =
      start_process({.command = {"sh", "-c", "test \"$(pwd)\" = / && test \"$0\" = 'a  *'", "a  *"},
                     .folder = "/"});
  ASSERT_TRUE(process);
  EXPECT_EQ(wait_for_process(*process), 0);
}

TEST(Process, ApartIsOutOfReachOfCtrlC) {
  const auto process = start_process({.command = {"sleep", "60"}, .apart = true});
  ASSERT_TRUE(process);
  EXPECT_EQ(getpgid(*process), *process);
  kill(*process, SIGKILL);
  EXPECT_EQ(wait_for_process(*process), 128 + SIGKILL);
}

}  // namespace
}  // namespace talon::process_test
