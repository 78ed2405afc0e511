#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "draft/block/block_config.h"
#include "eagle_head_files.h"
#include "eagle_run.h"

namespace talon::blocks_layouts_test {
namespace {

HeadFiles head_of(const std::string& kind) {
  return HeadFiles::read("../blocks/" + kind + "/head");
}

std::vector<EagleRound> rounds_of(const std::string& drafter, const HeadFiles& files) {
  const std::vector<TokenId> prompt = {1, 403, 407, 261, 378, 432, 383, 286, 261, 376};
  const test::TemporaryFolder folder;
  files.write(folder);
  const auto made = eagle_target().make_drafter(drafter, folder.path().string());
  return run_eagle(eagle_target(), *made, prompt, 12);
}

/// AWS's and others': keys lie flat, the token of masks has another name, and its features fewer
/// dimensions.
TEST(BlockLayouts, OfPeagleForVllmAreSpeculatorsUnderOtherKeys) {
  const HeadFiles speculators = head_of("peagle");
  const std::string drafter = "peagle:weights=f32,nodes=9,places=5";
  const auto expected = rounds_of(drafter, speculators);
  const std::vector<float> mask = speculators.values("mask_hidden");
  const auto width = static_cast<std::int64_t>(mask.size());
  for (const char* key : {"ptd_token_id", "pard_token"}) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{width}, std::vector<std::int64_t>{1, width}}) {
      HeadFiles files = speculators;
      files.config = speculators.config.at("transformer_layer_config");
      files.config["architectures"] = {"LlamaForCausalLM"};
      files.config["norm_before_residual"] = true;
      files.config["eagle_aux_hidden_state_layer_ids"] = {1, 2, 4};
      files.config[key] = 0;
      files.add("mask_hidden", shape, mask);
      const auto found = rounds_of(drafter, files);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(found[i].tree.tokens(), expected[i].tree.tokens()) << key;
        EXPECT_EQ(found[i].tree.log_ps(), expected[i].tree.log_ps()) << key;
      }
      files.config[key] = 600;
      const std::string message = test::message_of([&] { rounds_of(drafter, files); });
      EXPECT_NE(message.find(fmt::format("\"{}\": expected a token below 512, found 600", key)),
                std::string::npos)
          << message;
    }
  }
}

/// Three layers behind seven: the second of them lies at 2.5.
TEST(BlockLayouts, ThatNameNoLayersTapThoseOfTheOfficialCode) {
  HeadFiles files = head_of("dflash");
  const auto tensors = files.tensors;
  const std::string last = "layers.1.";
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(last)) files.tensors["layers.2." + name.substr(last.size())] = tensor;
  }
  files.config["num_hidden_layers"] = 3;
  files.config["num_target_layers"] = 7;
  files.config.erase("layer_types");
  files.config["dflash_config"].erase("target_layer_ids");
  const test::TemporaryFolder folder;
  files.write(folder);
  const Json head = describe_block_head(open_checkpoint(folder.path()));
  EXPECT_EQ(head["tap_layers"], Json::array({2, 3, 5}));
}

TEST(BlockLayouts, WithoutConfidenceCannotEndBranchesByIt) {
  HeadFiles files = head_of("dspark");
  files.tensors.erase("confidence_head.proj.weight");
  files.tensors.erase("confidence_head.proj.bias");
  EXPECT_FALSE(rounds_of("dspark", files).empty());
  std::string message = "accepted";
  try {
    rounds_of("dspark:stop=0.5", files);
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_NE(message.find("option stop: expected 0 for"), std::string::npos) << message;
}

}  // namespace
}  // namespace talon::blocks_layouts_test
