#include "runtime/loaded_model.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"

namespace talon {
namespace {

constexpr const char* kSmallModel = TALON_TEST_DATA "/models/stories260K.bin";

TEST(OpenModel, ChoosesTheArithmeticOfTheAnswerByTheSizeOfTheModel) {
  ModelConfig config;
  config.hidden = 1024;
  EXPECT_EQ(activations_for({}, config), Activations::mixed);
  config.hidden = 1025;
  EXPECT_EQ(activations_for({}, config), Activations::bits8);
  EXPECT_EQ(activations_for({.activations = Activations::bits16}, config), Activations::bits16);
}

TEST(OpenModel, HoldsAllThatAnAnswerNeeds) {
  int calls = 0;
  LoadEvents events;
  events.tensors = [&](const std::filesystem::path& path, std::size_t done, std::size_t total) {
    EXPECT_EQ(path, kSmallModel);
    EXPECT_LE(done, total);
    ++calls;
  };
  const LoadedModel loaded = open_model({.model = kSmallModel, .threads = 1}, events);
  EXPECT_GT(calls, 0);
  EXPECT_EQ(loaded.activations, Activations::mixed);
  EXPECT_EQ(loaded.threads, 1);
  EXPECT_EQ(loaded.name, "");
  EXPECT_EQ(loaded.end_tokens, (std::vector<TokenId>{1, 2}));
  EXPECT_NO_THROW(loaded.require_tokenizer());
  EXPECT_EQ(loaded.model.config.vocabulary, 512);
}

TEST(OpenModel, SaysWhyThereIsNoTokenizer) {
  const LoadedModel loaded = open_model({.model = TALON_TEST_DATA "/golden/stories260k/target"});
  EXPECT_EQ(loaded.tokenizer_or_null(), nullptr);
  EXPECT_NE(loaded.tokenizer_problem, "");
  EXPECT_THROW(loaded.require_tokenizer(), Error);
}

TEST(OpenModel, RefusesAContextLongerThanTheModels) {
  EXPECT_THROW(open_model({.model = kSmallModel, .context = 513}), UsageError);
}

TEST(ModelSource, NeedsAFolderForNamesOfTheCatalogueOnly) {
  EXPECT_EQ(resolve_model({.model = kSmallModel}), kSmallModel);
  EXPECT_THROW(resolve_model({.model = "smollm2"}), UsageError);
  EXPECT_THROW(resolve_model({.model = "smollm2", .models_folder = "/no/such/folder"}), Error);
  EXPECT_THROW(resolve_model({.model = "/no/such/model"}), Error);
}

TEST(ModelSource, AFolderWithOneGgufIsThatModel) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "talon_one_gguf";
  fs::remove_all(folder);
  fs::create_directories(folder);
  EXPECT_THROW(resolve_model({.model = folder.string()}), Error);
  std::ofstream(folder / "one.gguf") << "GGUF";
  EXPECT_EQ(resolve_model({.model = folder.string()}), folder / "one.gguf");
  std::ofstream(folder / "two.gguf") << "GGUF";
  EXPECT_THROW(resolve_model({.model = folder.string()}), Error);
  std::ofstream(folder / "config.json") << "{}";
  EXPECT_EQ(resolve_model({.model = folder.string()}), folder);
}

TEST(ModelSource, KnowsAModelOfTheCatalogueByItsFile) {
  const std::string path = TALON_DOWNLOADS "/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
  EXPECT_EQ(catalogue_name_of(kSmallModel), "");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "smollm2 is not pulled";
  EXPECT_EQ(catalogue_name_of(path), "smollm2");
  EXPECT_EQ(resolve_model({.model = "smollm2", .models_folder = TALON_DOWNLOADS}), path);
}

}  // namespace
}  // namespace talon
