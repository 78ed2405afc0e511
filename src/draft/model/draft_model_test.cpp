#include "draft/model/draft_model.h"

#include <gtest/gtest.h>

#include <fstream>

#include "backend/cpu/cpu.h"
#include "core/error.h"
#include "draft/registry.h"
#include "io/test_files.h"
#include "model/load/fingerprint.h"

namespace talon::draft_model_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = TALON_TEST_DATA "/golden/stories260k/target";

/// A folder with the model's files, whose configuration says more.
void write_model(const fs::path& folder, const Json& more) {
  fs::create_directories(folder);
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
    fs::copy(fs::path(kModel) / name, folder / name);
  Json config = open_checkpoint(kModel).metadata;
  config.update(more);
  std::ofstream(folder / "config.json") << config;
}

TEST(DraftModel, IsKeptAsItsFileHasItUnlessTheOptionSaysOtherwise) {
  const Checkpoint files = open_checkpoint(kModel);
  const auto backend = make_cpu_backend({.threads = 1});
  const Model target = load_model(files, *backend);
  const auto bytes_with = [&](const std::string& weights) {
    return make_drafter("draft:model=self" + weights, {.target = &target})->traits().pass_bytes;
  };
  EXPECT_EQ(bytes_with(""), target.weight_bytes);
  EXPECT_EQ(bytes_with(",weights=stored"), target.weight_bytes);
  EXPECT_LT(bytes_with(",weights=int8"), target.weight_bytes);
  EXPECT_LT(bytes_with(",weights=int4"), bytes_with(",weights=int8"));
}

/// What `talon train head --kind draft` makes has no tokenizer, and says whose tokens it reads.
TEST(DraftModel, WithoutATokenizerIsReadForTheTargetThatItNames) {
  const test::TemporaryFolder folder;
  const fs::path target_path = folder.path() / "target";
  write_model(target_path, Json::object());
  fs::copy(TALON_TEST_DATA "/text/unigram/tokenizer.json", target_path / "tokenizer.json");
  const Checkpoint files = open_checkpoint(target_path);
  const auto backend = make_cpu_backend({.threads = 1});
  const Model target = load_model(files, *backend);
  const std::string fingerprint = fingerprint_of(files, target.config);

  const auto named = [&](const char* name, const Json& origin) {
    write_model(folder.path() / name, {{"talon", origin}});
    return folder.path() / name;
  };
  const fs::path own = named("own", {{"target_fingerprint", fingerprint}});
  EXPECT_TRUE(load_draft_model(own, target, {}).vocabulary.same);
  for (const Json& origin : {Json{{"target_fingerprint", "0123456789abcdef"}},
                             Json{{"target_fingerprint", 7}}, Json::object(), Json("none")}) {
    const fs::path other = named(("other" + std::to_string(origin.dump().size())).c_str(), origin);
    try {
      load_draft_model(other, target, {});
      FAIL() << "was read: " << origin;
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find("expected a tokenizer beside it"),
                std::string_view::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace talon::draft_model_test
