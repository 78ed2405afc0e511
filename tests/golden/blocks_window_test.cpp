#include <fmt/format.h>
#include <gtest/gtest.h>

#include "draft/registry.h"
#include "eagle_head_files.h"
#include "eagle_run.h"

namespace talon::blocks_window_test {
namespace {

const std::vector<TokenId> kPrompt = {1, 403, 407, 261, 378, 432, 383, 286, 261, 376};

HeadFiles head_of(const std::string& kind) {
  return HeadFiles::read("../blocks/" + kind + "/head");
}

std::vector<EagleRound> rounds_of(const std::string& drafter, const HeadFiles& files) {
  const test::TemporaryFolder folder;
  files.write(folder);
  const auto made = eagle_target().make_drafter(drafter, folder.path().string());
  return run_eagle(eagle_target(), *made, kPrompt, 12);
}

/// Of all rounds.
using Trees = std::vector<std::pair<std::vector<TokenId>, std::vector<float>>>;

Trees trees_of(const std::string& drafter, const HeadFiles& files) {
  Trees trees;
  for (const EagleRound& round : rounds_of(drafter, files)) {
    trees.emplace_back(round.tree.tokens(), round.tree.log_ps());
  }
  return trees;
}

HeadFiles trained_with(HeadFiles files, const Json& tokens) {
  files.config["talon"] = {{"settings", {{"max_tokens", tokens}}}};
  return files;
}

class BlockWindow : public testing::TestWithParam<const char*> {
 protected:
  static Trees trees(const std::string& options, const HeadFiles& files) {
    return trees_of(fmt::format("{}:weights=f32,nodes=12{}", GetParam(), options), files);
  }
  const HeadFiles files_ = head_of(GetParam());
};

TEST_P(BlockWindow, ThatHoldsTheTextChangesNothingAndAShorterOneDoes) {
  const Trees all = trees("", files_);
  EXPECT_EQ(trees(",window=200", files_), all);
  EXPECT_NE(trees(",window=3", files_), all);
}

TEST_P(BlockWindow, IsAsLongAsTheTextsThatTalonTrainedTheHeadWith) {
  const Trees all = trees("", files_), three = trees(",window=3", files_);
  EXPECT_EQ(trees("", trained_with(files_, 3)), three);
  EXPECT_EQ(trees(",window=0", trained_with(files_, 3)), all);
  EXPECT_EQ(trees("", trained_with(files_, "3")), all) << "no length of texts";
}

/// With as many sinks as the text is longer than the window, nothing is left out.
TEST_P(BlockWindow, HasTheFirstTokensOfTheTextBesideIt) {
  const Trees all = trees("", files_);
  EXPECT_EQ(trees(",window=0,sinks=4", files_), all);
  EXPECT_EQ(trees(",window=40,sinks=200", files_), all);
  const Trees four = trees(",window=4,sinks=2", files_);
  EXPECT_NE(four, all);
  EXPECT_NE(four, trees(",window=4", files_));
  EXPECT_NE(four, trees(",window=6", files_));
}

INSTANTIATE_TEST_SUITE_P(All, BlockWindow, testing::Values("dflash", "dspark", "peagle"),
                         [](const auto& tested) { return std::string(tested.param); });

/// A DFlash head all of whose layers slide.
HeadFiles sliding_head(int window) {
  HeadFiles files = head_of("dflash");
  files.config["layer_types"] = {"sliding_attention", "sliding_attention"};
  files.config["sliding_window"] = window;
  return files;
}

HeadFiles not_causal(HeadFiles files) {
  files.config["dflash_config"]["causal"] = false;
  return files;
}

void expect_near(const std::vector<EagleRound>& found, const std::vector<EagleRound>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(found[i].tree.tokens(), expected[i].tree.tokens());
    for (NodeId node = 1; node < found[i].tree.size(); ++node) {
      EXPECT_NEAR(found[i].tree[node].log_p, expected[i].tree[node].log_p, 1e-4);
    }
  }
}

/// A layer that slides by itself lists what it sees, one that is given a window leaves out what it
/// does not: the same keys.
TEST(BlockWindows, AreThoseOfLayersThatSlideByThemselves) {
  const HeadFiles full = head_of("dflash");
  for (const int window : {1, 3, 7, 200}) {
    SCOPED_TRACE(window);
    expect_near(rounds_of(fmt::format("dflash:weights=f32,topk=1,window={}", window), full),
                rounds_of("dflash:weights=f32,topk=1", not_causal(sliding_head(window))));
  }
}

/// Rows of layers that slide see no later ones of the block, unless the files say otherwise.
TEST(BlockWindows, OfLayersThatSlideEndWithARow) {
  const std::string drafter = "dflash:weights=f32,topk=1";
  const HeadFiles full = head_of("dflash"), sliding = sliding_head(200);
  HeadFiles causal = full;
  causal.config["is_causal"] = true;
  EXPECT_NE(trees_of(drafter, causal), trees_of(drafter, full));
  expect_near(rounds_of(drafter, sliding), rounds_of(drafter, causal));
  for (const char* key : {"is_causal", "causal", "causal_head"}) {
    HeadFiles said = sliding;
    said.config["dflash_config"][key] = false;
    expect_near(rounds_of(drafter, said), rounds_of(drafter, full));
  }
  HeadFiles said = sliding;
  said.config["sliding_window_non_causal"] = true;
  expect_near(rounds_of(drafter, said), rounds_of(drafter, full));
}

/// ModelOpt's and Xiaomi's heads: their layers are called full all the same.
TEST(BlockWindows, OfAllLayersMayBeSaidByOneKey) {
  const std::string drafter = "dflash:weights=f32,nodes=12";
  const Trees expected = trees_of(drafter, not_causal(sliding_head(3)));
  EXPECT_NE(expected, trees_of(drafter, head_of("dflash")));
  HeadFiles files = head_of("dflash");
  Json& keys = files.config["dflash_config"];
  keys["use_swa"] = true;
  keys["swa_window_size"] = 3;
  EXPECT_EQ(trees_of(drafter, files), expected);
  keys.erase("swa_window_size");
  const std::string message = test::message_of([&] { trees_of(drafter, files); });
  EXPECT_NE(message.find("\"sliding_window\": expected an integer"), std::string::npos) << message;
  files.config["sliding_window"] = 3;
  EXPECT_EQ(trees_of(drafter, files), expected);
}

/// Of a head with layers of both kinds the window cuts those that see all, and no others.
TEST(BlockWindows, LeaveLayersAloneThatSlideByThemselves) {
  HeadFiles mixed = head_of("dflash");
  mixed.config["layer_types"] = {"sliding_attention", "full_attention"};
  mixed.config["sliding_window"] = 6;
  const std::string drafter = "dflash:weights=f32,nodes=12";
  const Trees own = trees_of(drafter, mixed);
  EXPECT_EQ(trees_of(drafter + ",window=200", mixed), own);
  EXPECT_NE(trees_of(drafter + ",window=3", mixed), own);
  mixed.config["layer_types"][1] = "sliding_attention";
  EXPECT_EQ(trees_of(drafter + ",window=3", mixed), trees_of(drafter, mixed));
}

const std::string kFull = "full_attention", kSliding = "sliding_attention";

/// A P-EAGLE head whose layers are of these kinds.
HeadFiles peagle_of(const std::string& first, const std::string& second) {
  HeadFiles files = head_of("peagle");
  Json& layer = files.config["transformer_layer_config"];
  layer["layer_types"] = std::vector<std::string>{first, second};
  layer["sliding_window"] = 3;
  return files;
}

TEST(BlockWindows, OfPeaglesLayersAreTheirOwn) {
  const std::string drafter = "peagle:weights=f32,nodes=12";
  const Trees all = trees_of(drafter, head_of("peagle"));
  const Trees none = trees_of(drafter + ",window=3", head_of("peagle"));
  const Trees first = trees_of(drafter, peagle_of(kSliding, kFull));
  const Trees second = trees_of(drafter, peagle_of(kFull, kSliding));
  EXPECT_EQ(trees_of(drafter, peagle_of(kFull, kFull)), all);
  EXPECT_EQ(trees_of(drafter, peagle_of(kSliding, kSliding)), none);
  EXPECT_NE(first, second);
  for (const Trees& mixed : {first, second}) {
    EXPECT_NE(mixed, all);
    EXPECT_NE(mixed, none);
  }
}

/// Nor have those that slide sinks.
TEST(BlockWindows, LeavePeaglesLayersAloneThatSlideByThemselves) {
  const std::string drafter = "peagle:weights=f32,nodes=12";
  const HeadFiles mixed = peagle_of(kSliding, kFull);
  const Trees own = trees_of(drafter, mixed);
  EXPECT_EQ(trees_of(drafter + ",window=200", mixed), own);
  EXPECT_EQ(trees_of(drafter + ",window=200,sinks=4", mixed), own);
  EXPECT_EQ(trees_of(drafter + ",window=3", mixed),
            trees_of(drafter, peagle_of(kSliding, kSliding)));
  EXPECT_NE(trees_of(drafter + ",window=3,sinks=4", mixed),
            trees_of(drafter + ",window=3,sinks=4", head_of("peagle")));
}

}  // namespace
}  // namespace talon::blocks_window_test
