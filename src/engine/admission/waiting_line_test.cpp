#include "engine/admission/waiting_line.h"

#include <gtest/gtest.h>

namespace talon::waiting_line_test {
namespace {

/// A line of sequences 1, 2, ..., of which each wants as many pages as `wanted` says.
class Line {
 public:
  explicit Line(std::vector<int> wanted) : wanted_(std::move(wanted)) {
    for (std::size_t i = 0; i < wanted_.size(); ++i) push(static_cast<SequenceId>(i + 1));
  }
  void push(SequenceId id, Sequence::Clock::time_point deadline = Request().deadline) {
    line.push(make(id, deadline));
  }
  void set_back(SequenceId id) { line.put_back(make(id)); }
  /// All that find room among `pages`, in the order they are taken.
  std::vector<SequenceId> take(int pages) {
    std::vector<SequenceId> taken;
    const auto claim = [&](Sequence& sequence) {
      ++tries;
      const int wanted = wanted_[sequence.id - 1];
      if (wanted > pages) return false;
      pages -= wanted;
      return true;
    };
    while (const auto sequence = line.take(claim)) taken.push_back(sequence->id);
    return taken;
  }

  WaitingLine line;
  int tries = 0;

 private:
  static std::unique_ptr<Sequence> make(SequenceId id,
                                        Sequence::Clock::time_point deadline = Request().deadline) {
    Request request;
    request.prompt = {1};
    request.deadline = deadline;
    return std::make_unique<Sequence>(id, request, std::make_shared<MethodEntry>(), 8, nullptr);
  }

  std::vector<int> wanted_;
};

using Ids = std::vector<SequenceId>;

TEST(WaitingLine, ServesInTheOrderOfSubmissionWhoeverIsPushedLast) {
  Line waiting({1, 1, 1, 1});
  EXPECT_EQ(waiting.take(2), (Ids{1, 2}));
  waiting.set_back(1);
  EXPECT_EQ(waiting.take(9), Ids{}) << "3 was tried already, and 1 must wait for a new occasion";
  waiting.line.retry();
  EXPECT_EQ(waiting.take(9), (Ids{1, 3, 4}));
  EXPECT_TRUE(waiting.line.empty());
}

TEST(WaitingLine, ASmallOnePassesALargeOneABoundedNumberOfTimes) {
  std::vector<int> wanted(20, 1);
  wanted[0] = 100;
  Line waiting(wanted);
  int passed = 0;
  for (int occasion = 0; occasion < 30; ++occasion) {
    passed += static_cast<int>(waiting.take(1).size());
    waiting.line.retry();
  }
  EXPECT_EQ(passed, WaitingLine::kMostPasses);
  EXPECT_EQ(waiting.take(102), (Ids{1, 10, 11}));
}

TEST(WaitingLine, EachIsTriedOnceUntilThereMayBeMoreRoom) {
  Line waiting({5, 5, 5});
  for (int step = 0; step < 10; ++step) EXPECT_TRUE(waiting.take(1).empty());
  EXPECT_EQ(waiting.tries, 3);
  waiting.line.retry();
  EXPECT_EQ(waiting.take(5), (Ids{1}));
  EXPECT_EQ(waiting.tries, 6);
}

TEST(WaitingLine, TheCancelledLeaveFromAnyPlace) {
  Line waiting({1, 1, 1});
  waiting.line.find(2)->cancelled = true;
  EXPECT_EQ(waiting.line.take_ended({})->id, 2u);
  EXPECT_EQ(waiting.line.take_ended({}), nullptr);
  EXPECT_EQ(waiting.line.find(2), nullptr);
  EXPECT_EQ(waiting.take(9), (Ids{1, 3}));
}

TEST(WaitingLine, ThoseWhoseDeadlineIsPastLeaveFromAnyPlace) {
  const auto noon = Sequence::Clock::now();
  Line waiting({1, 1, 1});
  waiting.push(4, noon);
  EXPECT_EQ(waiting.line.take_ended(noon - std::chrono::seconds(1)), nullptr);
  const auto late = waiting.line.take_ended(noon);
  ASSERT_TRUE(late);
  EXPECT_EQ(late->id, 4u);
}

}  // namespace
}  // namespace talon::waiting_line_test
