#include "runtime/loaded_model.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "io/json.h"

namespace talon::loaded_model_test {
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

/// A folder of the small model's weights, and a tokenizer of 400 tokens and so many added ones that
/// the last has no row; that one is special or not.
std::filesystem::path folder_with_more_tokens(bool is_special) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "talon_more_tokens";
  fs::remove_all(folder);
  fs::copy(TALON_TEST_DATA "/golden/stories260k/target", folder, fs::copy_options::recursive);
  std::ifstream file(TALON_TEST_DATA "/text/unigram/tokenizer.json");
  Json tokenizer = Json::parse(file);
  for (int id = 400; id <= 512; ++id) {
    tokenizer["added_tokens"].push_back({{"id", id},
                                         {"content", fmt::format("<more {}>", id)},
                                         {"single_word", false},
                                         {"lstrip", false},
                                         {"rstrip", false},
                                         {"normalized", false},
                                         {"special", id < 512 || is_special}});
  }
  std::ofstream(folder / "tokenizer.json") << tokenizer.dump();
  return folder;
}

TEST(OpenModel, TakesATokenizerWithMoreSpecialTokensThanTheWeightsHaveRows) {
  const std::string special = folder_with_more_tokens(true).string();
  EXPECT_EQ(open_model({.model = special, .threads = 1}).require_tokenizer().vocabulary_size(),
            513);
  const std::string text = folder_with_more_tokens(false).string();
  EXPECT_THROW(open_model({.model = text, .threads = 1}), Error);
  std::filesystem::remove_all(text);
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

TEST(ModelSource, FindsByNameWhatShipsWithTheProgram) {
  namespace fs = std::filesystem;
  const fs::path place = fs::path(testing::TempDir()) / "talon_shipped";
  fs::remove_all(place);
  fs::create_directories(place / "drawer");
  const ModelSource source{.model = "drawer", .shipped = {"/no/such/folder", place}};
  EXPECT_THROW(resolve_model(source), Error);
  std::ofstream(place / "drawer" / "config.json") << "{}";
  EXPECT_EQ(resolve_model(source), place / "drawer");
  EXPECT_THROW(resolve_model({.model = "drawer"}), Error);
  EXPECT_THROW(resolve_model({.model = "sub/drawer", .shipped = {place}}), Error);
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

TEST(ModelSource, FindsARevisionInAFolderOfItsOwn) {
  namespace fs = std::filesystem;
  const fs::path models = fs::path(testing::TempDir()) / "talon_revisions";
  fs::remove_all(models);
  for (const char* name : {"a/b", "a/b@v1", "a/b@refs@pr@1"}) {
    fs::create_directories(models / name);
    std::ofstream(models / name / "m-Q4_0.gguf") << "GGUF";
  }
  const auto found = [&](const std::string& name) {
    return resolve_model({.model = name, .models_folder = models.string()});
  };
  EXPECT_EQ(found("a/b"), models / "a/b/m-Q4_0.gguf");
  EXPECT_EQ(found("a/b@v1"), models / "a/b@v1/m-Q4_0.gguf");
  EXPECT_EQ(found("a/b@v1:Q4_0"), models / "a/b@v1/m-Q4_0.gguf");
  EXPECT_EQ(found("a/b@v1/m-Q4_0.gguf"), models / "a/b@v1/m-Q4_0.gguf");
  EXPECT_EQ(found("a/b@refs/pr/1"), models / "a/b@refs@pr@1/m-Q4_0.gguf");
  EXPECT_THROW(found("a/b@v2"), Error);
}

TEST(ModelSource, KnowsAModelOfTheCatalogueByItsFile) {
  const std::string path = TALON_DOWNLOADS "/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
  EXPECT_EQ(catalogue_name_of(kSmallModel), "");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "smollm2 is not pulled";
  EXPECT_EQ(catalogue_name_of(path), "smollm2");
  EXPECT_EQ(resolve_model({.model = "smollm2", .models_folder = TALON_DOWNLOADS}), path);
}

}  // namespace
}  // namespace talon::loaded_model_test
