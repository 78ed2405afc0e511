#include "engine/forward_rows.h"

#include <gtest/gtest.h>

#include <limits>

#include "backend/reference/reference.h"
#include "backend/wrap/forwarding.h"
#include "core/error.h"

namespace talon::forward_rows_test {
namespace {

/// Counts questions for most likely tokens, and says that a wait costs `wait_us` and how much
/// memory of its own it has.
class AskedBackend : public ForwardingBackend {
 public:
  AskedBackend(double wait_us, std::size_t memory_bytes)
      : ForwardingBackend(make_reference_backend(1)),
        wait_us_(wait_us),
        memory_bytes_(memory_bytes) {}

  BackendTraits traits() const override {
    BackendTraits traits = ForwardingBackend::traits();
    traits.wait_us = wait_us_;
    traits.memory_bytes = memory_bytes_;
    return traits;
  }
  void argmax(const View& x, const Indices& best, const View& largest) override {
    ++asked;
    ForwardingBackend::argmax(x, best, largest);
  }
  int asked = 0;

 private:
  double wait_us_;
  std::size_t memory_bytes_;
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const std::vector<float> kLogits = {0, 3,    1,  //
                                    7, 2,    7,  //
                                    1, kNan, 5};

class Rows {
 public:
  explicit Rows(double wait_us, std::size_t memory_bytes = 0)
      : backend(wait_us, memory_bytes), logits(backend.allocate(3, 3)), rows(backend) {
    begin(kLogits);
  }
  void begin(const std::vector<float>& values) {
    backend.upload(values, logits.view());
    rows.begin(logits.view());
  }

  AskedBackend backend;
  Buffer logits;
  ForwardRows rows;
};

TEST(ForwardRows, AskForEachRowWhereAWaitCostsNothing) {
  Rows of(0);
  EXPECT_EQ(of.rows.argmax(1), 0);
  EXPECT_EQ(of.rows.argmax(0), 1);
  EXPECT_THROW(of.rows.argmax(2), Error);
  EXPECT_EQ(of.rows.logits(0)[1], 3);
  EXPECT_EQ(of.backend.asked, 3);
}

TEST(ForwardRows, AreReadInPlaceWhereTheMemoryIsTheHosts) {
  for (const std::size_t memory_bytes : {0, 1 << 20}) {
    Rows of(0, memory_bytes);
    const std::span<const float> row = of.rows.logits(1);
    EXPECT_EQ(row.data() == of.logits.view().row(1), memory_bytes == 0);
    EXPECT_EQ(std::vector<float>(row.begin(), row.end()), (std::vector<float>{7, 2, 7}));
  }
}

TEST(ForwardRows, AskForTheRowsOfAllTreesAtOnceWhereAWaitCosts) {
  Rows of(20);
  TreeRows first(of.rows, 0), second(of.rows, 1);
  EXPECT_EQ(second.argmax(0), 0);
  EXPECT_EQ(first.argmax(0), 1);
  EXPECT_THROW(second.argmax(1), Error);  // of this row alone
  EXPECT_EQ(first.argmax(1), 0);
  EXPECT_EQ(of.backend.asked, 1);
  of.begin({9, 0, 0, 0, 0, 9, 0, 9, 0});
  EXPECT_EQ(second.argmax(1), 1);
  EXPECT_EQ(second.logits(0)[2], 9);
  EXPECT_EQ(of.backend.asked, 2);
}

TEST(ForwardRows, RaceAloneAndKeepWhatWasFoundOfAll) {
  Rows of(20);
  EXPECT_EQ(of.rows.argmax(0), 1);
  const RaceDraw draw{RaceNoise(PositionRandom(3, 0), 5), 0.01};
  EXPECT_EQ(of.rows.race(0, draw), 1) << "the likeliest, so cold";
  EXPECT_THROW(of.rows.race(2, draw), Error);
  EXPECT_EQ(of.rows.argmax(1), 0);
  EXPECT_EQ(of.backend.asked, 1);
}

}  // namespace
}  // namespace talon::forward_rows_test
