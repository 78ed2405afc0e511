#include <gtest/gtest.h>

#include <cstdint>

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

TEST(ConvertCommand, WritesABlockDrafterThatRuns) {
  const Folder folder;
  const std::string file = folder.file("head.gguf");
  for (const std::string kind : {"dflash", "dspark"}) {
    const std::string head = TALON_TEST_DATA "/golden/blocks/" + kind + "/head";
    const Outcome outcome = run_talon({"convert", head, "-m", small_model(), "-o", file});
    expect_said(outcome, 0, "-d " + kind + ":head=" + file);
    expect_said(outcome, 0, "is no GGUF file, so");
    const Outcome run = run_talon({"run", "-m", small_model(), "-p", "Once upon a time", "-n", "24",
                                   "-d", kind + ":head=" + file});
    EXPECT_EQ(run.code, 0) << run.notes;
    EXPECT_EQ(run.output, answer(small_model()));
  }
}

/// A file of one Medusa head of one block, as far as its kind is told.
void write_medusa(const Folder& folder) {
  const std::string header =
      R"({"0.0.linear.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}})";
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(std::uint64_t{header.size()} >> (8 * i));
  folder.write("model.safetensors", bytes + header + std::string(4, '\0'));
  folder.write("config.json", "{}");
}

TEST(ConvertCommand, RefusesHeadsThatLlamaCppHasNoArchitectureFor) {
  const Folder folder, medusa;
  write_medusa(medusa);
  const std::pair<std::string, std::string> heads[] = {
      {medusa.path().string(), "medusa"}, {TALON_TEST_DATA "/golden/blocks/peagle/head", "peagle"}};
  for (const auto& [head, kind] : heads) {
    expect_said(run_talon({"convert", head, "-m", small_model(), "-o", folder.file("head.gguf")}),
                1, "found a " + kind + " head, for which llama.cpp has no architecture");
  }
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace talon::test::cli_convert_test
