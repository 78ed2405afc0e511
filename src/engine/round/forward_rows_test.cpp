#include "engine/round/forward_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backend/reference/reference.h"
#include "backend/wrap/test_device.h"
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
const std::string kGolden = TALON_TEST_DATA "/golden/stories260k/";
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
    rows.begin(logits.view(), {[this] { return foreseen; }, [] { return std::vector<int>(); }});
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
  test::TestModel model(kGolden + "target", std::move(backend));
  std::vector<Request> requests(4);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = {1, 403, 407, static_cast<TokenId>(261 + i)};
    requests[i].max_new = 24;
    requests[i].seed = i;
    requests[i].sampler.temperature = i == 3 ? 0 : 0.7;
  }
  requests[2].sampler.top_k = 3;
  const auto answer_with = [&](const char* drafter) {
    const DrafterContext context{.target = &model.model, .head = kGolden + "eagle3_head"};
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

TEST(ForwardRows, ThatWillBeReadComeTogetherWhereAWaitCosts) {
  test::TestDevice device(make_reference_backend(1));
  const Buffer logits = device.allocate(5, 2);
  device.upload(std::vector<float>{0, 1, 10, 11, 20, 21, 30, 31, 40, 41}, logits.view());
  ForwardRows rows(device);
  std::vector<int> read = {0, 1, 3};
  const auto begin = [&] {
    rows.begin(logits.view(), {[] { return std::vector<RaceDraw>(); }, [&] { return read; }});
  };
  const auto row = [&](int index) {
    const std::span<const float> found = rows.logits(index);
    return std::vector<float>(found.begin(), found.end());
  };
  begin();
  EXPECT_EQ(row(1), (std::vector<float>{10, 11}));
  EXPECT_EQ(row(0), (std::vector<float>{0, 1}));
  EXPECT_EQ(row(3), (std::vector<float>{30, 31}));
  EXPECT_EQ(device.waits(), 1);
  EXPECT_EQ(device.rows, 3) << "none that nobody reads";
  read = {0, 2};  // more is known
  EXPECT_EQ(row(4), (std::vector<float>{40, 41}));
  EXPECT_EQ(row(2), (std::vector<float>{20, 21}));
  EXPECT_EQ(row(1), (std::vector<float>{10, 11}));
  EXPECT_EQ(device.waits(), 2);
  EXPECT_EQ(device.rows, 5);
  device.upload(std::vector<float>{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, logits.view());
  begin();
  EXPECT_EQ(row(2), (std::vector<float>{5, 4}));
  EXPECT_EQ(row(0), (std::vector<float>{9, 8}));
  EXPECT_EQ(device.waits(), 3);
}

/// What came of some requests in one engine.
struct Answered {
  std::vector<std::vector<TokenId>> tokens;
  std::vector<std::vector<double>> log_p;  // of the tokens, where requests ask
  int steps = 0;
};

Answered answer(Engine& engine, const std::vector<Request>& requests) {
  std::vector<SequenceId> ids;
  for (const Request& request : requests)
    ids.push_back(std::get<SequenceId>(engine.submit(request)));
  Answered answered{std::vector<std::vector<TokenId>>(ids.size()),
                    std::vector<std::vector<double>>(ids.size())};
  for (; !engine.idle(); ++answered.steps) {
    for (const Progress& progress : engine.step()) {
      const auto found = std::ranges::find(ids, progress.sequence);
      const auto at = static_cast<std::size_t>(found - ids.begin());
      auto& tokens = answered.tokens[at];
      tokens.insert(tokens.end(), progress.tokens.begin(), progress.tokens.end());
      for (const TokenLogprobs& one : progress.logprobs) answered.log_p[at].push_back(one.log_p);
    }
  }
  return answered;
}

std::vector<Request> requests_of(const std::vector<SamplerOptions>& samplers, int logprobs) {
  std::vector<Request> requests(samplers.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = {1, 403, 407, static_cast<TokenId>(261 + i)};
    requests[i].max_new = 24;
    requests[i].seed = i;
    requests[i].sampler = samplers[i];
    requests[i].logprobs = logprobs;
  }
  return requests;
}

/// The same answers on a device as where each row is read in place, and how often the device's
/// logits were waited for in so many steps.
std::pair<int, int> waits_and_steps(const std::vector<Request>& requests, const char* drafter) {
  const auto answer_on = [&](std::unique_ptr<Backend> backend) {
    test::TestModel model(kGolden + "target", std::move(backend));
    const DrafterContext context{.target = &model.model, .head = kGolden + "eagle3_head"};
    test::TestOptions options;
    options.policy = "fixed";
    test::TestEngine tested(model, make_drafter(drafter, context), options);
    const auto* device = dynamic_cast<const test::TestDevice*>(model.backend.get());
    const int before = device ? device->waits_for(model.vocabulary()) : 0;
    Answered answered = answer(tested.engine, requests);
    const int waits = device ? device->waits_for(model.vocabulary()) - before : 0;
    return std::pair(std::move(answered), waits);
  };
  const auto [expected, none] = answer_on(make_reference_backend(1));
  const auto [found, waits] =
      answer_on(std::make_unique<test::TestDevice>(make_reference_backend(1)));
  EXPECT_EQ(none, 0);
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.log_p, expected.log_p);
  EXPECT_EQ(found.steps, expected.steps);
  for (std::size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(found.log_p[i].size(), requests[i].logprobs < 0 ? 0u : found.tokens[i].size());
  return {waits, found.steps};
}

const SamplerOptions kDrawn{.temperature = 0.7};
const SamplerOptions kCut{.temperature = 0.7, .top_k = 3};
const SamplerOptions kPenalized{.repetition_penalty = 1.3};
const SamplerOptions kBiased{.temperature = 0.7, .logit_bias = {{300, 1.0F}}};

TEST(ForwardRows, OfAnEngineThatAreReadComeInOneWaitForAForward) {
  for (const char* drafter : {"none", "eagle3"}) {
    for (const int logprobs : {-1, 2}) {
      const auto requests = requests_of({kCut, kPenalized, kBiased}, logprobs);
      const auto [waits, steps] = waits_and_steps(requests, drafter);
      EXPECT_EQ(waits, steps) << drafter << " " << logprobs;
    }
  }
}

TEST(ForwardRows, OfAnEngineComeInOneWaitForTheLogprobsOfAForward) {
  for (const char* drafter : {"none", "eagle3"}) {
    const auto [waits, steps] = waits_and_steps(requests_of({kDrawn, {}, kDrawn}, 0), drafter);
    EXPECT_EQ(waits, steps) << drafter;
  }
}

/// The rows that verdicts took are known only after them.
TEST(ForwardRows, OfAnEngineComeInTwoWaitsWhereSomeAreReadToDrawAndOthersForLogprobsAlone) {
  const auto requests = requests_of({kDrawn, kCut, {}}, 1);
  const auto [plain_waits, plain_steps] = waits_and_steps(requests, "none");
  EXPECT_EQ(plain_waits, plain_steps) << "of trees without drafts they are known";
  const auto [waits, steps] = waits_and_steps(requests, "eagle3");
  EXPECT_LE(waits, 2 * steps);
}

/// Wants to see a layer of the target, and drafts nothing.
class SeeingPolicy : public TreePolicy {
 public:
  std::vector<FeatureTap> taps() const override { return {{.layer = 2}}; }
  std::unique_ptr<PolicyState> start(DrafterEstimates&, const MachineCosts&) const override {
    return std::make_unique<State>(seen);
  }
  mutable std::vector<std::vector<float>> seen;

 private:
  struct State : PolicyState {
    explicit State(std::vector<std::vector<float>>& to) : seen(to) {}
    TreePlan plan(const PlanContext& context) override {
      seen.emplace_back(context.feature.begin(), context.feature.end());
      return {};
    }
    std::vector<std::vector<float>>& seen;
  };
};

TEST(Round, WaitsOnceForWhatThePoliciesOfAllSequencesWantToSee) {
  const auto see_on = [](std::unique_ptr<Backend> backend) {
    test::TestModel model(kGolden + "target", std::move(backend));
    test::TestEngine tested(model, make_drafter("none", {}));
    const auto policy = std::make_shared<SeeingPolicy>();
    auto requests = requests_of({kDrawn, {}, kCut}, -1);
    const MethodId seeing =
        tested.engine.add({make_drafter("none", {}), policy, make_verifier("follow")});
    for (Request& request : requests) request.method = seeing;
    const Answered answered = answer(tested.engine, requests);
    if (const auto* device = dynamic_cast<const test::TestDevice*>(model.backend.get())) {
      EXPECT_EQ(device->waits_for(model.model.config.hidden), answered.steps);
    }
    return policy->seen;
  };
  const auto expected = see_on(make_reference_backend(1));
  EXPECT_EQ(expected.size(), 3u * 23);
  for (const auto& feature : expected) EXPECT_FALSE(feature.empty());
  EXPECT_EQ(see_on(std::make_unique<test::TestDevice>(make_reference_backend(1))), expected);
}

}  // namespace
}  // namespace talon::forward_rows_test
