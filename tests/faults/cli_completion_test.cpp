#include <gtest/gtest.h>
#include <stdio.h>

#include "cli_process.h"

// What bash completes.
namespace talon::test::cli_completion_test {
namespace {

class Completion : public testing::Test {
 protected:
  void SetUp() override {
    const Outcome outcome = run_talon({"completion", "bash"});
    ASSERT_EQ(outcome.code, 0) << outcome.notes;
    folder_.write("talon.bash", outcome.output);
  }

  /// What the last of these words, as bash has them, may become.
  std::string of(const std::string& words, int last) const {
    const std::string command =
        "bash -c 'source \"" + folder_.file("talon.bash") + "\" && COMP_WORDS=(" + words +
        ") && COMP_CWORD=" + std::to_string(last) + " && _talon; echo \"${COMPREPLY[*]}\"' 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    std::string said;
    for (int c = 0; pipe && (c = fgetc(pipe)) != EOF;) said += static_cast<char>(c);
    if (pipe) pclose(pipe);
    return said;
  }

 private:
  Folder folder_;
};

TEST_F(Completion, KnowsCommandsAndWhatIsBelowThem) {
  EXPECT_EQ(of("talon cha", 1), "chat\n");
  EXPECT_EQ(of("talon bench sp", 2), "spec\n");
  EXPECT_EQ(of("talon spec", 1), "\n");
  EXPECT_NE(of("talon \"\"", 1).find("run chat serve"), std::string::npos);
}

TEST_F(Completion, KnowsTheOptionsOfEachCommand) {
  EXPECT_EQ(of("talon run --tempera", 2), "--temperature\n");
  EXPECT_EQ(of("talon bench spec -m x --questi", 5), "--questions\n");
  EXPECT_EQ(of("talon run --no-reus", 2), "\n") << "an option of chat";
  EXPECT_EQ(of("talon --vers", 1), "--version\n");
}

/// bash then completes files.
TEST_F(Completion, KnowsNoWordsOfValues) {
  EXPECT_EQ(of("talon run -m mod", 3), "\n");
  EXPECT_EQ(of("talon run --stop --tempera", 3), "\n");
  EXPECT_EQ(of("talon run chat", 2), "\n");
  EXPECT_EQ(of("talon inspect mod", 2), "\n");
}

}  // namespace
}  // namespace talon::test::cli_completion_test
