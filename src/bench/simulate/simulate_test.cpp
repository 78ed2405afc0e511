#include "bench/simulate/simulate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "backend/reference/reference.h"
#include "bench/spec/contestant.h"
#include "core/error.h"
#include "io/checkpoint.h"

namespace talon::simulate_test {
namespace {

/// A machine on which a check of n rows takes 10 + n - 1 milliseconds.
MachineCurve ramp() {
  MachineCurve curve;
  curve.name = "ramp";
  curve.checks = {{1, 10}, {101, 110}};
  return curve;
}

TEST(MachineCurve, InterpolatesAndGoesOnAsItsEndsDo) {
  const MachineCurve curve{"c", "", {{1, 10}, {4, 10}, {8, 18}}};
  EXPECT_DOUBLE_EQ(curve.check_ms(1), 10);
  EXPECT_DOUBLE_EQ(curve.check_ms(3), 10);
  EXPECT_DOUBLE_EQ(curve.check_ms(6), 14);
  EXPECT_DOUBLE_EQ(curve.check_ms(16), 34);
}

TEST(MachineCurve, BuiltInOnesAreNamedAscendAndSayTheirSource) {
  for (const MachineCurve& curve : built_in_curves()) {
    EXPECT_FALSE(curve.source.empty()) << curve.name;
    EXPECT_EQ(find_curve(curve.name).checks, curve.checks);
    for (std::size_t i = 1; i < curve.checks.size(); ++i)
      EXPECT_GT(curve.checks[i].first, curve.checks[i - 1].first) << curve.name;
  }
  EXPECT_EQ(find_curve("laptop-1b").pass_ms, 1.6);
  EXPECT_EQ(find_curve("laptop-1b").pass_row_ms, 0);
  EXPECT_EQ(find_curve("laptop-1b").rest_ms, 2.0);
  EXPECT_EQ(find_curve("llamacpp-1b").pass_row_ms, 0);
  EXPECT_THROW(find_curve("no such machine"), UsageError);
}

class CurveFile : public testing::Test {
 protected:
  MachineCurve read(const std::string& text) {
    std::ofstream(path_) << text;
    return find_curve(path_.string());
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() /
      (std::string("talon_curve_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(CurveFile, IsAnObjectOrTheLinesOfBenchCost) {
  const MachineCurve curve = read(R"({"name": "x", "checks": [[1, 5], [2, 6]], "pass_ms": 0.5,
    "pass_row_ms": 0.25, "first_pass_ms": 0.75, "rest_ms": 0.1, "batch": 4, "expert_ms": 0.5})");
  EXPECT_EQ(curve.name, "x");
  EXPECT_EQ(curve.batch, 4);
  EXPECT_EQ(curve.pass_ms, 0.5);
  EXPECT_EQ(curve.pass_row_ms, 0.25);
  EXPECT_EQ(curve.expert_ms, 0.5);
  const CostProfile profile = curve.profile(RecordedExperts({}));
  EXPECT_DOUBLE_EQ(profile.levels.back().ms, 0.5 + 0.25 * 127);
  EXPECT_EQ(profile.first_pass_ms, 0.75);
  EXPECT_EQ(profile.expert_ms, 0) << "where no experts are known";
  const MachineCurve lines = read(
      "{\"rows\":1,\"ms\":4,\"context\":256}\n{\"rows\":8,\"ms\":9,\"context\":256}\n"
      "{\"bandwidth_gb_s\":60}\n");
  EXPECT_EQ(lines.checks, (std::vector<std::pair<int, double>>{{1, 4}, {8, 9}}));
  EXPECT_LT(lines.pass_ms, 0);
}

TEST_F(CurveFile, ThatIsNoneIsRefused) {
  for (const char* text :
       {"{}", "[]", "{\"checks\": []}", "{\"checks\": [[1]]}", "", "{\"checks\": [[2, 1], [1, 2]]}",
        "{\"checks\": [[1, 1]], \"pass_msec\": 2}", "{\"checks\": [[1, 0]]}",
        "{\"checks\": [[1, 1]], \"batch\": 0}", "{\"checks\": [[1, 1]], \"pass_row_ms\": -1}",
        "{\"checks\": [[1, 1]], \"first_pass_ms\": -1}",
        "{\"checks\": [[1, 1]], \"expert_ms\": -1}", "{\"checks\": [[1, 1]], \"rest_ms\": -1}",
        "{\"checks\": [[1.5, 1]]}", "{\"checks\": [[1e300, 1]]}", "{\"rows\": \"x\"}\n{}"})
    EXPECT_THROW(read(text), Error) << text;
}

TEST_F(CurveFile, ThatIsNoneIsToldByField) {
  const auto told = [&](const char* text) -> std::string {
    try {
      read(text);
    } catch (const Error& error) {
      return std::string(error.what()).substr(std::string(error.what()).find(path_.filename()));
    }
    return "";
  };
  const std::string name = path_.filename();
  EXPECT_EQ(told(R"({"checks": [[1, 1]], "rest_ms": "x"})"),
            name + R"(: field "rest_ms": expected finite numbers, found "x")");
  EXPECT_EQ(told("{\"rows\": 1, \"ms\": 2}\n{\"rows\": 0}\n"),
            name + R"(, line 2: field "rows": expected whole numbers from 1 to 1048576, found 0)");
}

/// Rounds that each draft the chain of the next `levels` tokens of a text that counts upwards.
Trace counting_trace(int length, int levels, int step) {
  Trace trace;
  trace.about = {{"method", "ngram"}};
  for (int at = 0; at + 1 < length; at += step) {
    TraceRound round;
    round.position = 100 + at;
    round.tree.reset(at);
    NodeId node = 0;
    for (int level = 1; level <= levels; ++level)
      node = round.tree.add(node, at + level, static_cast<float>(level * std::log(0.9)));
    for (int i = 0; i < step && at + i + 1 < length; ++i) {
      if (i > 0) round.accepted.push_back(i);
      round.emitted.push_back(at + i + 1);
    }
    round.accepted.insert(round.accepted.begin(), 0);
    round.check_ms = 10 + levels;
    trace.rounds.push_back(std::move(round));
  }
  return trace;
}

TEST(Simulation, CountsWhatThePolicyWouldHaveTaken) {
  const Trace trace = counting_trace(101, 4, 1);  // a tree at every position
  const SimulationResult result = simulate(trace, {"fixed", ramp(), 64});
  EXPECT_EQ(result.tokens, 2 * 100);  // played twice
  EXPECT_EQ(result.rounds, 2 * 20);   // of five tokens
  EXPECT_DOUBLE_EQ(result.tau(), 5);
  EXPECT_DOUBLE_EQ(result.check_ms, 2 * (20 * 14));
  EXPECT_EQ(result.borrowed, 0);
  EXPECT_DOUBLE_EQ(result.plain_tok_s, 100);
}

TEST(Simulation, AHeadFirstRunsWhatWasCommittedSinceItsLastPass) {
  Trace trace = counting_trace(101, 4, 1);
  trace.about = {{"method", "eagle3"}};
  MachineCurve machine = ramp();
  machine.pass_ms = 1;
  machine.pass_row_ms = 0.1;
  const SimulationResult result = simulate(trace, {"fixed", machine, 64});
  ASSERT_EQ(result.rounds, 2 * 20);  // of four passes and five tokens
  EXPECT_NEAR(result.draft_ms, 2 * (20 * 4 + 19 * 4 * 0.1), 1e-9);
  machine.first_pass_ms = 0.5;
  const SimulationResult dearer = simulate(trace, {"fixed", machine, 64});
  EXPECT_NEAR(dearer.draft_ms - result.draft_ms, 2 * 20 * 0.5, 1e-9);
}

TEST(Simulation, AHeadThatGuessesAllLevelsInOnePassHasNoneForEach) {
  Trace trace = counting_trace(101, 4, 1);
  trace.about = {{"method", "medusa"}};
  for (TraceRound& round : trace.rounds) round.draft_ms = 2;
  MachineCurve machine = ramp();
  machine.pass_ms = 1;
  EXPECT_EQ(recorded_drafter(trace).passing_sources, 0u);
  const SimulationResult result = simulate(trace, {"fixed", machine, 64});
  EXPECT_NEAR(result.draft_ms, result.rounds * 2.0, 1e-9);
}

TEST(Simulation, ATraceSaysWhatTheFirstPassAndTheNextOnesTook) {
  Trace trace = counting_trace(101, 4, 1);
  trace.about = {{"method", "eagle3"}};
  for (TraceRound& round : trace.rounds) round.draft_ms = 4;
  EXPECT_DOUBLE_EQ(recorded_drafter(trace).pass_ms, 1);  // all of one depth
  EXPECT_DOUBLE_EQ(recorded_drafter(trace).first_pass_ms, 0);
  for (TraceRound& round : counting_trace(101, 2, 1).rounds) {
    trace.rounds.push_back(round);
    trace.rounds.back().draft_ms = 2.5;
  }
  EXPECT_NEAR(recorded_drafter(trace).pass_ms, 0.75, 1e-9);
  EXPECT_NEAR(recorded_drafter(trace).first_pass_ms, 1, 1e-9);
}

TEST(Simulation, AProbeIsNotTakenForText) {
  Trace trace = counting_trace(91, 4, 1);
  for (TraceRound& round : trace.rounds) {
    for (DraftTree::Node& node : round.tree.nodes) {
      if (node.depth > 2) node.kind = NodeKind::probe;
    }
  }
  EXPECT_DOUBLE_EQ(simulate(trace, {"fixed", ramp(), 64}).tau(), 3);
}

TEST(Simulation, CutsTreesToTheNodesAllowed) {
  const SimulationResult result = simulate(counting_trace(101, 4, 1), {"fixed", ramp(), 1});
  EXPECT_DOUBLE_EQ(result.tau(), 2);
  EXPECT_EQ(result.drafted, result.rounds);
}

TEST(Simulation, BorrowsTreesWhereNoneWasRecorded) {
  const SimulationResult result = simulate(counting_trace(101, 4, 5), {"fixed", ramp(), 1});
  EXPECT_EQ(result.tokens, 200);
  EXPECT_GT(result.borrowed, 0);
  EXPECT_LT(result.tau(), 2);  // at a fifth of the roots nothing is left of the tree
}

TEST(Simulation, BuysNothingWhereRowsAreDear) {
  MachineCurve dear = ramp();
  dear.checks = {{1, 10}, {2, 30}, {64, 10000}};
  const SimulationResult result = simulate(counting_trace(301, 4, 1), {"throughput", dear, 64});
  EXPECT_LT(result.tau(), 1.02);
  EXPECT_GT(result.tok_s(), 0.98 * result.plain_tok_s);
  MachineCurve cheap = ramp();
  cheap.checks = {{1, 10}, {64, 10.1}};
  EXPECT_GT(simulate(counting_trace(301, 4, 1), {"throughput", cheap, 64}).tau(), 4);
}

TEST(Simulation, BatchesShareTheCheck) {
  MachineCurve machine = ramp();
  machine.batch = 8;
  const SimulationResult result = simulate(counting_trace(41, 4, 1), {"fixed", machine, 64});
  EXPECT_DOUBLE_EQ(result.tau(), 5);
  const double per_round = result.check_ms / (static_cast<double>(result.rounds) / 8);
  EXPECT_NEAR(per_round, 10 + 8 * 5 - 1, 3);  // the last tokens of an answer draft less
}

TEST(Simulation, RefusesWhatItCannotReplay) {
  const Trace trace = counting_trace(11, 2, 1);
  EXPECT_THROW(simulate(trace, {"no such policy", ramp(), 8}), UsageError);
  EXPECT_THROW(simulate(Trace{}, {"fixed", ramp(), 8}), Error);
  Trace gap = trace;
  gap.rounds.erase(gap.rounds.begin() + 1);
  EXPECT_THROW(simulate(gap, {"fixed", ramp(), 8}), Error);
}

/// The real engine on stories260K, and what a trace with a tree at every position says of it.
class AgainstARealRun : public testing::Test {
 protected:
  AgainstARealRun()
      : backend_(make_reference_backend(1)),
        checkpoint_(open_checkpoint(std::string(TALON_TEST_DATA) + "/models/stories260K.bin")),
        model_(load_model(checkpoint_, *backend_, {})),
        tokenizer_(Tokenizer::for_checkpoint(checkpoint_)),
        cache_(*backend_,
               within_budget(kv_shape(model_.config, 1, KvType::f32), std::size_t{16} << 20)) {}

  /// The rounds of one answer.
  RoundTally rounds(const std::string& policy, bool every_position, Trace* trace) {
    DecodeSettings settings;
    settings.policy = "fixed";
    settings.every_position = every_position;
    if (trace) {
      settings.observer = [trace](const RoundReport& report) {
        trace->rounds.push_back(keep(report));
        trace->rounds.back().check_ms =
            10 + report.tree->size();  // a clock that others' load leaves alone
      };
    }
    const auto contestant = make_contestant({model_, cache_, tokenizer_},
                                            parse_method("ngram@policy=" + policy), settings);
    Request request;
    request.prompt = tokenizer_.encode("Once upon a time there was a little girl. She was", {});
    request.max_new = 100;
    request.reuse_prefix = false;
    return contestant->answer(request, nullptr).rounds;
  }

  std::unique_ptr<Backend> backend_;
  Checkpoint checkpoint_;
  Model model_;
  Tokenizer tokenizer_;
  KvCache cache_;
};

TEST_F(AgainstARealRun, PoliciesThatLookAtNoClockGiveExactlyWhatWasSimulated) {
  Trace trace;
  trace.about = {{"method", "ngram"}};
  EXPECT_EQ(rounds("fixed", true, &trace).accepted, 0);
  for (const std::string policy : {"fixed", "eagle2:nodes=6", "ddd"}) {
    const RoundTally real = rounds(policy, false, nullptr);
    const SimulationResult simulated = simulate(trace, {policy, ramp(), 64});
    EXPECT_GT(real.accepted, 5) << policy;
    EXPECT_EQ(simulated.rounds, 2 * real.rounds) << policy;
    // A drafter that is asked for fewer levels may spend its nodes on other branches.
    EXPECT_NEAR(simulated.drafted, 2 * real.drafted, 0.05 * real.drafted) << policy;
  }
}

TEST_F(AgainstARealRun, TheRecordedMachineTakesTheTimeThatItTook) {
  Trace trace;
  const RoundTally real = rounds("fixed", false, &trace);
  trace.about = {{"method", "ngram"}};
  double check_ms = 0;
  for (const TraceRound& round : trace.rounds) check_ms += round.check_ms;
  const SimulationResult simulated = simulate(trace, {"fixed", recorded_curve(trace), 64});
  EXPECT_EQ(simulated.rounds, 2 * real.rounds);
  EXPECT_NEAR(simulated.check_ms / 2, check_ms, 0.01 * check_ms);
}

}  // namespace
}  // namespace talon::simulate_test
