#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli_process.h"

// The benches as a user meets them: bad question files, Ctrl-C and going on, a peer that dies, and
// the exit codes of a comparison.
namespace talon::test::cli_bench_test {
namespace {

using Json = nlohmann::json;

std::vector<Json> lines_in(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(Json::parse(line, nullptr, false));
  return lines;
}

std::string questions(int count, int first = 1) {
  std::string text;
  for (int i = first; i < first + count; ++i)
    text += "{\"question_id\": " + std::to_string(i) +
            ", \"category\": \"qa\", \"turns\": [\"Once upon a time\"]}\n";
  return text;
}

std::vector<std::string> spec(const std::string& methods, const std::string& file,
                              const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"bench",     "spec",  "-m",          small_model(),
                                        "--methods", methods, "--questions", file};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// The small model as a GGUF file that says it has so many positions.
std::string small_model_of(std::uint32_t context, const Folder& folder) {
  const std::string file = folder.file("small.gguf"), key = "llama.context_length";
  EXPECT_EQ(run_talon({"convert", small_model(), "-o", file}).code, 0);
  std::string bytes = read_file(file);
  const std::size_t value = bytes.find(key) + key.size() + 4;  // behind its type
  std::memcpy(&bytes.at(value), &context, sizeof(context));
  return folder.write("small.gguf", bytes);
}

TEST(BenchContention, DecodesModelsOfShortContexts) {
  const Folder folder;
  const Outcome outcome = run_talon({"bench", "contention", "-m", small_model_of(256, folder),
                                     "--situations", "quiet", "--rounds", "1", "--seconds", "0.1"});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  const Json closing = lines_in(outcome.output).back();
  EXPECT_FALSE(closing["summary"]["quiet"].empty());
  EXPECT_EQ(closing["partial"], false);
}

TEST(BenchContention, EndsWithAPeerThatCannotBeStarted) {
  const Folder folder;
  const Outcome outcome = run_talon({"bench", "contention", "-m", small_model_of(256, folder),
                                     "--situations", "quiet", "--peer", "peer:llama.cpp=/nowhere"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.notes.find("/nowhere"), std::string::npos) << outcome.notes;
}

TEST(BenchSpec, NamesLineAndFieldOfABadQuestion) {
  const Folder folder;
  const std::string file =
      folder.write("q.jsonl", questions(1) + "{\"question_id\": 2, \"turns\": [7]}\n");
  const Outcome outcome = run_talon(spec("ngram", file));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.output, "");
  for (const char* part : {"q.jsonl", "line 2", "\"turns\""})
    EXPECT_NE(outcome.notes.find(part), std::string::npos) << outcome.notes;
}

TEST(BenchSpec, ReportsWhatItHasWhenInterruptedAndGoesOnLater) {
  const Folder folder;
  const std::string endless(4000, 'x');  // does not fit, which is said at once
  const std::string file =
      folder.write("q.jsonl", questions(3) + "{\"question_id\": 0, \"turns\": [\"" + endless +
                                  "\"]}\n" + questions(25, 11));
  const std::vector<std::string> arguments =
      spec("ngram", file,
           {"-n", "100", "--warm-up", "0", "--threads", "1", "--output", folder.file("out"),
            "--report", folder.file("report")});
  const Outcome cut = run_talon({.arguments = arguments, .interrupt_after = "skipped question"});
  EXPECT_EQ(cut.code, 130) << cut.notes;
  EXPECT_EQ(lines_in(cut.output).back()["partial"], true);
  EXPECT_NE(read_file(folder.file("report/spec.html")).find("stopped early"), std::string::npos);

  const Outcome rest = run_talon(arguments);
  EXPECT_EQ(rest.code, 0) << rest.notes;
  EXPECT_NE(rest.notes.find("going on: "), std::string::npos) << rest.notes;
  const std::vector<Json> lines = lines_in(rest.output);
  ASSERT_EQ(lines.size(), 2 * 28u + 1);
  EXPECT_EQ(lines.back()["partial"], false);
  EXPECT_EQ(lines.back()["summary"]["ngram"]["cells"], 28);
  EXPECT_EQ(lines_in(read_file(folder.file("out"))), lines);
}

TEST(BenchSpec, GoesOnUnderTheSameSettingsOnly) {
  const Folder folder;
  const std::string file = folder.write("q.jsonl", questions(3));
  const auto bench = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"-n", "4", "--warm-up", "0", "--output", folder.file("out")});
    return run_talon(spec("ngram", file, more));
  };
  ASSERT_EQ(bench({}).code, 0);
  const std::vector<std::vector<std::string>> others = {
      {"--ban", "5"},      {"--logit-bias", "5:1"},   {"--repeat-window", "9"},
      {"--chunk", "7"},    {"--kernels", "portable"}, {"--context", "200"},
      {"--cache-mb", "9"}, {"--fixed-threads"}};
  for (const std::vector<std::string>& other : others)
    expect_said(bench(other), 1, "measured with other settings");
  const std::string kept = read_file(folder.file("out"));
  expect_said(bench({"--trace", folder.file("traces")}), 2,
              "--trace: expected an --output without");
  EXPECT_FALSE(std::filesystem::exists(folder.file("traces")));
  const Outcome fewer = bench({"--limit", "1"});
  EXPECT_EQ(lines_in(fewer.output).back()["questions"], 3) << "those of its answers";
}

