#include "serve/fault_notes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace talon::fault_notes_test {
namespace {

using std::chrono::seconds;

TEST(FaultNotes, OfAKindComeNowAndThenWithTheNumberOfOthers) {
  std::vector<std::string> lines;
  FaultNotes notes([&](const std::string& line) { lines.push_back(line); });
  const FaultNotes::Clock::time_point start = {};
  for (int i = 0; i < 4; ++i) notes.add("an answer failed", fmt::format("no {}", i), start);
  notes.add("status 500", "no memory", start);
  notes.add("an answer failed", "later", start + seconds(10));
  notes.add("an answer failed", "much later", start + seconds(30));
  const std::vector<std::string> expected = {"an answer failed: no 0", "status 500: no memory",
                                             "an answer failed: later (and 3 like it before)",
                                             "an answer failed: much later"};
  EXPECT_EQ(lines, expected);
}

TEST(FaultNotes, ThatCannotBeWrittenDoNoHarm) {
  FaultNotes none(FaultNotes::Write{});
  FaultNotes broken([](const std::string&) { throw std::runtime_error("full"); });
  none.add("status 500", "");
  broken.add("status 500", "");
}

}  // namespace
}  // namespace talon::fault_notes_test
