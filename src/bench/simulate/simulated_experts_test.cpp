#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "bench/simulate/simulate.h"

namespace talon::simulated_experts_test {
namespace {

constexpr int kOneRow = 16;  // experts that a row goes to

/// A check of n rows takes 10 + 0.1 * (n - 1) milliseconds where all share the first one's experts,
/// and each further expert 0.2.
MachineCurve mixture() {
  MachineCurve curve;
  curve.name = "mixture";
  curve.checks = {{1, 10}, {101, 20}};
  curve.expert_ms = 0.2;
  return curve;
}

/// Rounds that each draft the chain of four next tokens of a text, which follows with chance
/// `truth`, as the drafter says. Each drafted row adds `adds` experts.
struct Text {
  int length = 400;
  double truth = 0.7;
  int adds = 0;
};
void append(const Text& text, Trace& trace) {
  const int begin = static_cast<int>(trace.rounds.size());
  for (int at = begin; at < begin + text.length; ++at) {
    TraceRound round;
    round.position = 100 + at;
    round.tree.reset(at);
    NodeId node = 0;
    for (int level = 1; level <= 4; ++level) {
      std::mt19937 random(static_cast<unsigned>(at + level));  // a place follows, or it does not
      const bool follows = std::uniform_real_distribution<>()(random) < text.truth;
      node = round.tree.add(node, follows ? at + level : 1'000'000 + at + level,
                            static_cast<float>(level * std::log(text.truth)));
    }
    round.accepted = {0};
    round.emitted = {at + 1};
    round.experts.assign(5, text.adds);
    round.experts.front() = kOneRow;
    round.check_ms = mixture().check_ms(5, 4 * text.adds);
    trace.rounds.push_back(std::move(round));
  }
}
Trace trace_of(std::initializer_list<Text> texts) {
  Trace trace;
  trace.about = {{"method", "ngram"}};
  for (const Text& text : texts) append(text, trace);
  return trace;
}
double drafted_per_check(const SimulationResult& result) {
  return static_cast<double>(result.drafted) / static_cast<double>(result.rounds);
}

TEST(RecordedExperts, AreTheMeansOfTheTracesRowsAndGoOnAsTheLastOne) {
  Trace trace = trace_of({{.length = 2, .adds = 3}, {.length = 2, .adds = 6}});
  trace.rounds[3].sequences = 2;  // says nothing of one text's rows
  const RecordedExperts experts(trace);
  EXPECT_EQ(experts.of(1), kOneRow);
  EXPECT_EQ(experts.of(5), kOneRow + 4 * 4);
  EXPECT_EQ(experts.of(9), kOneRow + 8 * 4);
  const auto known = std::vector<std::int32_t>{16, 1};
  EXPECT_EQ(experts.first_uses(4, known), (std::vector<std::int32_t>{16, 1, 4, 4}));
  EXPECT_EQ(experts.first_uses(1, known), (std::vector<std::int32_t>{16}));
  EXPECT_TRUE(RecordedExperts({}).first_uses(4, {}).empty());
  EXPECT_EQ(RecordedExperts({}).of(7), 0);
}

TEST(SimulatedExperts, MakeChecksDearer) {
  const Trace trace = trace_of({{.length = 100, .truth = 1, .adds = 3}});
  const SimulationResult result = simulate(trace, {"fixed", mixture(), 64});
  EXPECT_DOUBLE_EQ(result.tau(), 5);
  const auto rounds = static_cast<double>(result.rounds);
  EXPECT_NEAR(result.check_ms / rounds, 10.4 + 0.2 * 4 * 3, 0.1);
  EXPECT_NEAR(result.experts / rounds, kOneRow + 4 * 3, 0.5);
  EXPECT_DOUBLE_EQ(result.plain_tok_s, 100);
}

TEST(SimulatedExperts, ThroughputBuysNodesWhereRowsShareThem) {
  const auto result = [](int adds) {
    return simulate(trace_of({{.adds = adds}}), {"throughput", mixture(), 64});
  };
  double before = 5;
  for (const int adds : {0, 8, 16, 40}) {
    const SimulationResult found = result(adds);
    EXPECT_GE(found.tok_s(), 0.98 * found.plain_tok_s) << adds;
    EXPECT_LT(drafted_per_check(found), before + 0.1) << adds;
    before = drafted_per_check(found);
  }
  EXPECT_GT(drafted_per_check(result(0)), 3.5);
  EXPECT_GT(result(0).tok_s(), 1.5 * result(0).plain_tok_s);
  EXPECT_LT(drafted_per_check(result(40)), 0.2) << "80 % of a check for each row";
}

/// A node costs what the text at hand makes it cost: at the mean of both halves, 6 ms of 10, hardly
/// one is worth its price.
TEST(SimulatedExperts, ThroughputFollowsATextThatChanges) {
  const Text shared{.adds = 0}, apart{.adds = 60};
  const auto result = [](std::initializer_list<Text> texts) {
    return simulate(trace_of(texts), {"throughput", mixture(), 64});
  };
  const SimulationResult both = result({shared, apart});
  EXPECT_GT(both.tok_s(), 1.15 * both.plain_tok_s);
  EXPECT_LT(both.tok_s(), result({shared}).tok_s());
}

TEST(SimulatedExperts, NoTextMakesThroughputMuchSlowerThanPlainDecoding) {
  for (const int length : {5, 20, 100}) {
    for (const double truth : {0.3, 0.5, 0.7, 0.9}) {
      for (const int adds : {6, 20, 60}) {
        Trace trace;
        trace.about = {{"method", "ngram"}};
        while (trace.rounds.size() < 600) {
          append({length, truth, 0}, trace);
          append({length, truth, adds}, trace);
        }
        const SimulationResult found = simulate(trace, {"throughput", mixture(), 64});
        EXPECT_GE(found.tok_s(), 0.98 * found.plain_tok_s) << length << " " << truth << " " << adds;
      }
    }
  }
}

TEST(SimulatedExperts, ATraceTellsTheirPrice) {
  const Trace trace = trace_of({{.adds = 2}, {.adds = 9}});
  EXPECT_EQ(recorded_curve(trace).expert_ms, 0) << "the rows of one count do not bound it";
  Trace plain = trace;
  for (std::size_t i = 0; i < plain.rounds.size(); i += 3) {
    TraceRound& round = plain.rounds[i];
    round.tree.reset(round.tree[0].token);
    round.experts.resize(1);
    round.check_ms = mixture().check_ms(1);
  }
  const MachineCurve curve = recorded_curve(plain);
  EXPECT_NEAR(curve.expert_ms, 0.2, 1e-6);
  EXPECT_NEAR(curve.check_ms(1), 10, 1e-6);
  EXPECT_NEAR(curve.check_ms(5), 10.4, 1e-3);
}

}  // namespace
}  // namespace talon::simulated_experts_test