TEST(BenchSpec, WithNothingLeftToDoReportsTheSameBandwidth) {
  const Folder folder;
  const std::vector<std::string> arguments =
      spec("ngram", folder.write("q.jsonl", questions(1)),
           {"-n", "4", "--warm-up", "0", "--output", folder.file("out"), "--report",
            folder.file("report")});
  Json closing[2];
  for (Json& each : closing) {
    ASSERT_EQ(run_talon(arguments).code, 0);
    each = lines_in(read_file(folder.file("report/spec.jsonl"))).back();
  }
  EXPECT_GT(closing[0]["bandwidth_gb_s"], 0);
  for (const char* key : {"bandwidth_gb_s", "bandwidth_gb_s_least", "bandwidth_gb_s_most"}) {
    ASSERT_TRUE(closing[1].contains(key)) << key;
    EXPECT_NEAR(closing[1][key], closing[0][key], 0.001) << key;
  }
}

TEST(BenchSpec, MakesLinesThatTheTablesAreMadeOf) {
  const Folder folder;
  ASSERT_EQ(run_talon(spec("ngram", folder.write("q.jsonl", questions(1)),
                           {"-n", "4", "--report", folder.path()}))
                .code,
            0);
  std::vector<Json> lines = lines_in(read_file(folder.file("spec.jsonl")));
  for (const char* taken : {"nothing", "bandwidth_gb_s"}) {  // as of runs that measured none
    lines.back().erase(taken);
    std::string text;
    for (const Json& line : lines) text += line.dump() + "\n";
    const std::string command = "python3 " TALON_TEST_DATA "/../../bench/table.py policies " +
                                folder.write("lines", text) + " " + folder.file("page");
    EXPECT_EQ(std::system((command + " > /dev/null").c_str()), 0) << taken;
    EXPECT_NE(read_file(folder.file("page")).find("\n| ngram | "), std::string::npos);
  }
}

TEST(BenchSpec, DoesNotGoOnWithAHeadOrQuestionsOfOtherContents) {
  const Folder folder;
  const std::string head = folder.file("head");
  std::filesystem::copy(TALON_TEST_DATA "/golden/stories260k/eagle1_head", head);
  const std::string file = folder.write("q.jsonl", questions(2));
  const auto bench = [&] {
    return run_talon(
        spec("eagle:topk=1,head=" + head, file,
             {"-n", "4", "--warm-up", "0", "--limit", "1", "--output", folder.file("out")}));
  };
  ASSERT_EQ(bench().code, 0);
  ASSERT_EQ(bench().code, 0);
  const std::string config = read_file(head + "/config.json");
  folder.write("head/config.json", config + "\n");
  expect_said(bench(), 1, "measured with other settings, files or questions");
  folder.write("head/config.json", config);
  ASSERT_EQ(bench().code, 0);
  folder.write("q.jsonl", questions(1) + questions(1, 7));
  expect_said(bench(), 1, "measured with other settings, files or questions");
}

