#include "cli/pull/chosen_files.h"

#include <gtest/gtest.h>

namespace talon::chosen_files_test {
namespace {

using Paths = std::vector<std::string>;

Paths chosen(const Paths& listed, const std::string& named = "") {
  HubListing listing;
  for (const std::string& path : listed) listing.files.push_back({path});
  Paths paths;
  for (const HubFile& file : chosen_files(listing, {"owner/name", named}))
    paths.push_back(file.path);
  return paths;
}

TEST(ChosenFiles, OfAFolderWithItsWeightsTwiceAreOfOneForm) {
  const Paths parts = {"config.json", "model-00001-of-00002.safetensors",
                       "model-00002-of-00002.safetensors", "model.safetensors.index.json"};
  Paths all = parts;
  all.insert(all.end(), {"consolidated.safetensors", "consolidated-00001-of-00002.safetensors",
                         "params.json", "consolidated.safetensors.index.json"});
  EXPECT_EQ(chosen(all), parts);
  EXPECT_EQ(chosen({"config.json", "model.safetensors", "consolidated.safetensors"}),
            (Paths{"config.json", "model.safetensors"}));
  EXPECT_EQ(chosen({"config.json", "consolidated.safetensors"}),
            (Paths{"config.json", "consolidated.safetensors"}));
}

TEST(ChosenFiles, OfAFolderHaveItsTemplateForTools) {
  const Paths all = {"additional_chat_templates/tool_use.jinja", "chat_template.jinja",
                     "config.json", "model.safetensors"};
  EXPECT_EQ(chosen(all), all);
}

TEST(ChosenFiles, OfAFolderHaveATokenizerOfEveryForm) {
  const Paths all = {"config.json", "model.safetensors", "tekken.json", "tiktoken.model"};
  EXPECT_EQ(chosen(all), all);
}

TEST(ChosenFiles, OfAModelAreItsFileAndTheHeadsAndLayersBesideIt) {
  const Paths all = {"m-Q4_K_M.gguf", "m-DSpark.gguf", "mtp-m-Q4_K_M.gguf"};
  EXPECT_EQ(chosen(all), all);
  EXPECT_EQ(chosen(all, "Q4_K_M"), Paths{"m-Q4_K_M.gguf"});
  EXPECT_EQ(chosen(all, "mtp-m-Q4_K_M.gguf"), Paths{"mtp-m-Q4_K_M.gguf"});
  EXPECT_EQ(chosen({"m-MTP-Q4_K_M.gguf", "README.md"}), Paths{"m-MTP-Q4_K_M.gguf"});
}

TEST(ChosenFiles, OfAFolderSayHowItsWeightsAreStored) {
  const Paths all = {"config.json", "hf_quant_config.json", "model.safetensors"};
  EXPECT_EQ(chosen(all), all);
}

TEST(ChosenFiles, AreThoseOfAQuantisation) {
  EXPECT_EQ(chosen({"m-Q4_K_M.gguf", "m-Q8_0.gguf"}, "Q8_0"), Paths{"m-Q8_0.gguf"});
}

}  // namespace
}  // namespace talon::chosen_files_test
