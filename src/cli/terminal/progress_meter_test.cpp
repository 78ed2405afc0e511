#include "cli/terminal/progress_meter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

namespace talon::progress_meter_test {
namespace {

constexpr WorkState kHalf{ProgressMeter::Unit::bytes, 500'000'000, 4'000'000'000, 10};

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

TEST(ProgressLine, SaysHowFarHowFastAndHowMuchLonger) {
  EXPECT_EQ(progress_line("pull x", kHalf, 80),
            "pull x: 500.0 MB of 4.00 GB (12%), 50.0 MB/s, 1:10 min left");
  EXPECT_EQ(progress_line("score", {.done = 5, .seconds = 2}, 80), "score: 5, 2.5/s");
}

TEST(ProgressLine, WhatWasThereBeforeMakesTheWorkNoFaster) {
  WorkState gone_on = kHalf;
  gone_on.before = 400'000'000;
  EXPECT_EQ(progress_line("pull x", gone_on, 80),
            "pull x: 500.0 MB of 4.00 GB (12%), 10.0 MB/s, 5:50 min left");
}

TEST(ProgressLine, ShortensTheLabelToTheWidth) {
  EXPECT_EQ(progress_line("pull model-00001-of-00004.safetensors", kHalf, 79),
            "pull model-00001-of-00004…: 500.0 MB of 4.00 GB (12%), 50.0 MB/s, 1:10 min left");
  const std::string umlauts =
      progress_line("größer als alles übrige davor und dahinter", kHalf, 79);
  EXPECT_EQ(characters(umlauts), 79u) << umlauts;
  EXPECT_TRUE(umlauts.starts_with("größer als alles übrige d…: 500.0 MB")) << umlauts;
}

TEST(ProgressLine, EndsWhereATerminalIsNarrow) {
  EXPECT_EQ(progress_line("pull model.gguf", kHalf, 39), "…: 500.0 MB of 4.00 GB (12%), 50.0 MB/…");
  for (int columns = 1; columns < 100; ++columns)
    EXPECT_LE(characters(progress_line("größer", kHalf, columns)),
              static_cast<std::size_t>(columns));
}

TEST(ProgressLine, OfWorkThatHasHardlyBegunSaysThatItTakesLong) {
  EXPECT_EQ(progress_line("x", {.done = 1, .total = 1'000'000'000'000, .seconds = 1}, 80),
            "x: 1 of 1000000000000 (0%), 1.0/s, 100 days or more left");
}

/// What a meter shows in its first second on a terminal of this kind.
std::string shown_on(const char* kind) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return "no terminal";
  const int terminal = ::open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
  const int notes = ::dup(STDERR_FILENO);
  const char* known = getenv("TERM");
  const std::string before = known ? known : "";
  ::dup2(terminal, STDERR_FILENO);
  setenv("TERM", kind, 1);
  {
    ProgressMeter meter("work");
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    meter.update(1, 2);
  }
  setenv("TERM", before.c_str(), 1);
  ::dup2(notes, STDERR_FILENO);
  for (const int done : {terminal, notes}) ::close(done);
  std::string text;
  char piece[256];
  for (ssize_t count = 0; (count = ::read(master, piece, sizeof(piece))) > 0;)
    text.append(piece, static_cast<std::size_t>(count));
  ::close(master);
  return text;
}

TEST(ProgressMeter, RewritesItsLineWhereTheTerminalCan) {
  EXPECT_NE(shown_on("xterm").find("work: 1 of 2 (50%)"), std::string::npos);
  EXPECT_EQ(shown_on("dumb"), "");
}

}  // namespace
}  // namespace talon::progress_meter_test
