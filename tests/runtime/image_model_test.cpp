#include <gtest/gtest.h>

#include "../faults/cli_process.h"
#include "io/json.h"

// The model of icons that ships, with the head in its folder.
namespace talon::test::image_model_test {
namespace {

/// The model that ships, drawn with the head that lies in its folder.
TEST(ImageModelThatShips, DrawsWithItsHeadWhatPlainDrawingDraws) {
  Folder folder;
  const Outcome outcome =
      run_talon({"image", "-m", TALON_TEST_DATA "/../../models/emoji", "-p", "red heart twemoji",
                 "-n", "2", "--compare", "--json", "-o", folder.file("heart.png")});
  ASSERT_EQ(outcome.code, 0) << outcome.notes;
  const Json json = Json::parse(outcome.output);
  EXPECT_EQ(json["equal"], true);
  EXPECT_EQ(json["drafter"], "eagle2+jacobi");
  EXPECT_EQ(json["images"][0]["tokens"].size(), 256u);
}

/// The head is stored in GGUF, whose rows turn in pairs as those of the model do.
TEST(ImageModelThatShips, HasAHeadThatGuessesItsCodes) {
  Folder folder;
  const std::string prompts =
      folder.write("prompts.jsonl", "{\"prompt\": \"cat twemoji\", \"seed\": 1}\n");
  const std::string model = TALON_TEST_DATA "/../../models/emoji";
  const std::string method = "eagle2:tree=chain,head=" + model + "/head/head.gguf@policy=fixed";
  const Outcome outcome =
      run_talon({"bench", "image", "-m", model, "--prompts", prompts, "--methods", method});
  ASSERT_EQ(outcome.code, 0) << outcome.notes;
  const Json of_head = Json::parse(outcome.output.substr(
      outcome.output.rfind('\n', outcome.output.size() - 2) + 1))["summary"][method];
  EXPECT_EQ(of_head["equal"], 1.0);
  EXPECT_GT(of_head["tau"], 1.9);
}

}  // namespace
}  // namespace talon::test::image_model_test
