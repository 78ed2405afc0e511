#include "bench/image/sample_time.h"

#include <gtest/gtest.h>

namespace talon::sample_time_test {
namespace {

TEST(SampleTime, IsWhatDraftsAndChecksLeaveOfTheirSteps) {
  SequenceStatistics s;
  s.prefill_ms = 100;
  s.decode_ms = 10;
  s.draft_ms = 2.5;
  s.check_ms = 6;
  EXPECT_DOUBLE_EQ(sample_ms_of(s), 1.5);
  s.check_ms = 8;  // clocks that disagree
  EXPECT_EQ(sample_ms_of(s), 0);
}

}  // namespace
}  // namespace talon::sample_time_test
