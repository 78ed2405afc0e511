#include "bench/spec/field.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace talon::field_test {
namespace {

const std::vector<std::string> kMethods = {"none", "eagle3:head=models/m-eagle3+suffix"};

SpecCell cell(int question, const std::string& method, double temperature, double tok_s,
              int accepted) {
  SpecCell result;
  result.question_id = question;
  result.category = question % 2 == 0 ? "qa" : "rag";
  result.method = method;
  result.temperature = temperature;
  result.new_tokens = 11;
  result.tok_s = {tok_s};
  result.wall_tok_s = {tok_s};
  result.rounds.rounds = 10;
  result.rounds.accepted = accepted;
  result.draft_ms = accepted > 0 ? 5 * question : 0;
  result.check_ms = accepted > 0 ? 40 : 20;
  return result;
}

/// Four questions at temperatures 0 and 1: the method is twice as fast, and three times.
SpecFile run_of(const std::string& model) {
  SpecFile run;
  for (const double temperature : {0.0, 1.0}) {
    for (int i = 1; i <= 4; ++i) {
      run.lines.push_back({cell(i, kMethods[0], temperature, 100, 0), "run"});
      run.lines.push_back({cell(i, kMethods[1], temperature, 200 + 100 * temperature, 15), "run"});
    }
  }
  run.closing = {{"model", model},
                 {"questions", 4},
                 {"commit", "1a2b3c4"},
                 {"settings", {{"methods", kMethods}}},
                 {"summary", Json::object()}};
  return run;
}

TEST(Field, ALineForEachModelTemperatureKindAndMethod) {
  const std::vector<Json> lines = field_lines({run_of("a"), run_of("b")});
  ASSERT_EQ(lines.size(), 2U * 2 * 3 * 2 + 1);
  const Json& line = lines[7];
  EXPECT_EQ(line["model"], "a");
  EXPECT_EQ(line["temperature"], 1);
  EXPECT_EQ(line["questions"], "all");
  EXPECT_EQ(line["method"], "eagle3+suffix");
  EXPECT_EQ(line["setting"], kMethods[1]);
  EXPECT_EQ(line["speedup"], 3);
  EXPECT_EQ(line["tau"], 2.5);
  EXPECT_EQ(line["checks"], 40);
  EXPECT_EQ(line["counted"], 4);
  EXPECT_EQ(lines.back()["field"][1]["model"], "b");
  EXPECT_FALSE(lines.back()["field"][1].contains("summary"));
}

TEST(Field, TimesAreOfARoundAndThePassIsThatOfPlainDecoding) {
  const Json line = field_lines({run_of("a")})[1];
  EXPECT_DOUBLE_EQ(line["draft_each_ms"].get<double>(), (5 + 10 + 15 + 20) / 40.0);
  EXPECT_DOUBLE_EQ(line["check_each_ms"].get<double>(), 4);
  EXPECT_DOUBLE_EQ(line["pass_ms"].get<double>(), 2);
  EXPECT_LT(line["draft_each_ms_low"], line["draft_each_ms"]);
  EXPECT_GT(line["draft_each_ms_high"], line["draft_each_ms"]);
  EXPECT_EQ(line["pass_ms_low"], line["pass_ms_high"]);
}

TEST(Field, ThePageHasTheModelsBesideEachOtherAndEveryMethodsTimes) {
  std::vector<SpecFile> runs = {run_of("a"), run_of("b")};
  runs[0].closing["engines"] = {{"llama.cpp", "b9844-6c5"}, {"llama.cpp@source", "b0-0c1"}};
  std::erase_if(runs[1].lines, [](const auto& line) { return line.cell.method != "none"; });
  const Report report = field_report(field_lines(runs));
  ASSERT_EQ(report.tables.size(), 4U);  // two temperatures, times, kinds
  const Table& cold = report.tables[0].table;
  EXPECT_EQ(cold.columns, (std::vector<std::string>{"method", "a", "b"}));
  EXPECT_EQ(cold.rows[1], (std::vector<std::string>{"eagle3+suffix", "2.00, tau 2.50", "–"}));
  EXPECT_EQ(report.tables[2].table.rows.size(), 2U * 2 + 2);
  EXPECT_EQ(report.tables[3].table.columns.back(), "qa");
  EXPECT_EQ(report.notes[0],
            "a, 4 questions · 1a2b3c4 · llama.cpp b9844-6c5 · llama.cpp@source b0-0c1");
  EXPECT_NE(field_markdown(field_lines(runs)).find("| eagle3+suffix |"), std::string::npos);
}

/// Another head of the same method is another method.
TEST(Field, HeadsThatAShortNameDoesNotTellApartKeepTheirOwn) {
  const std::string other = "eagle3:head=models/other+suffix";
  SpecFile run = run_of("a");
  for (int i = 1; i <= 4; ++i) run.lines.push_back({cell(i, other, 0, 150, 5), "run"});
  run.closing["settings"]["methods"].push_back(other);
  const std::vector<Json> lines = field_lines({run});
  EXPECT_EQ(lines[0]["method"], "none");
  EXPECT_EQ(lines[1]["method"], kMethods[1]);
  EXPECT_EQ(lines[2]["method"], other);
  const Table cold = field_report(lines).tables[0].table;
  ASSERT_EQ(cold.rows.size(), 3U);
  EXPECT_EQ(cold.rows[1], (std::vector<std::string>{kMethods[1], "2.00, tau 2.50"}));
  EXPECT_EQ(cold.rows[2], (std::vector<std::string>{other, "1.50, tau 1.50"}));
}

TEST(Field, SaysHowManyAnswersDifferAndHowManyThereAreNot) {
  SpecFile run = run_of("a");
  run.lines[1].cell.error = "the peer died";
  EXPECT_EQ(field_report(field_lines({run})).tables[2].table.rows[1].back(), "1 failed");
  run.lines[3].cell.equal = false;
  EXPECT_EQ(field_report(field_lines({run})).tables[2].table.rows[1].back(),
            "NO: 1 of 4 differ, 1 failed");
}

TEST(Field, RunsThatCannotStandBesideEachOtherAreRefused) {
  EXPECT_THROW(field_lines({run_of("a"), run_of("a")}), Error);
  SpecFile unfinished = run_of("a");
  unfinished.closing = Json();
  EXPECT_THROW(field_lines({unfinished}), Error);
}

}  // namespace
}  // namespace talon::field_test
