#include <gtest/gtest.h>

#include <fstream>

#include "bench/spec/compare.h"
#include "bench/spec/spec_log.h"
#include "bench/spec/spec_report.h"
#include "bench/spec/spec_summary.h"
#include "bench/spec/spec_table.h"
#include "core/error.h"

namespace talon::spec_results_test {
namespace {

const std::vector<std::string> kMethods = {"none", "ngram"};

SpecCell cell(int question, const std::string& method, double tok_s, int rounds = 10,
              int accepted = 0) {
  SpecCell result;
  result.question_id = question;
  result.category = question % 2 == 0 ? "qa" : "writing";
  result.method = method;
  result.new_tokens = 11;
  result.tok_s = {tok_s};
  result.wall_tok_s = {tok_s / 2};
  result.decode_ms = 10 / tok_s * 1000;
  result.check_ms = result.decode_ms;
  result.rounds.rounds = rounds;
  result.rounds.accepted = accepted;
  result.rounds.drafted = 3 * rounds;
  result.rounds.tried = {rounds};
  result.rounds.right = {accepted};
  result.rounds.calibration[9] = {rounds, accepted, 0.95 * rounds};
  result.rounds.check_ms[4] = std::vector<double>(static_cast<std::size_t>(rounds), 2.5);
  return result;
}

/// Questions 1 to n: plain decoding at 100 tok/s, the method at `speed`.
std::vector<SpecCell> run_of(int questions, double speed) {
  std::vector<SpecCell> cells;
  for (int i = 1; i <= questions; ++i) {
    cells.push_back(cell(i, "none", 100));
    cells.push_back(cell(i, "ngram", speed, 5, 5));
  }
  return cells;
}

TEST(SpecSummary, SpeedUpIsTheRatioOfMeansOverQuestions) {
  std::vector<SpecCell> cells = {cell(1, "none", 100), cell(1, "ngram", 300, 5, 5),
                                 cell(2, "none", 300), cell(2, "ngram", 300, 10, 0)};
  const MethodSummary summary = summarize(cells, kMethods)[1];
  EXPECT_DOUBLE_EQ(summary.tok_s, 300);
  EXPECT_DOUBLE_EQ(summary.speedup, 600.0 / 400);
  EXPECT_DOUBLE_EQ(summary.worst, 1);
  EXPECT_DOUBLE_EQ(summary.tau, 1 + 5.0 / 15);
  EXPECT_DOUBLE_EQ(summary.wall_speedup, 1.5);
  EXPECT_NEAR(summary.speedup_range.low, 1, 1e-9);
  EXPECT_NEAR(summary.speedup_range.high, 3, 1e-9);
  EXPECT_TRUE(summary.equal());
}

TEST(SpecSummary, TakesTheMedianOfRepeats) {
  std::vector<SpecCell> cells = {cell(1, "none", 100), cell(1, "ngram", 1)};
  cells[1].tok_s = {150, 1, 160};
  EXPECT_DOUBLE_EQ(summarize(cells, kMethods)[1].tok_s, 150);
}

TEST(SpecSummary, AQuestionWhoseTokensChangedIsMarkedAndNotAveraged) {
  std::vector<SpecCell> cells = run_of(4, 200);
  cells[1].equal = false;
  cells[1].tok_s = {100000};
  const MethodSummary summary = summarize(cells, kMethods)[1];
  EXPECT_FALSE(summary.equal());
  EXPECT_EQ(summary.unequal, 1);
  EXPECT_EQ(summary.counted, 3);
  EXPECT_DOUBLE_EQ(summary.speedup, 2);
  EXPECT_EQ(json_of(summarize(cells, kMethods))["ngram"]["equal"], false);
}

TEST(SpecSummary, WhoClaimsNoSameTokensIsAveragedButMarked) {
  std::vector<SpecCell> cells = run_of(2, 200);
  for (std::size_t i : {1u, 3u}) {
    cells[i].equal = false;
    cells[i].claims_equal = false;
  }
  const MethodSummary summary = summarize(cells, kMethods)[1];
  EXPECT_FALSE(summary.equal());
  EXPECT_EQ(summary.counted, 2);
  EXPECT_DOUBLE_EQ(summary.speedup, 2);
}

TEST(SpecSummary, AFailedAnswerLeavesItsCellEmpty) {
  std::vector<SpecCell> cells = run_of(3, 200);
  cells[1] = cell(1, "ngram", 0);
  cells[1].error = "the peer died";
  cells[1].tok_s.clear();
  cells[4].error = "plain failed";  // question 3: nothing to compare with
  const std::vector<MethodSummary> summaries = summarize(cells, kMethods);
  EXPECT_EQ(summaries[1].failed, 1);
  EXPECT_EQ(summaries[1].counted, 1);
  EXPECT_EQ(json_of(cells[1])["tok_s"], nullptr);
  EXPECT_EQ(json_of(cells[1])["error"], "the peer died");
}

TEST(SpecSummary, OfNothingHasNoNumbers) {
  const Json json = Json::parse(json_of(summarize({}, kMethods)).dump());
  EXPECT_TRUE(json["ngram"]["tok_s"].is_null());
  EXPECT_EQ(json["ngram"]["equal"], true);
}

TEST(SpecCell, HasTheFieldsOfTheContractAndReadsBack) {
  const SpecCell before = cell(7, "ngram", 123.5, 5, 2);
  const Json json = json_of(before);
  for (const char* key :
       {"question_id", "category", "method", "new_tokens", "tok_s", "tau", "equal"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json_of(cell_from(json, "test")), json);
  for (const char* key : {"question_id", "category", "method", "new_tokens", "equal"}) {
    Json bad = json;
    bad.erase(key);
    EXPECT_THROW(cell_from(bad, "test"), Error) << key;
  }
  Json bad = json;
  bad["depth"] = {{1, "x"}};
  EXPECT_THROW(cell_from(bad, "test"), Error);
}

TEST(SpecReport, HoldsTheLinesTheTableAndWhatWentWrong) {
  const std::vector<SpecCell> cells = run_of(12, 150);
  std::vector<Json> lines;
  for (const SpecCell& each : cells) lines.push_back(json_of(each));
  lines.push_back({{"model", "m"}, {"partial", true}, {"skipped", 2}});
  const Report report = spec_report(cells, kMethods, lines);
  EXPECT_EQ(report.lines, lines);
  EXPECT_EQ(report.more.at("methods"), Json(kMethods));
  ASSERT_EQ(report.tables.size(), 1U);
  EXPECT_EQ(report.tables[0].table.rows[1][2], "1.50");
  ASSERT_EQ(report.notes.size(), 2U);
  EXPECT_NE(report.notes[0].find("stopped early"), std::string::npos);
  EXPECT_EQ(report.notes[1], "2 questions did not fit the model's context.");
}

TEST(SpecTable, HasAColumnForEachTemperatureOfSeveral) {
  std::vector<SpecCell> cells = run_of(2, 150);
  EXPECT_TRUE(temperature_table(cells, kMethods).rows.empty());
  for (SpecCell& warm : run_of(2, 120)) {
    warm.temperature = 0.7;
    cells.insert(cells.begin(), std::move(warm));
  }
  const Table table = temperature_table(cells, kMethods);
  EXPECT_EQ(table.columns, (std::vector<std::string>{"method", "T 0", "T 0.7"}));
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[1], (std::vector<std::string>{"ngram", "1.50, tau 2.00, worst 1.50",
                                                     "1.20, tau 2.00, worst 1.20"}));
}

TEST(SpecReport, OfNoAnswersHasNoNumbers) {
  const Report report = spec_report({}, kMethods, {{{"model", "m"}}});
  EXPECT_EQ(report.tables[0].table.rows[1][1], "–");
  EXPECT_TRUE(report.notes.empty());
}

class ResultFile : public testing::Test {
 protected:
  std::filesystem::path path(const char* name) {
    return std::filesystem::temp_directory_path() /
           (std::string("talon_") + testing::UnitTest::GetInstance()->current_test_info()->name() +
            name);
  }
  std::filesystem::path write(const char* name, const std::vector<SpecCell>& cells) {
    std::ofstream file(path(name));
    for (const SpecCell& each : cells) file << json_of(each).dump() << "\n";
    return path(name);
  }
  void TearDown() override {
    for (const char* name : {"", "a", "b"}) std::filesystem::remove(path(name));
  }
};

TEST_F(ResultFile, ARunThatWasCutShortGoesOnWithWhatIsComplete) {
  {
    SpecLog log(path(""), "run1", kMethods);
    for (const SpecCell& each : run_of(2, 200)) log.write(log.line_of(each));
    log.write(log.line_of(cell(3, "none", 100)));  // and not the other method
  }
  std::ofstream(path(""), std::ios::app) << R"({"question_id": 3, "categ)";  // cut off
  SpecLog log(path(""), "run1", kMethods);
  EXPECT_EQ(log.known().size(), 4u);
  EXPECT_TRUE(log.is_known(condition_of(cell(2, "none", 0))));
  EXPECT_FALSE(log.is_known(condition_of(cell(3, "none", 0))));
  log.write(log.line_of(cell(3, "none", 100)));
  log.write(log.line_of(cell(3, "ngram", 100)));
  log.write({{"summary", Json::object()}});
  const SpecFile file = read_spec_file(path(""));
  EXPECT_EQ(file.lines.size(), 6u);
  EXPECT_TRUE(file.closing.contains("summary"));
}

TEST_F(ResultFile, WhatFailedIsAskedAgain) {
  {
    SpecLog log(path(""), "run1", kMethods);
    for (const SpecCell& each : run_of(2, 200)) log.write(log.line_of(each));
    log.write(log.line_of(cell(3, "none", 100)));
    SpecCell failed = cell(3, "ngram", 0);
    failed.error = "the peer died";
    log.write(log.line_of(failed));
  }
  const SpecLog log(path(""), "run1", kMethods);
  EXPECT_EQ(log.known().size(), 4u);
  EXPECT_FALSE(log.is_known(condition_of(cell(3, "none", 0))));
}

TEST_F(ResultFile, OfOtherSettingsIsNotMixedIn) {
  {
    SpecLog log(path(""), "run1", kMethods);
    log.write(log.line_of(cell(1, "none", 100)));
  }
  EXPECT_THROW(SpecLog(path(""), "run2", kMethods), Error);
  EXPECT_NE(run_fingerprint({{"seed", 1}}), run_fingerprint({{"seed", 2}}));
}

TEST_F(ResultFile, IsOneRunsAtATime) {
  SpecLog first(path(""), "run1", kMethods);
  first.write(first.line_of(cell(1, "none", 100)));
  try {
    const SpecLog second(path(""), "run1", kMethods);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("another run"), std::string::npos) << error.what();
  }
  first.write(first.line_of(cell(1, "ngram", 100)));
  EXPECT_EQ(read_spec_file(path("")).lines.size(), 2u);
}

