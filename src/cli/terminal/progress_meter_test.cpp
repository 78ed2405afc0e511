#include "cli/terminal/progress_meter.h"

#include <gtest/gtest.h>

#include <algorithm>

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

}  // namespace
}  // namespace talon::progress_meter_test
