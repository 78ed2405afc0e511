#include <gtest/gtest.h>

#include <cstring>

#include "cli_process.h"

// Files that are missing, wrong or too large: exit code 1, a message that names the file, and
// nothing on standard output.
namespace talon::test::cli_files_test {
namespace {

void expect_failure(const Start& start, const std::vector<std::string>& said) {
  const Outcome outcome = run_talon(start);
  EXPECT_EQ(outcome.code, 1) << outcome.notes;
  EXPECT_EQ(outcome.output, "");
  for (const std::string& part : said)
    EXPECT_NE(outcome.notes.find(part), std::string::npos) << outcome.notes;
}

void expect_no_model(const std::string& path, const std::vector<std::string>& said) {
  expect_failure({.arguments = {"run", "-m", path, "-p", "x"}}, said);
}

TEST(BadModel, MissingFileIsNamedWithTheCatalogue) {
  expect_no_model("/no/such.gguf", {"/no/such.gguf", "smollm2"});
}

TEST(BadModel, CatalogueNameThatWasNotPulledSaysHowToPull) {
  const Folder folder;
  expect_failure(
      {.arguments = {"run", "-m", "smollm2", "--models", folder.path().string(), "-p", "x"}},
      {"talon pull smollm2", folder.path().string()});
}

TEST(Files, NeedAHomeForNamesOfTheCatalogueOnly) {
  const Folder folder;  // without downloads
  const std::vector<std::string> homeless = {
      "HOME=", "XDG_DATA_HOME=", "XDG_CACHE_HOME=", "TALON_MODELS="};
  const Outcome outcome =
      run_talon({.arguments = {"run", "-m", small_model(), "-p", "x", "-n", "4"},
                 .environment = homeless,
                 .folder = folder.path().string()});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  const Outcome named = run_talon({.arguments = {"run", "-m", "smollm2", "-p", "x"},
                                   .environment = homeless,
                                   .folder = folder.path().string()});
  EXPECT_EQ(named.code, 2);
  EXPECT_NE(named.notes.find("folder of pulled models"), std::string::npos) << named.notes;
}

TEST(Files, NeedNoCurrentFolderThatCanBeLookedInto) {
  const Folder folder;
  std::filesystem::create_symlink("downloads", folder.path() / "downloads");
  const std::vector<std::string> no_models = {"TALON_MODELS="};
  const Outcome outcome = run_talon({.arguments = {"tokenize", "-m", small_model(), "-p", "hi"},
                                     .environment = no_models,
                                     .folder = folder.path().string()});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  const std::string models = folder.file("downloads");
  expect_failure({.arguments = {"run", "-m", "smollm2", "--models", models, "-p", "x"}},
                 {"open model smollm2: " + models, "Too many levels of symbolic links"});
  expect_failure({.arguments = {"pull", "http://127.0.0.1:1/x", "--models", models}},
                 {"cannot make the folder " + models});
  const Outcome list = run_talon({"pull", "list", "--models", models});
  EXPECT_EQ(list.code, 0) << list.notes;
}

TEST(Files, ACacheThatDoesNotFitTheMemoryIsRefused) {
  expect_failure({.arguments = {"run", "-m", small_model(), "-p", "x", "--cache-mb", "1048576"}},
                 {"open cache", "1048576 MiB", "available"});
}

TEST(Files, ThatHoldNoGrammarAreNamed) {
  const Folder folder;
  const std::string file = folder.write("schema.json", "# no schema");
  for (const char* flag : {"--json-schema", "--grammar"}) {
    expect_failure({.arguments = {"run", "-m", small_model(), "-p", "x", flag, file}},
                   {std::string(flag) + " " + file + ": grammar: "});
  }
}

TEST(Files, StandardInputThatCannotBeReadIsNoPrompt) {
  const Folder folder;
  expect_failure(
      {.arguments = {"run", "-m", small_model(), "-f", "-"}, .input_file = folder.path().string()},
      {"read standard input: Is a directory"});
}

TEST(Files, ThatCannotBeOpenedAreNamedWithTheReason) {
  const Folder folder;
  const std::string none = folder.file("none");
  expect_failure({.arguments = {"bench", "spec", "-m", small_model(), "--methods", "ngram",
                                "--questions", none}},
                 {"read questions " + none + ": No such file"});
  expect_failure({.arguments = {"bench", "tree", none}}, {none + ": No such file"});
  const std::string file = folder.write("prompts", "{\"prompt\": \"Once\"}\n");
  expect_failure({.arguments = {"train", "data", "-m", small_model(), "--prompts", file, "-o",
                                file + "/x", "--no-chat"}},
                 {file + "/x: Not a directory"});
}

TEST(BadModel, EmptyFile) {
  const Folder folder;
  expect_no_model(folder.write("empty.gguf", ""), {"empty.gguf", "empty"});
}

TEST(BadModel, DirectoryWithoutAModel) {
  const Folder folder;
  expect_no_model(folder.path().string(), {folder.path().string(), "config.json"});
}

TEST(BadModel, FileOfSomethingElse) {
  const Folder folder;
  expect_no_model(folder.write("text.gguf", "this is not a model at all"), {"text.gguf", "GGUF"});
}

TEST(BadModel, CutFileIsRefusedAtEveryTenthOfItsLength) {
  const std::string whole = read_file(small_model());
  ASSERT_GT(whole.size(), 0u);
  for (int tenth = 0; tenth < 10; ++tenth) {
    const Folder folder;
    expect_no_model(
        folder.write("cut.bin",
                     whole.substr(0, whole.size() * static_cast<std::size_t>(tenth) / 10)),
        {"cut.bin"});
  }
}

TEST(BadModel, NanInWeights) {
  std::string bytes = read_file(small_model());
  for (std::size_t i = 0; i < 4; ++i)
    bytes[28 + 4096 + i] = '\xff';  // one value of the embedding, after the header
  const Folder folder;
  const std::string path = folder.write("nan.bin", bytes);
  folder.write("tok512.bin", read_file(TALON_TEST_DATA "/models/tok512.bin"));
  expect_no_model(path, {"nan"});
}

TEST(BadModel, WithFiniteWeightsThatOverflowIsNotScored) {
  std::string bytes = read_file(small_model());
  constexpr std::size_t kWidth = 64, kRotaryTables = 512 * 8;
  const float huge = 3e38F;
  const std::size_t last_norm = bytes.size() - (kRotaryTables + kWidth) * sizeof(huge);
  for (std::size_t i = 0; i < kWidth; ++i)
    std::memcpy(bytes.data() + last_norm + i * sizeof(huge), &huge, sizeof(huge));
  const Folder folder;
  const std::string path = folder.write("huge.bin", bytes);
  folder.write("tok512.bin", read_file(TALON_TEST_DATA "/models/tok512.bin"));
  const std::string text = folder.write("text", "Once upon a time");
  expect_failure({.arguments = {"score", "-m", path, "-f", text}},
                 {"score " + text + ": position 0: expected finite logits, found"});
}

TEST(BadModel, TokenizerOfALargerModelBesideTheWeights) {
  const std::string other = TALON_DOWNLOADS "/stories15m/tokenizer.bin";
  if (!std::filesystem::exists(other)) GTEST_SKIP() << "stories15m was not pulled";
  const Folder folder;
  const std::string path = folder.write("stories260K.bin", read_file(small_model()));
  folder.write("tokenizer.bin", read_file(other));
  expect_failure({.arguments = {"run", "-m", path, "-p", "x"}}, {folder.path().string()});
}

TEST(BadModel, WithoutATokenizerIdsStillWorkAndTextDoesNot) {
  const std::string folder = TALON_TEST_DATA "/golden/stories260k/target";
  const Outcome outcome =
      run_talon({"run", "-m", folder, "--prompt-ids", "1,403,407", "-n", "4", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  expect_failure({.arguments = {"run", "-m", folder, "-p", "x"}}, {"tokenizer"});
}

TEST(BadPrompt, MissingFile) {
  expect_failure({.arguments = {"run", "-m", small_model(), "-f", "/no/such.txt"}},
                 {"/no/such.txt", "No such file"});
}

TEST(BadPrompt, Directory) {
  expect_failure({.arguments = {"run", "-m", small_model(), "-f", "/tmp"}}, {"/tmp", "directory"});
}

TEST(BadPrompt, LongerThanTheContext) {
  std::string ids = "1";
  for (int i = 0; i < 600; ++i) ids += ",403";
  expect_failure({.arguments = {"run", "-m", small_model(), "--prompt-ids", ids}},
                 {"601 tokens", "512"});
}

TEST(BadPrompt, TextsWithoutEndAreRefusedBeforeTheyAreEncoded) {
  for (const char* command : {"tokenize", "run", "score"}) {
    expect_failure({.arguments = {command, "-m", small_model(), "-f", "/dev/zero"}},
                   {"/dev/zero", "16777216 bytes"});
  }
  const std::string endless(17 << 20, 'a');
  expect_failure({.arguments = {"tokenize", "-m", small_model(), "-f", "-"}, .input = endless},
                 {"standard input", "16777216 bytes"});
  if (chat_model().empty()) GTEST_SKIP() << "smollm2 was not pulled";
  expect_failure({.arguments = {"chat", "-m", chat_model()}, .input = endless},
                 {"line", "16777216 bytes"});
}

TEST(BadPrompt, ChatWithoutATemplate) {
  expect_failure({.arguments = {"run", "-m", small_model(), "--chat", "-p", "x"}},
                 {"chat template"});
}

TEST(BadPrompt, ScoreOfTooLittleAndTooMuch) {
  const Folder folder;
  expect_failure({.arguments = {"score", "-m", small_model(), "-f", folder.write("empty", "")}},
                 {"2 to 512"});
  std::string ids;
  for (int i = 0; i < 513; ++i) ids += "403 ";
  expect_failure(
      {.arguments = {"score", "-m", small_model(), "--ids", "-f", folder.write("long", ids)}},
      {"513"});
}

TEST(BadPrompt, LongerThanTheCacheIsRefusedBeforeItIsComputed) {
  if (chat_model().empty()) GTEST_SKIP() << "smollm2 was not pulled";
  const Folder folder;
  std::string ids = "1";
  for (int i = 0; i < 199; ++i) ids += ",403";
  const std::vector<std::string> model = {"-m", chat_model(), "--cache-mb", "3"};
  const auto with_model = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), model.begin(), model.end());
    return Start{.arguments = arguments};
  };
  expect_failure(with_model({"score", "--ids", "-f", folder.write("ids", ids)}),
                 {"the cache has room for 128 tokens, found 200: give a larger --cache-mb"});
  expect_failure(with_model({"run", "--prompt-ids", ids}),
                 {"200 tokens: expected fewer than 128", "--cache-mb"});
}

TEST(BadPrompt, AsWhatIsExpectedIsNotReadPastWhatTheContextHolds) {
  const Folder folder;
  const std::string file = folder.write("expected", std::string(1 << 20, 'a'));
  expect_failure({.arguments = {"run", "-m", small_model(), "-p", "Once", "--expected", file}},
                 {"--expected " + file + ": ", "1048576 bytes: expected at most", "512 tokens"});
}

TEST(BadPrompt, QuestionsThatAreNotJson) {
  const Folder folder;
  const std::string file = folder.write("questions.jsonl", "{\"turns\": [\"a\"]}\nnot json\n");
  expect_failure({.arguments = {"bench", "spec", "-m", small_model(), "--methods", "none",
                                "--questions", file}},
                 {"questions.jsonl", "line 2"});
}

TEST(InvalidUtf8, InAPromptIsReplacedAnsweredAndNoted) {
  const Folder folder;
  const std::string file = folder.write("latin1.txt", "one\ncaf\xE9 au lait\n");
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"-p", "\xff\xfe Once \xc3"}, "--prompt: byte 0xFF at place 0 (line 1)"},
      {{"-f", file}, file + ": byte 0xE9 at place 7 (line 2)"}};
  for (const auto& [source, said] : cases) {
    std::vector<std::string> arguments = {"run", "-m", small_model(), "-n", "3", "--json"};
    arguments.insert(arguments.end(), source.begin(), source.end());
    const Outcome outcome = run_talon(Start{.arguments = arguments});
    EXPECT_EQ(outcome.code, 0) << outcome.notes;
    EXPECT_NE(outcome.notes.find(said + " is no UTF-8"), std::string::npos) << outcome.notes;
  }
}

TEST(FullDisk, OnStandardOutputIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const Outcome outcome =
      run_talon(Start{.arguments = {"run", "-m", small_model(), "-p", "Once", "-n", "4"},
                      .output_file = "/dev/full"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.notes.find("standard output"), std::string::npos) << outcome.notes;
  const Outcome help = run_talon(Start{.arguments = {"--help"}, .output_file = "/dev/full"});
  EXPECT_EQ(help.code, 1);
  EXPECT_NE(help.notes.find("standard output"), std::string::npos) << help.notes;
}

}  // namespace
}  // namespace talon::test::cli_files_test
