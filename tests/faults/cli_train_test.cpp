#include <gtest/gtest.h>

#include <string>

#include "cli_process.h"

// `talon train` from a prompts file to a measured head and a policy, for a target whose tokenizer
// is SentencePiece-style (llama2.c).
namespace talon::test::cli_train_test {
namespace {

std::string questions() { return TALON_TEST_DATA "/story_questions.jsonl"; }

std::string data_of(const Folder& folder) {
  const std::string prompts = folder.write(
      "prompts.jsonl", R"({"prompt":"Once upon a time","source":"test","licence":"CC0"})"
                       "\n");
  const Outcome outcome =
      run_talon({"train", "data", "-m", small_model(), "--prompts", prompts, "--no-chat", "-n",
                 "60", "--tokens", "200", "--threads", "1", "--temperature-mix", "1", "--samples",
                 "4", "-o", folder.file("data")});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  return folder.file("data");
}

class Trainer : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(TALON_TRAINER)) GTEST_SKIP() << "talon-train was not built";
  }
};

TEST_F(Trainer, MeasuresAHeadOnQuestionsForASentencePieceTarget) {
  const Folder folder;
  const std::string data = data_of(folder);
  const auto train = [&](const char* max_new) {
    return run_talon({"train",
                      "head",
                      "-m",
                      small_model(),
                      "--kind",
                      "eagle",
                      "--data",
                      data,
                      "-o",
                      folder.file("run"),
                      "--questions",
                      questions(),
                      "--limit",
                      "2",
                      "-n",
                      max_new,
                      "--epochs",
                      "1",
                      "--batch",
                      "64",
                      "--steps",
                      "1",
                      "--draft-vocab",
                      "0"});
  };
  const Outcome outcome = train("12");
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  const std::string evaluations = read_file(folder.path() / "run" / "evaluations.csv");
  EXPECT_NE(evaluations.find("chain4"), std::string::npos) << evaluations;
  EXPECT_NE(outcome.notes.find("\"draft_vocabulary\":512"), std::string::npos) << outcome.notes;

  EXPECT_EQ(train("12").code, 0);
  EXPECT_EQ(read_file(folder.path() / "run" / "evaluations.csv"), evaluations) << "it was over";
  const std::string otherwise = "measured otherwise than before";
  EXPECT_NE(train("16").notes.find(otherwise), std::string::npos);
}

/// No score could tell its heads apart.
TEST_F(Trainer, RefusesQuestionsThatLeaveNoRoomForAnswers) {
  const Folder folder;
  const Outcome outcome =
      run_talon({"train", "head", "-m", small_model(), "--kind", "eagle", "--data", data_of(folder),
                 "-o", folder.file("run"), "--questions", questions(), "-n", "512", "--epochs", "1",
                 "--draft-vocab", "0"});
  expect_said(outcome, 1, "expected one that leaves room for an answer of 512 tokens (-n)");
  EXPECT_NE(outcome.notes.find("--questions"), std::string::npos) << outcome.notes;
}

TEST(TrainHeadCommand, SaysHowTheTrainerIsBuilt) {
  if (std::filesystem::exists(TALON_TRAINER)) GTEST_SKIP() << "talon-train was built";
  expect_said(run_talon({"train", "head", "-m", small_model(), "--data", "x", "-o", "y"}), 1,
              "`make trainer` builds it");
}

TEST(TrainDataCommand, RefusesToHoldOutOfReadyMadeAnswers) {
  const Folder folder;
  const Outcome outcome = run_talon({"train", "data", "-m", small_model(), "--responses", "x",
                                     "--held-out", questions(), "-o", folder.file("data")});
  expect_said(outcome, 2, "--held-out: expected --prompts");
}

TEST_F(Trainer, SaysThatThereIsNoCudaDevice) {
  const Outcome outcome = run_talon(
      {"train", "head", "-m", small_model(), "--data", "x", "-o", "y", "--device", "cuda"});
  if (outcome.notes.find("read") != std::string::npos) GTEST_SKIP() << "there is one";
  expect_said(outcome, 2, "--device: expected cpu");
}

TEST_F(Trainer, TrainsAPolicyForASentencePieceTarget) {
  const Folder folder;
  const Outcome outcome = run_talon(
      {"train",       "policy",
       "-m",          small_model(),
       "--kind",      "ada_eagle",
       "-d",          "eagle2:topk=1,head=" TALON_TEST_DATA "/golden/stories260k/eagle1_head",
       "--questions", questions(),
       "--limit",     "3",
       "-n",          "24",
       "--epochs",    "1",
       "--threads",   "1",
       "-o",          folder.file("policy")});
  EXPECT_EQ(outcome.code, 0) << outcome.notes;
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "policy" / "ada_eagle.safetensors"));
}

}  // namespace
}  // namespace talon::test::cli_train_test