TEST_F(ResultFile, ThatCannotBeLookedAtIsNamedWithTheReason) {
  std::filesystem::create_symlink(path("").filename(), path(""));
  const auto expect_named = [&](const auto& action) {
    try {
      action();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      const std::string said = error.what(), named = path("").string() + ": Too many levels of";
      EXPECT_NE(said.find(named), std::string::npos) << said;
    }
  };
  expect_named([&] { SpecLog(path(""), "run1", kMethods); });
  expect_named([&] { read_spec_file(path("")); });
}

TEST_F(ResultFile, ThatIsDamagedIsRefusedByLine) {
  std::ofstream(path("")) << json_of(cell(1, "none", 1)).dump() << "\n{\"a\": 1}\n";
  try {
    read_spec_file(path(""));
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
  }
}

TEST_F(ResultFile, WhoseFieldsCannotBeIsRefusedByField) {
  const auto refusal_of = [&](const char* key, const Json& value) -> std::string {
    Json line = json_of(cell(1, "none", 1));
    line[key] = value;
    std::ofstream(path("")) << line.dump() << "\n";
    try {
      read_spec_file(path(""));
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_EQ(refusal_of("category", "x"), "taken");
  const std::pair<const char*, Json> wrong[] = {{"new_tokens", -5},
                                                {"new_tokens", "x"},
                                                {"decode_ms", "nan"},
                                                {"decode_ms", -1},
                                                {"temperature", "hot"},
                                                {"tok_s_repeats", Json::array()},
                                                {"tok_s_repeats", {1, -1}},
                                                {"equal", "no"},
                                                {"method", 5},
                                                {"rounds", -1}};
  for (const auto& [key, value] : wrong) {
    const std::string refusal = refusal_of(key, value);
    EXPECT_NE(refusal.find(fmt::format("line 1: \"{}\"", key)), std::string::npos) << refusal;
  }
}

TEST_F(ResultFile, ComparedWithItselfHasNotChanged) {
  const auto file = write("a", run_of(20, 200));
  for (const Change& change : compare_results(file, file, CompareMetric::tok_s)) {
    EXPECT_EQ(change.ratio, 1);
    EXPECT_FALSE(change.worse(0) || change.better(0));
  }
}

TEST_F(ResultFile, ASureSlowDownIsWorseAndASmallOneIsTolerated) {
  std::vector<SpecCell> before, after;
  for (int i = 1; i <= 40; ++i) {
    before.push_back(cell(i, "none", 50 + i));
    after.push_back(cell(i, "none", (50 + i) * (i % 2 == 0 ? 0.94 : 0.96)));
  }
  const auto changes = compare_results(write("a", before), write("b", after), CompareMetric::tok_s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].pairs, 40);
  EXPECT_NEAR(changes[0].ratio, 0.95, 0.005);
  EXPECT_TRUE(changes[0].worse(0.02));
  EXPECT_FALSE(changes[0].worse(0.1));
  EXPECT_TRUE(compare_results(path("b"), path("a"), CompareMetric::tok_s)[0].better(0.02));
}

TEST_F(ResultFile, AFewQuestionsSayNothingForSure) {
  const auto of_few = [&](int questions) {
    return compare_results(write("a", run_of(questions, 200)), write("b", run_of(questions, 100)),
                           CompareMetric::tok_s)[0];
  };
  const Change one = of_few(1), enough = of_few(6);
  EXPECT_EQ(one.ratio, 0.5);
  EXPECT_FALSE(one.is_known || one.worse(0));
  EXPECT_TRUE(enough.is_known && enough.worse(0));
}

TEST_F(ResultFile, ThatIsADeviceIsRefused) { EXPECT_THROW(read_spec_file("/dev/null"), Error); }

TEST_F(ResultFile, NoiseIsNoChange) {
  std::vector<SpecCell> before, after;
  for (int i = 1; i <= 20; ++i) {
    before.push_back(cell(i, "none", 100));
    after.push_back(cell(i, "none", i % 2 == 0 ? 60 : 141));
  }
  const auto changes = compare_results(write("a", before), write("b", after), CompareMetric::tok_s);
  EXPECT_FALSE(changes[0].worse(0) || changes[0].better(0));
}

TEST_F(ResultFile, SpeedUpIgnoresAMachineThatSlowedDownAsAWhole) {
  std::vector<SpecCell> slow = run_of(20, 200);
  for (SpecCell& each : slow) each.tok_s[0] /= 2;
  const auto before = write("a", run_of(20, 200)), after = write("b", slow);
  const auto named = [](const std::vector<Change>& changes, const char* name) {
    return *std::find_if(changes.begin(), changes.end(),
                         [&](const Change& change) { return change.name == name; });
  };
  EXPECT_TRUE(named(compare_results(before, after, CompareMetric::tok_s), "ngram").worse(0.1));
  EXPECT_FALSE(named(compare_results(before, after, CompareMetric::speedup), "ngram").worse(0));
  EXPECT_EQ(named(compare_results(before, after, CompareMetric::tau), "ngram").before, 2);
}

TEST_F(ResultFile, AnAnswerThatLostItsTokensIsBroken) {
  std::vector<SpecCell> after = run_of(5, 200);
  after[1].equal = false;
  const auto changes =
      compare_results(write("a", run_of(5, 200)), write("b", after), CompareMetric::tok_s);
  EXPECT_EQ(changes[0].name, "ngram");
  EXPECT_EQ(changes[0].broken, 1);
}

TEST_F(ResultFile, OtherBenchesAreComparedByTheirSpreads) {
  std::ofstream(path("a")) << R"({"rows":1,"context":256,"ms":4.0,"ms_least":3.9,"ms_most":4.2}
{"rows":8,"context":256,"ms":8.0,"ms_least":7.5,"ms_most":9}
{"bandwidth_gb_s":60})"
                           << "\n";
  std::ofstream(path("b")) << R"({"rows":1,"context":256,"ms":4.1,"ms_least":4.0,"ms_most":4.3}
{"rows":8,"context":256,"ms":10.0,"ms_least":9.5,"ms_most":10.2})"
                           << "\n";
  const auto changes = compare_results(path("a"), path("b"), CompareMetric::tok_s);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_FALSE(changes[0].worse(0));
  EXPECT_TRUE(changes[1].worse(0.02));
}

TEST_F(ResultFile, CallsOfAForwardAreComparedOneByOne) {
  std::ofstream(path("a")) << R"({"op":"qkv","rows":1,"ms":4.0,"ms_least":3.9,"ms_most":4.2}
{"op":"head","rows":1,"ms":8.0,"ms_least":7.5,"ms_most":9})"
                           << "\n";
  EXPECT_EQ(compare_results(path("a"), path("a"), CompareMetric::tok_s).size(), 2u);
}

TEST_F(ResultFile, WithNothingInCommonAreAnError) {
  const auto a = write("a", {cell(1, "none", 1)}), b = write("b", {cell(2, "none", 1)});
  EXPECT_THROW(compare_results(a, b, CompareMetric::tok_s), Error);
  EXPECT_THROW(compare_results(a, path(""), CompareMetric::tok_s), Error);
}

}  // namespace
}  // namespace talon::spec_results_test
