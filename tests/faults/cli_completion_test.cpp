#include <gtest/gtest.h>
#include <stdio.h>

#include <algorithm>
#include <sstream>

#include "cli_process.h"

// What shells complete.
namespace talon::test::cli_completion_test {
namespace {

using Words = std::vector<std::string>;

std::string run_shell(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1 < /dev/null").c_str(), "r");
  std::string said;
  for (int c = 0; pipe && (c = fgetc(pipe)) != EOF;) said += static_cast<char>(c);
  if (pipe) pclose(pipe);
  return said;
}

class Completion : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string shell = GetParam();
    const Outcome outcome = run_talon({"completion", shell});
    ASSERT_EQ(outcome.code, 0) << outcome.notes;
    folder_.write("_talon", outcome.output);
    if (run_shell("command -v " + shell).empty()) GTEST_SKIP() << shell << " is not installed";
  }

  /// What the last of these words may become, but for files.
  Words of(const Words& words) const {
    const std::string shell = GetParam();
    const std::string asked = shell == "bash"  ? in_bash(words)
                              : shell == "zsh" ? in_zsh(words)
                                               : in_fish(words);
    std::istringstream said(run_shell("cd '" + folder_.path().string() + "' && " + asked));
    Words found;
    for (std::string word; said >> word;) found.push_back(word);
    return found;
  }

 private:
  static std::string in_quotes(const Words& words) {
    std::string all;
    for (const std::string& word : words) all += "\"" + word + "\" ";
    return all;
  }
  static std::string in_bash(const Words& words) {
    return "bash -c 'source ./_talon && COMP_WORDS=(" + in_quotes(words) +
           ") && COMP_CWORD=" + std::to_string(words.size() - 1) +
           " && _talon; echo \"${COMPREPLY[*]}\"'";
  }
  /// As a file of $fpath; what zsh has only on a line that is typed is stood in for.
  static std::string in_zsh(const Words& words) {
    return "zsh -f -c 'compadd() { shift; local -a fit; fit=(${(M)@:#${words[CURRENT]}*}); "
           "print -r -- $fit; (($#fit)); }; _files() { :; }; fpath=($PWD); autoload _talon; "
           "words=(" +
           in_quotes(words) + ") CURRENT=" + std::to_string(words.size()) + "; _talon'";
  }
  static std::string in_fish(const Words& words) {
    std::string typed;
    for (const std::string& word : words) typed += (typed.empty() ? "" : " ") + word;
    return "fish -N -c 'source ./_talon; complete -C \"" + typed + "\"'";
  }

  Folder folder_;
};

TEST_P(Completion, KnowsCommandsAndWhatIsBelowThem) {
  EXPECT_EQ(of({"talon", "cha"}), Words{"chat"});
  EXPECT_EQ(of({"talon", "bench", "sp"}), Words{"spec"});
  EXPECT_EQ(of({"talon", "spec"}), Words{});
  const Words all = of({"talon", ""});
  for (const std::string& command : Words{"run", "chat", "serve"}) {
    EXPECT_NE(std::ranges::find(all, command), all.end()) << command;
  }
}

TEST_P(Completion, KnowsTheOptionsOfEachCommand) {
  EXPECT_EQ(of({"talon", "run", "--tempera"}), Words{"--temperature"});
  EXPECT_EQ(of({"talon", "bench", "spec", "-m", "x", "--questi"}), Words{"--questions"});
  EXPECT_EQ(of({"talon", "run", "--no-reus"}), Words{}) << "an option of chat";
  EXPECT_EQ(of({"talon", "--vers"}), Words{"--version"});
}

/// The shell then completes files.
TEST_P(Completion, KnowsNoWordsOfValues) {
  EXPECT_EQ(of({"talon", "run", "-m", "mod"}), Words{});
  EXPECT_EQ(of({"talon", "run", "--stop", "--tempera"}), Words{});
  EXPECT_EQ(of({"talon", "run", "chat"}), Words{});
  EXPECT_EQ(of({"talon", "inspect", "mod"}), Words{});
}

INSTANTIATE_TEST_SUITE_P(Shells, Completion, testing::Values("bash", "zsh", "fish"),
                         [](const auto& shell) { return std::string(shell.param); });

/// Also where the shells are not installed.
TEST(CompletionScripts, HoldTheWordsOfAllCommands) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = run_talon({"completion", shell});
    ASSERT_EQ(outcome.code, 0) << outcome.notes;
    for (const char* words :
         {"run chat serve", "'talon bench spec'", " --questions", " --no-reuse"})
      EXPECT_NE(outcome.output.find(words), std::string::npos) << shell << ": " << words;
  }
}

}  // namespace
}  // namespace talon::test::cli_completion_test
