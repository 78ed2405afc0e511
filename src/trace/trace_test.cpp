#include "trace/trace.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "trace/round_tally.h"
#include "trace/tree_report.h"
#include "trace/tree_text.h"

namespace talon::trace_test {
namespace {

class TraceFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() /
            (std::string("talon_trace_") +
             testing::UnitTest::GetInstance()->current_test_info()->name());
    tree_.add(0, 5, -0.25f);
    tree_.add(1, 7, -1.5f, 2);
    report_.sequence = 3;
    report_.round = 9;
    report_.position = 21;
    report_.tree = &tree_;
    report_.accepted = accepted_;
    report_.emitted = emitted_;
    report_.distortion = 0.5;
    report_.sequences = 2;
    report_.draft_ms = 0.1;
    report_.check_ms = 5.5;
    report_.other_ms = 0.2;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void write_lines(const std::vector<std::string>& lines) {
    std::ofstream file(path_);
    for (const std::string& line : lines) file << line << '\n';
  }
  std::string error_of_reading() {
    try {
      read_trace(path_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path path_;
  DraftTree tree_{1};
  std::vector<NodeId> accepted_ = {0, 1};
  std::vector<TokenId> emitted_ = {5, 8};
  RoundReport report_;
};

TEST_F(TraceFile, ReadsBackWhatWasWritten) {
  TraceWriter writer(path_, {{"drafter", "ngram"}},
                     [](TokenId token) { return token == 7 ? "\xc3" : "a"; });
  writer.write(report_);
  writer.write(report_);
  writer.finish();
  const Trace trace = read_trace(path_);
  EXPECT_EQ(trace.about["drafter"], "ngram");
  ASSERT_EQ(trace.rounds.size(), 2u);
  const TraceRound& round = trace.rounds[1];
  EXPECT_EQ(round.sequence, 3u);
  EXPECT_EQ(round.tree.nodes, tree_.nodes);
  EXPECT_EQ(round.text, (std::vector<std::string>{"a", "a", "\uFFFD"}));
  EXPECT_EQ(round.accepted, accepted_);
  EXPECT_EQ(round.emitted, emitted_);
  EXPECT_EQ(tree_text(report_of(round), {}), tree_text(report_, {}));
}

TEST_F(TraceFile, ProbesComeBackAsProbes) {
  tree_.add_probe(0, 9, -2);
  tree_.add_probe(3, 4, -2.5F);
  TraceWriter writer(path_, Json::object());
  writer.write(report_);
  writer.finish();
  EXPECT_EQ(read_trace(path_).rounds.at(0).tree.nodes, tree_.nodes);
}

TEST_F(TraceFile, TheExpertsOfAMixtureComeBackAndAddUp) {
  const std::vector<std::int32_t> experts = {48, 20, 7};
  TraceWriter writer(path_, Json::object());
  writer.write(report_);
  report_.sequences = 1;
  writer.write(report_);
  report_.experts = experts;
  writer.write(report_);
  writer.write(report_);
  writer.finish();
  const Trace trace = read_trace(path_);
  EXPECT_TRUE(trace.rounds[1].experts.empty());
  EXPECT_EQ(trace.rounds[2].experts, experts);
  EXPECT_EQ(keep(report_).experts, experts);
  EXPECT_NE(tree_text(report_of(trace.rounds[2]), {}).find(" ms, 75 experts\n"), std::string::npos);

  const Report report = tree_report(trace, "name", 1);
  EXPECT_EQ(report.subtitle, "name, 75.0 experts read per check");
  EXPECT_EQ(report.lines[2].at("experts"), 75);
  EXPECT_FALSE(report.lines[1].contains("experts"));

  RoundTally tally;
  for (const TraceRound& round : trace.rounds) tally.add(report_of(round));
  tally.add(tally);
  const RoundTally back = tally_from(json_of(tally), "read a tally");
  EXPECT_EQ(back.expert_checks, 4);
  EXPECT_EQ(back.experts_per_check(), 75);
  EXPECT_FALSE(json_of(RoundTally()).contains("experts"));
}

TEST_F(TraceFile, RefusesWhatIsNoTraceNamingLineAndField) {
  write_lines({});
  EXPECT_NE(error_of_reading().find("empty"), std::string::npos);
  write_lines({"{}"});
  EXPECT_NE(error_of_reading().find("line 1: expected \"trace\""), std::string::npos);
  const std::string head = R"({"trace":1})";
  write_lines({head, "[]"});
  EXPECT_NE(error_of_reading().find("line 2"), std::string::npos);

  const Json good = Json::parse(
      R"({"sequence":1,"round":1,"position":4,"token":[1,2,3],"parent":[-1,0,1],"log_p":[0,-1,-2],
    "sources":[0,1,1],"accepted":[0,1],"emitted":[2,9],"distortion":0,"sequences":1,"draft_ms":0,"check_ms":1,"other_ms":0})");
  write_lines({head, good.dump()});
  EXPECT_EQ(error_of_reading(), "");
  for (const auto& [key, value] : good.items()) {
    Json bad = good;
    bad.erase(key);
    write_lines({head, bad.dump()});
    EXPECT_NE(error_of_reading().find("\"" + key + "\""), std::string::npos) << key;
    bad[key] = "x";
    write_lines({head, bad.dump()});
    EXPECT_NE(error_of_reading().find("\"" + key + "\""), std::string::npos) << key;
  }
  const std::pair<const char*, Json> wrong[] = {
      {"parent", {-1, 0, 2}},   {"parent", {-1, 0, -1}}, {"parent", {-1, 0}},
      {"token", Json::array()}, {"token", {1, 2, -3}},   {"parent", {-1, 0, 5}},
      {"accepted", {0, 2}},     {"accepted", {0, 7}},    {"accepted", {1}},
      {"log_p", {0, -1}},       {"log_p", {0, "a", -1}}, {"round", -1},
      {"round", 1.5},           {"round", 1e300},        {"sequence", 18446744073709551615u}};
  for (const auto& [key, value] : wrong) {
    Json bad = good;
    bad[key] = value;
    write_lines({head, bad.dump()});
    EXPECT_NE(error_of_reading(), "") << bad.dump();
  }
  for (const Json& experts : {Json({8, 2}), Json({8, 2, -1}), Json({8, 2, 1.5}), Json("x")}) {
    Json bad = good;
    bad["experts"] = experts;
    write_lines({head, bad.dump()});
    EXPECT_NE(error_of_reading().find("\"experts\""), std::string::npos) << bad.dump();
  }
  for (const Json& probes : {Json({1}), Json({2, 9}), Json({0}), Json("x")}) {
    Json bad = good;  // node 2 is a candidate below node 1, which became text
    bad["probes"] = probes;
    write_lines({head, bad.dump()});
    EXPECT_NE(error_of_reading(), "") << bad.dump();
  }
  Json twins = good;
  twins["parent"] = {-1, 0, 0};
  twins["token"] = {1, 2, 2};
  write_lines({head, twins.dump()});
  EXPECT_NE(error_of_reading().find("sibling"), std::string::npos);
}

TEST_F(TraceFile, SaysWhenAFileCannotBeLookedAt) {
  std::filesystem::create_symlink(path_.filename(), path_);
  EXPECT_EQ(error_of_reading(),
            "read trace " + path_.string() + ": Too many levels of symbolic links");
}

TEST_F(TraceFile, SaysWhenAFileCannotBeOpenedOrIsFull) {
  EXPECT_THROW(TraceWriter(path_ / "none" / "trace", Json::object()), Error);
  EXPECT_THROW(read_trace(path_ / "none"), Error);
  EXPECT_THROW(read_trace(std::filesystem::temp_directory_path()), Error);
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP();
  TraceWriter writer("/dev/full", Json::object());
  EXPECT_THROW(
      {
        for (int i = 0; i < 1000; ++i) writer.write(report_);
        writer.finish();
      },
      Error);
}

TEST_F(TraceFile, ItsReportHasALineForEveryRoundAndTheTreesThatAreDrawn) {
  TraceWriter writer(path_, {{"drafter", "ngram"}}, [](TokenId) { return "a"; });
  for (int round = 0; round < 5; ++round) writer.write(report_);
  writer.finish();
  const Trace trace = read_trace(path_);
  const Report report = tree_report(trace, "name", 2);
  ASSERT_EQ(report.lines.size(), 5U);
  EXPECT_EQ(report.lines[0].at("drafted"), 2);
  EXPECT_EQ(report.lines[0].at("accepted"), 1);
  ASSERT_EQ(report.more.at("trees").size(), 2U);
  EXPECT_EQ(report.more["trees"][0].at("text"), Json::parse(R"(["a", "a", "a"])"));
  EXPECT_EQ(report.more["about"].at("drafter"), "ngram");
  EXPECT_EQ(rounds_to_draw(trace, 9).size(), 5U);
  EXPECT_TRUE(rounds_to_draw(trace, 0).empty());
}

}  // namespace
}  // namespace talon::trace_test
