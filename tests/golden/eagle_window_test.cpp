#include <gtest/gtest.h>

#include "draft/head/gguf_head.h"
#include "draft/registry.h"
#include "eagle_head_files.h"
#include "eagle_run.h"

namespace talon::eagle_window_test {
namespace {

const std::vector<TokenId> kPrompt = {1, 403, 407, 261, 378, 432, 383, 286, 261, 376};

/// All trees of twelve rounds, node by node. talon: what the head's file tells under that key.
/// gguf: of the head converted.
std::vector<std::vector<TokenId>> trees_of(const std::string& drafter, const Json& told = {},
                                           bool gguf = false) {
  HeadFiles files = HeadFiles::read("eagle3_head");
  if (!told.is_null()) files.config["talon"] = told;
  const test::TemporaryFolder folder;
  files.write(folder);
  std::filesystem::path head = folder.path();
  if (gguf) {
    const auto target = std::string(TALON_TEST_DATA) + "/golden/stories260k/target";
    write_gguf_head(open_checkpoint(folder.path()), open_checkpoint(target), HeadStorage::f32,
                    head /= "head.gguf");
  }
  const auto made = eagle_target().make_drafter(drafter, head.string());
  std::vector<std::vector<TokenId>> trees;
  for (const EagleRound& round : run_eagle(eagle_target(), *made, kPrompt, 12)) {
    trees.push_back(round.tree.tokens());
  }
  return trees;
}

Json trained_with(const Json& tokens) { return {{"settings", {{"max_tokens", tokens}}}}; }

TEST(EagleWindow, ThatHoldsTheTextChangesNothingAndAShorterOneDoes) {
  const auto all = trees_of("eagle3:weights=f32,nodes=12");
  EXPECT_EQ(trees_of("eagle3:weights=f32,nodes=12,window=200"), all);
  EXPECT_NE(trees_of("eagle3:weights=f32,nodes=12,window=3"), all);
}

TEST(EagleWindow, IsAsLongAsTheTextsThatTalonTrainedTheHeadWith) {
  const auto three = trees_of("eagle3:weights=f32,nodes=12,window=3");
  EXPECT_EQ(trees_of("eagle3:weights=f32,nodes=12", trained_with(3)), three);
  const auto all = trees_of("eagle3:weights=f32,nodes=12");
  EXPECT_EQ(trees_of("eagle3:weights=f32,nodes=12,window=0", trained_with(3)), all);
}

TEST(EagleWindow, IsToldByAConvertedHeadAsByItsOrigin) {
  const auto three = trees_of("eagle3:weights=f32,nodes=12,window=3");
  EXPECT_EQ(trees_of("eagle3:weights=f32,nodes=12", trained_with(3), /*gguf=*/true), three);
  const auto all = trees_of("eagle3:weights=f32,nodes=12");
  EXPECT_EQ(trees_of("eagle3:weights=f32,nodes=12", {}, /*gguf=*/true), all);
}

TEST(EagleWindow, WhatIsNoLengthOfTextsIsNotTakenForOne) {
  const auto all = trees_of("eagle3:weights=f32,nodes=12");
  for (const Json& told :
       {trained_with(-3), trained_with("3"), trained_with(3.0), trained_with(18446744073709551615U),
        Json::array(), Json("settings"), Json({{"settings", "max_tokens"}})}) {
    EXPECT_EQ(trees_of("eagle3:weights=f32,nodes=12", told), all) << told;
  }
}

}  // namespace
}  // namespace talon::eagle_window_test