TEST(BenchSpec, ATraceHasANameOfItsOwn) {
  const Folder folder;
  const std::string head = TALON_TEST_DATA "/golden/stories260k/eagle1_head";
  std::filesystem::create_directory(folder.file("a"));
  std::filesystem::create_directory_symlink(head, folder.file("a/b"));
  std::filesystem::create_directory_symlink(head, folder.file("a_b"));
  std::string deep = folder.file("a");
  for (int i = 0; i < 150; ++i) deep += "/.";
  const std::string methods = "eagle:head=" + folder.file("a/b") +
                              ",eagle:head=" + folder.file("a_b") + ",eagle:head=" + deep + "/b";
  const Outcome outcome = run_talon(spec(methods, folder.write("q.jsonl", questions(1)),
                                         {"-n", "4", "--trace", folder.file("traces")}));
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  int traces = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("traces"))) {
    ++traces;
    const std::vector<Json> lines = lines_in(read_file(entry.path()));
    for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i].contains("trace"), i == 0);
  }
  EXPECT_EQ(traces, 3);
}

TEST(BenchSpec, RefusesQuestionsThatItsResultsCouldNotTellApart) {
  const Folder folder;
  const std::string file = folder.write("q.jsonl", questions(2) + questions(1, 2));
  const Outcome outcome = run_talon(spec("ngram", file));
  EXPECT_EQ(outcome.code, 1);
  for (const char* part : {"q.jsonl, line 3", "\"question_id\"", "q.jsonl, line 2"})
    EXPECT_NE(outcome.notes.find(part), std::string::npos) << outcome.notes;
}

/// `none` beside a peer that dies after so many answers; with `more` arguments.
Outcome spec_with_dying_peer(const Folder& folder, int answers,
                             const std::vector<std::string>& more) {
  const std::string server = folder.write("server", R"(#!/usr/bin/env python3
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
port = int(sys.argv[sys.argv.index("--port") + 1])
class Handler(BaseHTTPRequestHandler):
    answers = 0
    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self): self.reply({"status": "ok", "build_info": "b7-abc"})
    def do_POST(self):
        if Handler.answers == 0: os._exit(1)
        Handler.answers -= 1
        self.reply({"content": "x", "tokens": [1, 2, 3],
                    "timings": {"prompt_ms": 1.0, "predicted_ms": 1.0, "predicted_n": 3}})
    def log_message(self, *_): pass
Handler.answers = )" + std::to_string(answers) + R"(
HTTPServer(("127.0.0.1", port), Handler).serve_forever()
)");
  std::filesystem::permissions(server, std::filesystem::perms::owner_all);
  const std::string model = folder.write("model.gguf", read_file(small_model()));
  const auto tokenizer = std::filesystem::path(small_model()).parent_path() / "tok512.bin";
  folder.write("tok512.bin", read_file(tokenizer));
  std::vector<std::string> arguments =
      spec("none,peer:llama.cpp=" + server, folder.write("q.jsonl", questions(3)), more);
  arguments[3] = model;
  return run_talon(arguments);
}

TEST(BenchSpec, GoesOnWithoutAPeerThatDies) {
  const Folder folder;
  const Outcome outcome = spec_with_dying_peer(folder, 2, {"-n", "8"});
  EXPECT_EQ(outcome.code, 1) << outcome.notes;
  const std::vector<Json> lines = lines_in(outcome.output);
  ASSERT_EQ(lines.size(), 7u) << outcome.notes;
  EXPECT_TRUE(lines[1]["tok_s"].is_number());  // the other answer was the warm-up
  for (const std::size_t dead : {3u, 5u}) {
    EXPECT_TRUE(lines[dead]["tok_s"].is_null());
    EXPECT_NE(lines[dead]["error"].get<std::string>().find("peer:llama.cpp"), std::string::npos);
    EXPECT_TRUE(lines[dead - 1]["tok_s"].is_number()) << "plain decoding goes on";
  }
  EXPECT_EQ(lines[6]["summary"]["peer:llama.cpp"]["failed"], 2);
  EXPECT_EQ(lines[6]["engines"], Json({{"llama.cpp", "b7-abc"}}));
}

