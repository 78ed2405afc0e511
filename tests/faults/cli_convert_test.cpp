#include <gtest/gtest.h>

#include "cli_process.h"

// talon convert as a user meets it: one command for models and draft heads, files that appear when
// they are whole.
namespace talon::test::cli_convert_test {
namespace {

std::string answer(const std::string& model) {
  const Outcome outcome = run_talon({"run", "-m", model, "-p", "Once upon a time", "-n", "24"});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  return outcome.output;
}

TEST(ConvertCommand, WritesAModelThatAnswersAsItsSource) {
  const Folder folder;
  const std::string file = folder.file("model.gguf");
  const Outcome outcome = run_talon({"convert", small_model(), "-o", file});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  EXPECT_EQ(outcome.output, "");
  EXPECT_NE(outcome.notes.find("llama, 47 tensors (47 f32)"), std::string::npos) << outcome.notes;
  EXPECT_EQ(answer(file), answer(small_model()));
}

TEST(ConvertCommand, LeavesNothingOnAFullDisk) {
  const Folder folder;
  const Outcome outcome =
      run_talon(Start{.arguments = {"convert", small_model(), "-o", folder.file("model.gguf")},
                      .most_file_bytes = 300000});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.notes.find("write"), std::string::npos) << outcome.notes;
  EXPECT_NE(outcome.notes.find("model.gguf"), std::string::npos) << outcome.notes;
  EXPECT_TRUE(folder.names().empty());
}

TEST(ConvertCommand, SaysWhatIsMissingOrTooMuch) {
  const Folder folder;
  const auto notes = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "convert");
    arguments.insert(arguments.end(), {"-o", folder.file("model.gguf")});
    const Outcome outcome = run_talon(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.notes;
    return outcome.notes;
  };
  EXPECT_NE(notes({small_model(), "-m", small_model()}).find("-m is for a draft head"),
            std::string::npos);
  EXPECT_NE(notes({small_model(), "--type", "q5_0"}).find("keep, q8_0"), std::string::npos);
  EXPECT_NE(notes({small_model(), "--type", "q4_1"}).find("of a model, got q4_1"),
            std::string::npos);
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace talon::test::cli_convert_test
