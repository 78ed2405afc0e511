#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "cli_process.h"
#include "talon.h"

// What the commands print when all is well: the fields that scripts rely on, and that they agree
// with each other.
namespace talon::test::cli_answers_test {
namespace {

using Json = nlohmann::json;

Json json_of(const std::vector<std::string>& arguments) {
  const Outcome outcome = run_talon(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  return Json::parse(outcome.output, nullptr, false);
}

std::vector<Json> lines_of(const std::vector<std::string>& arguments) {
  const Outcome outcome = run_talon(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  std::vector<Json> lines;
  std::istringstream text(outcome.output);
  for (std::string line; std::getline(text, line);)
    lines.push_back(Json::parse(line, nullptr, false));
  return lines;
}

void expect_fields(const Json& json, const std::vector<std::string>& names) {
  ASSERT_TRUE(json.is_object()) << json;
  for (const std::string& name : names)
    EXPECT_TRUE(json.contains(name)) << name << " is missing in " << json;
}

const std::vector<std::string> kStory = {"run", "-m", small_model(), "-p", "Once upon a time",
                                         "-n",  "60"};

std::vector<std::string> story_with(const std::vector<std::string>& extra) {
  std::vector<std::string> arguments = kStory;
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  return arguments;
}

TEST(RunJson, HoldsTheContractsFieldsAndTheyAgree) {
  const Json json = json_of(story_with({"-d", "ngram", "--policy", "fixed", "--json"}));
  expect_fields(json, {"text", "prompt_tokens", "tokens", "finish", "rounds", "accepted", "tau",
                       "prefill_ms", "decode_ms", "decode_tok_s", "draft_ms", "check_ms", "model",
                       "drafter", "policy", "verify", "seed", "bandwidth_gb_s"});
  const std::vector<int> accepted = json["accepted"];
  EXPECT_EQ(accepted.size(), json["rounds"].get<std::size_t>());
  const int sum = std::accumulate(accepted.begin(), accepted.end(), 0);
  EXPECT_GT(sum, 0) << "lookup finds nothing in a story that repeats itself?";
  EXPECT_EQ(json["tokens"].size(), accepted.size() + static_cast<std::size_t>(sum) + 1);
  EXPECT_NEAR(json["tau"].get<double>(),
              1 + static_cast<double>(sum) / static_cast<double>(accepted.size()), 1e-9);
  EXPECT_GT(json["bandwidth_gb_s"].get<double>(), 0);
  EXPECT_EQ(json["drafter"], "ngram");
}

TEST(RunJson, WhatIsExpectedSavesChecksAndChangesNothing) {
  const Folder folder;
  const std::string file = folder.path() / "expected.txt";
  const Json plain = json_of(story_with({"--json", "--policy", "fixed"}));
  std::ofstream(file) << plain["text"].get<std::string>();
  const Json helped = json_of(story_with({"--json", "--policy", "fixed", "--expected", file}));
  EXPECT_EQ(helped["tokens"], plain["tokens"]);
  EXPECT_LT(3 * helped["rounds"].get<int>(), plain["rounds"].get<int>());
  const Outcome both = run_talon({"run", "-m", small_model(), "-f", "-", "--expected", "-"});
  EXPECT_EQ(both.code, 2);
  EXPECT_NE(both.notes.find("--expected"), std::string::npos) << both.notes;
  EXPECT_EQ(run_talon(story_with({"--expected", file + ".none"})).code, 1);
}

TEST(RunJson, SaysThatTheDrafterDoesNotReadWhatIsExpected) {
  const Folder folder;
  const std::string file = folder.write("expected.txt", "a girl");
  const std::string said = "--expected: only suffix drafts from it, not none";
  expect_said(run_talon(story_with({"--expected", file, "-d", "none"})), 0, said);
  const Outcome read = run_talon(story_with({"--expected", file}));
  EXPECT_EQ(read.notes.find("only suffix"), std::string::npos) << read.notes;
}

TEST(RunJson, HasStatisticsBesideItOnStandardError) {
  expect_said(run_talon(story_with({"--json", "--stats"})), 0, "ended by ");
}

TEST(RunJson, DraftsByItselfAndNamesWhatAutoStandsFor) {
  const Outcome outcome = run_talon(story_with({"--json"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.notes.find("auto: suffix\n"), std::string::npos) << outcome.notes;
  EXPECT_EQ(Json::parse(outcome.output)["drafter"], "suffix");
  EXPECT_EQ(json_of(story_with({"-d", "none", "--json"}))["drafter"], "none");
}

TEST(RunJson, DraftsWithTheHeadThatShipsWithTheModelWhereverItsFileIs) {
  const std::string model = chat_model();
  if (model.empty()) GTEST_SKIP() << "smollm2 is not pulled";
  const Json json = json_of({"run", "-m", model, "-p", "Hello", "-n", "8", "--json"});
  EXPECT_EQ(json["drafter"], "eagle3+suffix");
  EXPECT_EQ(json["tokens"], json_of({"run", "-m", model, "-p", "Hello", "-n", "8", "-d", "none",
                                     "--json"})["tokens"]);
}

TEST(RunJson, EndsExactlyAtTheLimit) {
  for (const std::string drafter : {"none", "ngram"}) {
    const Json json =
        json_of({"run", "-m", small_model(), "-p", "Once", "-n", "17", "-d", drafter, "--json"});
    EXPECT_EQ(json["tokens"].size(), 17u);
    EXPECT_EQ(json["finish"], "length");
  }
}

TEST(RunJson, StopTextIsCutAndNamed) {
  const Json json = json_of(story_with({"--stop", "girl", "--json"}));
  EXPECT_EQ(json["finish"], "stop_text");
  EXPECT_EQ(json["text"], ", there was a little ");
}

TEST(RunJson, SameSeedSameTokensWhateverDraftsAndAnotherSeedOthers) {
  const auto tokens = [](const std::string& seed, const std::string& drafter) {
    return json_of(
        story_with({"--temperature", "1", "--seed", seed, "-d", drafter, "--json"}))["tokens"];
  };
  EXPECT_EQ(tokens("7", "none"), tokens("7", "ngram"));
  EXPECT_NE(tokens("7", "none"), tokens("8", "none"));
}

TEST(RunText, IsWhatTheJsonHolds) {
  const Outcome outcome = run_talon(story_with({"-d", "none"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.output, json_of(story_with({"--json"}))["text"].get<std::string>() + "\n");
  EXPECT_NE(outcome.notes.find("tok/s, tau 1.00"), std::string::npos) << outcome.notes;
}

TEST(RunText, CompareGivesTheSameAnswerTwiceAndTheSpeedUp) {
  const Outcome outcome = run_talon(story_with({"-d", "ngram", "--compare"}));
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  const std::string half = outcome.output.substr(0, outcome.output.size() / 2);
  EXPECT_EQ(outcome.output, half + half);
  EXPECT_NE(outcome.notes.find("x plain, the same tokens"), std::string::npos) << outcome.notes;
}

TEST(RunText, CompareFailsOnlyUnderTheRuleThatPromisesTheSame) {
  const Json json = json_of(story_with({"-d", "ngram@policy=fixed", "--verify", "token",
                                        "--temperature", "1", "--compare", "--json"}));
  EXPECT_EQ(json["equal"], false) << "no test of a difference";
  EXPECT_EQ(json["claims_equal"], false);
  EXPECT_EQ(json["drafter"], "ngram");
  EXPECT_EQ(json["policy"], "fixed");
}

TEST(RunText, AnEmptyFormIsAForm) {
  EXPECT_EQ(json_of(story_with({"--regex", "", "--json"})).value("text", Json()), "");
  const Outcome schema = run_talon(story_with({"--json-schema", ""}));
  EXPECT_EQ(schema.code, 1) << schema.notes;
}

TEST(RunText, PromptFromStandardInput) {
  const Outcome outcome =
      run_talon(Start{.arguments = {"run", "-m", small_model(), "-f", "-", "-n", "60"},
                      .input = "Once upon a time"});
  EXPECT_EQ(outcome.output, run_talon(kStory).output);
}

TEST(Interrupt, EndsALongAnswerWithCode130) {
  const std::string model = chat_model();
  if (model.empty()) GTEST_SKIP() << "smollm2 was not pulled";
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Outcome outcome = run_talon(Start{
        .arguments = {"run", "-m", model, "-p", "Once", "-n", "800", "--ignore-end", "--compare"},
        .interrupt_after = "-- plain --",
        .interrupt_with = signal});
    EXPECT_EQ(outcome.code, 130) << "signal " << signal << ": " << outcome.notes;
    EXPECT_EQ(outcome.notes.find("the same tokens"), std::string::npos) << outcome.notes;
  }
}

TEST(Interrupt, SigtermEndsAChatWhichCtrlCDoesNot) {
  const std::string model = chat_model();
  if (model.empty()) GTEST_SKIP() << "smollm2 was not pulled";
  const Outcome outcome = run_talon(
      Start{.arguments = {"chat", "-m", model, "--drafter", "none", "-n", "2000", "--ignore-end"},
            .input = "Hello!\nAnd then?\n",
            .interrupt_after = "/help lists",
            .interrupt_with = SIGTERM});
  EXPECT_EQ(outcome.code, 130) << outcome.notes;
}

TEST(Interrupt, EndsAServerThatStillLoads) {
  std::vector<std::string> arguments = {"serve", "--port", "0", "--cache-mb", "1"};
  for (int i = 0; i < 100; ++i) {
    arguments.insert(arguments.end(), {"-m", fmt::format("{}={}", i, small_model())});
  }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Outcome outcome = run_talon(
        Start{.arguments = arguments, .interrupt_after = "drafter", .interrupt_with = signal});
    EXPECT_EQ(outcome.code, 130) << "signal " << signal << ": " << outcome.notes;
    EXPECT_EQ(outcome.notes.find("99: "), std::string::npos);
  }
}

TEST(Serve, SaysThatItsAddressIsTakenBeforeItLoadsModels) {
  const Folder folder;
  const std::string taken = folder.write("socket", "a file");
  const Outcome outcome = run_talon({"serve", "-m", small_model(), "--unix", taken});
  EXPECT_EQ(outcome.code, 1) << outcome.notes;
  EXPECT_NE(outcome.notes.find("listen on " + taken + ": Address already in use"),
            std::string::npos)
      << outcome.notes;
  EXPECT_EQ(outcome.notes.find("drafter"), std::string::npos) << outcome.notes;
  EXPECT_EQ(read_file(taken), "a file");
}

TEST(TokenizeJson, HoldsIdsAndPiecesAndDecodesBack) {
  const Json json = json_of({"tokenize", "-m", small_model(), "-p", "Once upon a time", "--json"});
  expect_fields(json, {"ids", "pieces"});
  EXPECT_EQ(json["ids"], Json::parse("[403,407,261,378]"));
  EXPECT_EQ(json["ids"].size(), json["pieces"].size());
  const Outcome decoded =
      run_talon({"tokenize", "-m", small_model(), "--decode", "-p", json["ids"].dump()});
  EXPECT_EQ(decoded.output, "Once upon a time\n");
  const Json both =
      json_of({"tokenize", "-m", small_model(), "--decode", "-p", json["ids"].dump(), "--json"});
  expect_fields(both, {"ids", "pieces", "texts", "text"});
  EXPECT_EQ(both.value("pieces", Json()), json["pieces"]);
  EXPECT_EQ(both.value("texts", Json()), Json::parse(R"([" Once"," upon"," a"," time"])"));
}

TEST(TokenizeJson, FindsNamesOfTheCatalogueWhereTheEnvironmentSays) {
  if (chat_model().empty()) GTEST_SKIP() << "smollm2 was not pulled";
  const Folder elsewhere;
  const Outcome outcome = run_talon(Start{.arguments = {"tokenize", "-m", "smollm2", "-p", "Once"},
                                          .environment = {"TALON_MODELS=" TALON_DOWNLOADS},
                                          .folder = elsewhere.path().string()});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
}

TEST(ScoreJson, HoldsOneLikelihoodPerTokenAfterTheFirst) {
  const Folder folder;
  const std::string file = folder.write("ids", "1 403 407 261 378 432 383\n");
  const Json json =
      json_of({"score", "-m", small_model(), "--ids", "-f", file, "--top", "3", "--json"});
  expect_fields(json, {"tokens", "nll_mean", "perplexity", "nll", "top"});
  EXPECT_EQ(json["tokens"], 7);
  ASSERT_EQ(json["nll"].size(), 6u);
  ASSERT_EQ(json["top"].size(), 7u);
  EXPECT_EQ(json["top"][0].size(), 3u);
  const std::vector<double> nll = json["nll"];
  EXPECT_NEAR(json["nll_mean"].get<double>(), std::accumulate(nll.begin(), nll.end(), 0.0) / 6,
              1e-9);
  EXPECT_NEAR(json["perplexity"].get<double>(), std::exp(json["nll_mean"].get<double>()), 1e-6);
}

TEST(ScoreJson, IsTheSameForEveryChunk) {
  const Folder folder;
  const std::string file =
      folder.write("text", "Once upon a time there was a girl. She had a big red ball.");
  const Json whole = json_of({"score", "-m", small_model(), "-f", file, "--json"});
  EXPECT_EQ(whole["nll"],
            json_of({"score", "-m", small_model(), "-f", file, "--chunk", "3", "--json"})["nll"]);
}

TEST(InspectJson, SaysShapesTypesLayoutAndTokenizer) {
  const Json json = json_of({"inspect", small_model(), "--json"});
  expect_fields(json, {"architecture", "config", "tensors", "kept", "tokenizer", "format"});
  EXPECT_EQ(json["config"]["hidden"], 64);
  EXPECT_EQ(json["tokenizer"]["vocabulary"], 512);
  for (const Json& tensor : json["tensors"])
    expect_fields(tensor, {"name", "type", "shape", "bytes", "kept"});
}

TEST(InspectJson, NamesTheVariantOfAHead) {
  const std::string heads = TALON_TEST_DATA "/golden/stories260k/";
  const Json eagle1 = json_of({"inspect", heads + "eagle1_head", "--json"});
  EXPECT_EQ(eagle1["config"]["variant"], "EAGLE-1/2");
  EXPECT_EQ(eagle1["config"]["layout"], "official");
  EXPECT_EQ(json_of({"inspect", heads + "eagle3_head", "--json"})["config"]["variant"], "EAGLE-3");
  EXPECT_TRUE(eagle1["tokenizer"].is_null());
}

TEST(Run, SaysThatAHeadIsOfAnotherModel) {
  const Folder folder;
  const std::filesystem::path head = folder.path() / "head";
  std::filesystem::copy(TALON_TEST_DATA "/golden/stories260k/eagle1_head", head);
  const std::vector<std::string> run = {
      "run", "-m", small_model(), "-p", "Once", "-n", "4", "-d", "eagle2:head=" + head.string()};
  const std::string said = "head was made for another model than";
  EXPECT_EQ(run_talon(run).notes.find(said), std::string::npos) << "it says nothing";
  Json config = Json::parse(read_file(head / "config.json"));
  config["talon"]["target_fingerprint"] = "0123456789abcdef";
  std::ofstream(head / "config.json") << config;
  expect_said(run_talon(run), 0, said);
}

TEST(InspectJson, SaysHowInputsAreRoundedForTheModel) {
  EXPECT_EQ(json_of({"inspect", small_model(), "--json"})["activations"], "mixed");
  const Json chosen = json_of({"inspect", small_model(), "--activations", "8", "--json"});
  EXPECT_EQ(chosen["activations"], "8");
}

TEST(InspectJson, MachineNamesItsKernelsAndSpeed) {
  expect_fields(
      json_of({"inspect", "--machine", "--json"}),
      {"processor", "kernels", "backend", "threads", "bandwidth_gb_s", "multiply_gmac_s"});
}

TEST(BenchCost, PrintsOneLinePerRowCountAndTheMachine) {
  const std::vector<Json> lines = lines_of(
      {"bench", "cost", "-m", small_model(), "--rows", "1,4", "--context", "32", "--repeats", "2"});
  ASSERT_EQ(lines.size(), 3u);
  for (std::size_t i = 0; i < 2; ++i) {
    expect_fields(lines[i], {"rows", "context", "ms", "c", "gb_s", "limit_ms", "percent_of_limit"});
  }
  EXPECT_EQ(lines[0]["c"], 1.0);
  EXPECT_EQ(lines[1]["rows"], 4);
  expect_fields(lines[2], {"bandwidth_gb_s", "multiply_gmac_s", "weights_bytes", "commit",
                           "machine", "settings"});
}

TEST(BenchCost, MeasuresThePassesOfAHeadToo) {
  const std::string head = TALON_TEST_DATA "/golden/stories260k/eagle3_head";
  const std::vector<Json> lines =
      lines_of({"bench", "cost", "-m", small_model(), "--rows", "1", "--context", "32", "--repeats",
                "2", "-d", "eagle3:head=" + head});
  ASSERT_GE(lines.size(), 3u);
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) {
    expect_fields(lines[i], {"draft_rows", "ms", "gb_s", "limit_ms", "times_limit", "drafter"});
  }
}

TEST(BenchSignature, IsTheSameTwice) {
  const Outcome once = run_talon({"bench", "signature", "-m", small_model()});
  EXPECT_EQ(once.code, 0) << once.notes;
  EXPECT_EQ(once.output.size(), 9u) << once.output;
  EXPECT_EQ(once.output, run_talon({"bench", "signature", "-m", small_model()}).output);
}

TEST(BenchSpec, PrintsOneLinePerQuestionAndMethodAndASummary) {
  const Folder folder;
  const std::string questions =
      folder.write("q.jsonl",
                   "{\"question_id\": 1, \"category\": \"a\", \"turns\": [\"Once upon a time\", "
                   "\"There was\"]}\n"
                   "{\"question_id\": 2, \"category\": \"b\", \"turns\": [\"The cat\"]}\n");
  const std::vector<Json> lines =
      lines_of({"bench", "spec", "-m", small_model(), "--methods", "ngram:nodes=8,levels=4",
                "--questions", questions, "-n", "20", "--report", folder.file("report")});
  ASSERT_EQ(lines.size(), 5u);
  for (std::size_t i = 0; i < 4; ++i) {
    expect_fields(lines[i],
                  {"question_id", "category", "method", "new_tokens", "tok_s", "tau", "equal"});
    EXPECT_EQ(lines[i]["equal"], true);
  }
  EXPECT_EQ(lines[0]["method"], "none");
  EXPECT_EQ(lines[1]["method"], "ngram:nodes=8,levels=4");
  const Json summary = lines[4]["summary"];
  for (const std::string method : {"none", "ngram:nodes=8,levels=4"}) {
    expect_fields(summary[method], {"tok_s", "speedup", "tau", "equal", "worst"});
  }
  EXPECT_EQ(summary["none"]["speedup"], 1.0);
  EXPECT_NE(read_file(folder.file("report/spec.md")).find("ngram"), std::string::npos);
}

TEST(BenchSpec, NamesTheMethodThatAutoStandsFor) {
  const Folder folder;
  const std::string questions = folder.write(
      "q.jsonl", "{\"question_id\": 1, \"category\": \"a\", \"turns\": [\"Once upon a time\"]}\n");
  const std::vector<Json> lines =
      lines_of({"bench", "spec", "-m", small_model(), "--methods", "none,auto@policy=fixed",
                "--questions", questions, "-n", "20", "--trace", folder.file("traces")});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1]["method"], "suffix@policy=fixed");
  EXPECT_TRUE(std::filesystem::exists(folder.file("traces/suffix_policy_fixed.jsonl")));
  const Outcome twice = run_talon({"bench", "spec", "-m", small_model(), "--methods",
                                   "none,auto,suffix", "--questions", questions, "-n", "2"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_NE(twice.notes.find("\"suffix\" is there twice"), std::string::npos) << twice.notes;
}

TEST(Version, IsThatOfTheHeaderAndNamesTheCommit) {
  const Outcome outcome = run_talon({"--version"});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  const Json machine = json_of({"inspect", "--machine", "--json"});
  EXPECT_EQ(outcome.output,
            fmt::format("talon {}.{}.{} ({})\n", TALON_VERSION_MAJOR, TALON_VERSION_MINOR,
                        TALON_VERSION_PATCH, machine["commit"].get<std::string>()));
}

TEST(HelpMethods, ListsDraftersPoliciesAndRules) {
  const Outcome outcome = run_talon({"help", "methods"});
  EXPECT_EQ(outcome.code, 0);
  for (const std::string name : {"none", "ngram", "nodes=", "throughput", "follow"}) {
    EXPECT_NE(outcome.output.find(name), std::string::npos) << name;
  }
}

TEST(HelpMethods, SaysOfEachOptionWhatIsUsualAndWhatItMayBe) {
  const Json json = json_of({"help", "methods", "--json"});
  for (const char* table : {"drafters", "policies", "rules"}) {
    for (const Json& row : json[table]) {
      for (const Json& option : row["options"]) {
        expect_fields(option, {"name", "default", "expected", "meaning", "required"});
      }
    }
  }
  const Outcome outcome = run_talon({"help", "methods"});
  EXPECT_NE(outcome.output.find("nodes=32 "), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("most draft nodes: a whole number from 1 to 1024"),
            std::string::npos);
}

}  // namespace
}  // namespace talon::test::cli_answers_test
