#include "engine/forward_rows.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "backend/reference/reference.h"
#include "backend/wrap/forwarding.h"
#include "core/error.h"
#include "draft/registry.h"
#include "engine/test_model.h"

namespace talon::forward_rows_test {
namespace {

/// Counts questions for most likely tokens and races, and says that a wait costs `wait_us` and how
/// much memory of its own it has.
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
  void race(const View& logits, std::span<const RaceDraw> draws, const Indices& winners,
            const View& largest) override {
    raced.push_back(logits.rows);
    ForwardingBackend::race(logits, draws, winners, largest);
  }
  int asked = 0;
  std::vector<int> raced;  // rows of each question

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
    rows.begin(logits.view(), [this] { return foreseen; });
  }

  AskedBackend backend;
  Buffer logits;
  ForwardRows rows;
  std::vector<RaceDraw> foreseen;
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

RaceDraw draw_at(std::uint64_t position) {
  return {RaceNoise(PositionRandom(3, 0), position), 0.01};  // so cold that the likeliest wins
}

TEST(ForwardRows, RaceAloneWhereAWaitCostsNothing) {
  Rows of(0);
  EXPECT_EQ(of.rows.race(0, draw_at(5)), 1);
  EXPECT_THROW(of.rows.race(2, draw_at(6)), Error);
  EXPECT_EQ(of.backend.raced, (std::vector<int>{1, 1}));
}

TEST(ForwardRows, RaceForAllTreesAtOnceWhereAWaitCosts) {
  Rows of(20);
  of.foreseen = {draw_at(5), draw_at(6), draw_at(6)};
  TreeRows first(of.rows, 0), second(of.rows, 1);
  EXPECT_EQ(of.rows.argmax(0), 1);
  EXPECT_EQ(first.race(0, draw_at(5)), 1);
  EXPECT_NE(second.race(0, draw_at(6)), 1);
  EXPECT_THROW(second.race(1, draw_at(6)), Error);  // of this row alone
  EXPECT_EQ(of.backend.raced, (std::vector<int>{3}));
  EXPECT_EQ(first.race(0, draw_at(7)), 1) << "another draw than was foreseen";
  EXPECT_EQ(of.backend.raced, (std::vector<int>{3, 1}));
  EXPECT_EQ(first.race(0, draw_at(5)), 1);
  EXPECT_EQ(of.rows.argmax(1), 0);
  EXPECT_EQ(of.backend.asked, 1);
  of.begin({9, 0, 0, 0, 0, 9, 0, 9, 0});
  EXPECT_EQ(second.race(1, draw_at(6)), 1);
  EXPECT_EQ(of.backend.raced, (std::vector<int>{3, 1, 3}));
}

/// Drawn, greedy and cut answers at once, where a wait costs something.
TEST(ForwardRows, OfAnEngineWaitOnceForTheDrawsOfAForward) {
  auto backend = std::make_unique<AskedBackend>(20, 0);
  AskedBackend& asked = *backend;
  const std::string golden = TALON_TEST_DATA "/golden/stories260k/";
  test::TestModel model(golden + "target", std::move(backend));
  std::vector<Request> requests(4);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = {1, 403, 407, static_cast<TokenId>(261 + i)};
    requests[i].max_new = 24;
    requests[i].seed = i;
    requests[i].sampler.temperature = i == 3 ? 0 : 0.7;
  }
  requests[2].sampler.top_k = 3;
  const auto answer_with = [&](const char* drafter) {
    const DrafterContext context{.target = &model.model, .head = golden + "eagle3_head"};
    test::TestOptions options;
    options.policy = "fixed";
    test::TestEngine engine(model, make_drafter(drafter, context), options);
    std::vector<std::vector<TokenId>> texts;
    for (const test::Answer& answer : engine.run(requests)) texts.push_back(answer.tokens);
    return texts;
  };
  const auto plain = answer_with("none");
  const std::size_t steps = asked.raced.size();
  EXPECT_EQ(steps, 24u);
  EXPECT_EQ(answer_with("eagle3"), plain);
  EXPECT_GT(asked.raced.size(), steps);
  EXPECT_LT(asked.raced.size(), steps + 24) << "several tokens of a tree in one question";
  for (const int rows : asked.raced) EXPECT_GE(rows, 2);
}

}  // namespace
}  // namespace talon::forward_rows_test
