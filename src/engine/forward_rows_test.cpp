#include "engine/forward_rows.h"

#include <gtest/gtest.h>

#include <limits>

#include "backend/reference/reference.h"
#include "backend/wrap/forwarding.h"
#include "core/error.h"

namespace talon::forward_rows_test {
namespace {

/// Counts questions for most likely tokens, and says that a wait costs `wait_us`.
class AskedBackend : public ForwardingBackend {
 public:
  explicit AskedBackend(double wait_us)
      : ForwardingBackend(make_reference_backend(1)), wait_us_(wait_us) {}

  BackendTraits traits() const override {
    BackendTraits traits = ForwardingBackend::traits();
    traits.wait_us = wait_us_;
    return traits;
  }
  void argmax(const View& x, const Indices& best, const View& largest) override {
    ++asked;
    ForwardingBackend::argmax(x, best, largest);
  }
  int asked = 0;

 private:
  double wait_us_;
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const std::vector<float> kLogits = {0, 3,    1,  //
                                    7, 2,    7,  //
                                    1, kNan, 5};

class Rows {
 public:
  explicit Rows(double wait_us)
      : backend(wait_us), logits(backend.allocate(3, 3)), scratch(backend) {
    backend.upload(kLogits, logits.view());
  }
  ForwardRows of_a_forward() { return {backend, logits.view(), scratch}; }

  AskedBackend backend;
  Buffer logits;
  RowScratch scratch;
};

TEST(ForwardRows, AskForEachRowWhereAWaitCostsNothing) {
  Rows rows(0);
  ForwardRows forward = rows.of_a_forward();
  EXPECT_EQ(forward.argmax(1), 0);
  EXPECT_EQ(forward.argmax(0), 1);
  EXPECT_THROW(forward.argmax(2), Error);
  EXPECT_EQ(forward.logits(0)[1], 3);
  EXPECT_EQ(rows.backend.asked, 3);
}

TEST(ForwardRows, AskForAllRowsAtOnceWhereAWaitCosts) {
  Rows rows(20);
  ForwardRows first = rows.of_a_forward();
  EXPECT_EQ(first.argmax(1), 0);
  EXPECT_EQ(first.argmax(0), 1);
  EXPECT_THROW(first.argmax(2), Error);  // of this row alone
  EXPECT_EQ(first.argmax(1), 0);
  EXPECT_EQ(rows.backend.asked, 1);
  rows.backend.upload(std::vector<float>{9, 0, 0, 0, 0, 9, 0, 9, 0}, rows.logits.view());
  ForwardRows second = rows.of_a_forward();
  EXPECT_EQ(second.argmax(2), 1);
  EXPECT_EQ(rows.backend.asked, 2);
}

}  // namespace
}  // namespace talon::forward_rows_test