/// Those of the README and of docs/results.md, of runs in which a peer gave no answer at all.
TEST(BenchSpec, TablesAreMadeWithoutAPeerThatDied) {
  const Folder folder;
  const Outcome outcome =
      spec_with_dying_peer(folder, 0, {"-n", "8", "--warm-up", "0", "--threads", "1"});
  ASSERT_EQ(outcome.code, 1) << outcome.notes;
  std::filesystem::create_directories(folder.file("docs"));
  folder.write("spec_smollm2.jsonl", outcome.output);
  folder.write("spec_smollm2_temperatures.jsonl", outcome.output);
  for (const char* page : {"README.md", "docs/results.md"})
    folder.write(page, "a\n<!-- make bench -->\n<!-- end of make bench -->\nz\n");
  folder.write("docs/field.md", "nothing of results\n");
  const std::string command =
      "cd " + folder.path().string() + " && python3 " TALON_TEST_DATA "/../../bench/table.py .";
  EXPECT_EQ(std::system(command.c_str()), 0);
  const std::string page = read_file(folder.file("docs/results.md"));
  EXPECT_NE(page.find("| `llama.cpp` | – | – | – | – |"), std::string::npos) << page;
  EXPECT_NE(page.find("3 failed |"), std::string::npos) << page;
  std::string read_me = read_file(folder.file("README.md"));
  std::ranges::replace(read_me, '\n', ' ');
  EXPECT_NE(read_me.find("| `llama.cpp` | – |"), std::string::npos) << read_me;
  EXPECT_NE(read_me.find(" 1 threads on "), std::string::npos) << read_me;
}

TEST(BenchSpec, IsAsOldAsItsFirstAnswer) {
  const Folder folder;
  const std::vector<std::string> arguments =
      spec("ngram", folder.write("q.jsonl", questions(2)),
           {"-n", "4", "--warm-up", "0", "--output", folder.file("out")});
  ASSERT_EQ(run_talon(arguments).code, 0);
  std::vector<Json> lines = lines_in(read_file(folder.file("out")));
  EXPECT_EQ(lines.back()["date"], lines.front()["date"]);
  lines.front()["date"] = "2020-01-31T09:30Z";
  lines.resize(2);  // one question, and no last line: it was ended
  std::string text;
  for (const Json& line : lines) text += line.dump() + "\n";
  folder.write("out", text);
  const Outcome rest = run_talon(arguments);
  ASSERT_EQ(rest.code, 0) << rest.notes;
  EXPECT_EQ(lines_in(rest.output).size(), 5u);
  EXPECT_EQ(lines_in(rest.output).back()["date"], "2020-01-31T09:30Z");
}

TEST(BenchCalibration, TellsWhatItHasWhenInterrupted) {
  const Folder folder;
  const std::string endless(4000, 'x');  // does not fit, which is said at once
  const std::string file =
      folder.write("q.jsonl", questions(3) + "{\"question_id\": 0, \"turns\": [\"" + endless +
                                  "\"]}\n" + questions(400, 11));
  const Outcome cut = run_talon(
      {.arguments = {"bench", "calibration", "-m", small_model(), "-d", "ngram", "--questions",
                     file, "-n", "100", "--temperature", "0,1", "--threads", "1"},
       .interrupt_after = "skipped question"});
  EXPECT_EQ(cut.code, 130) << cut.notes;
  const std::vector<Json> lines = lines_in(cut.output);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back()["partial"], true);
  EXPECT_EQ(lines.back()["settings"]["temperature"], 0.0) << "the other was not begun";
  EXPECT_GT(lines.back()["summary"]["before"]["trials"], 0);
}

