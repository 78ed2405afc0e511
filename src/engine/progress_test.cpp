#include "engine/progress.h"

#include <gtest/gtest.h>

namespace talon::progress_test {
namespace {

TEST(FinishReasons, HaveTheNamesOfTheCommandLine) {
  EXPECT_EQ(name_of(FinishReason::stop_token), "stop");
  EXPECT_EQ(name_of(FinishReason::stop_text), "stop_text");
  EXPECT_EQ(name_of(FinishReason::length), "length");
  EXPECT_EQ(name_of(FinishReason::cancelled), "cancelled");
  EXPECT_EQ(name_of(FinishReason::no_room), "no_room");
  EXPECT_EQ(name_of(FinishReason::failed), "failed");
}

}  // namespace
}  // namespace talon::progress_test