TEST(BenchCost, TellsWhatItHasWhenInterrupted) {
  const Outcome cut =
      run_talon({.arguments = {"bench", "cost", "-m", small_model(), "--rows", "1,64", "--context",
                               "16,500", "--repeats", "1000", "--threads", "1"},
                 .interrupt_after = "leaving out rows"});
  EXPECT_EQ(cut.code, 130) << cut.notes;
  const std::vector<Json> lines = lines_in(cut.output);
  ASSERT_EQ(lines.size(), 3u) << cut.output;
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(lines[i]["context"], 16);
  EXPECT_EQ(lines.back()["partial"], true);
}

TEST(BenchKernels, TellsWhatItHasWhenInterrupted) {
  const Folder folder;
  const std::string lines = folder.file("lines");
  const Outcome cut = run_talon(
      {.arguments = {"bench", "kernels", "--threads", "1", "--ring-mb", "1", "--repeats", "1"},
       .output_file = lines,
       .interrupt_when = [&] { return std::ifstream(lines).peek() != EOF; }});
  EXPECT_EQ(cut.code, 130) << cut.notes;
  EXPECT_EQ(lines_in(read_file(lines)).back()["partial"], true);
}

TEST(BenchTree, DoesNotReplaceTheTraceByItsPage) {
  const Folder folder;
  const std::string trace = folder.file("trace.jsonl");
  ASSERT_EQ(run_talon({"run", "-m", small_model(), "-p", "Once", "-n", "8", "--trace", trace}).code,
            0);
  const std::string before = read_file(trace);
  expect_said(run_talon({"bench", "tree", trace, "-o", trace}), 1, "another file than the trace");
  EXPECT_EQ(read_file(trace), before);
}

TEST(BenchLoad, RefusesWhatItCannotAskFor) {
  const Folder folder;
  const auto load = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"bench", "load", "-m", small_model(), "--methods", "none",
                               "--questions", folder.write("q.jsonl", questions(1))});
    return run_talon(more);
  };
  expect_said(load({"--long-prompt", "31"}), 2, "--long-prompt: expected 0 or at least 64, got 31");
  for (const char* flag : {"--ban", "--repeat-window"}) expect_said(load({flag, "5"}), 2, flag);
}

TEST(BenchCost, OfAPrefillCountsTheLogitsOfOneRow) {
  const auto macs = [](const std::string& logits) {
    const Outcome outcome = run_talon({"bench", "cost", "-m", small_model(), "--rows", "64",
                                       "--context", "16", "--repeats", "1", "--logits", logits});
    EXPECT_EQ(outcome.code, 0) << outcome.notes;
    const std::vector<Json> lines = lines_in(outcome.output);
    EXPECT_EQ(lines.back()["settings"]["logits"], logits);
    return 1e6 * lines[0]["gmac_s"].get<double>() * lines[0]["ms"].get<double>();
  };
  EXPECT_NEAR(macs("all") - macs("last"), 63 * 512 * 64, 1);  // [vocabulary, hidden]
}

/// Results of `talon bench spec` with the same speed everywhere.
std::string results(double tok_s) {
  std::string text;
  for (int i = 1; i <= 20; ++i)
    text += Json({{"question_id", i},
                  {"category", "qa"},
                  {"method", "none"},
                  {"new_tokens", 8},
                  {"tok_s", tok_s + i},
                  {"equal", true}})
                .dump() +
            "\n";
  return text;
}

TEST(BenchCompare, TellsByItsExitCodeWhetherSomethingGotWorse) {
  const Folder folder;
  const std::string fast = folder.write("fast", results(100)),
                    slow = folder.write("slow", results(80));
  const auto compare = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"bench", "compare"});
    return run_talon(arguments);
  };
  EXPECT_EQ(compare({fast, fast}).code, 0);
  EXPECT_EQ(compare({slow, fast}).code, 0);
  const Outcome worse = compare({fast, slow, "--json"});
  EXPECT_EQ(worse.code, 1);
  EXPECT_EQ(lines_in(worse.output).front()["verdict"], "WORSE");
  EXPECT_EQ(lines_in(worse.output).back()["worse"], true);
  EXPECT_EQ(compare({fast, slow, "--tolerance", "0.3"}).code, 0);
  EXPECT_EQ(compare({fast}).code, 2);
}

}  // namespace
}  // namespace talon::test::cli_bench_test
