#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "c/test_model.h"
#include "runtime/loaded_model.h"

namespace talon::head_warnings_test {
namespace {

namespace fs = std::filesystem;

/// Heads that help little or not at all, of which the caller's log is told.
class CHeadWarnings : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(root_); }
  void TearDown() override { fs::remove_all(root_); }

  /// A folder with a head of the test model whose pairing names `target`.
  fs::path put_head(const std::string& target, bool is_whole) const {
    const fs::path from = TALON_TEST_DATA "/golden/stories260k/eagle3_head";
    const fs::path head = root_ / "head";
    fs::create_directories(head);
    fs::create_symlink(from / "config.json", head / "config.json");
    if (is_whole) {
      fs::create_symlink(from / "model.safetensors", head / "model.safetensors");
    } else {
      std::ofstream(head / "model.safetensors") << "nothing";
    }
    std::ofstream(head / "talon.json") << "{\"target_fingerprint\": \"" << target << "\"}";
    return head;
  }

  /// `options` of an engine or a speculator.
  template <typename Options>
  Options with_log(Options options) {
    options.log = [](void* user, talon_log_level level, const char* message) {
      if (level == TALON_LOG_WARNING) {
        static_cast<std::vector<std::string>*>(user)->emplace_back(message);
      }
    };
    options.log_user = &warnings_;
    return options;
  }

  const fs::path root_ = fs::path(testing::TempDir()) / "talon_head_warnings_test";
  const ModelHandle model_ = load_test_model();
  std::vector<std::string> warnings_;
};

TEST_F(CHeadWarnings, TellOfTheHeadOfAnotherModelThatAnEngineIsMadeWith) {
  const std::string head = put_head("0000", true).string();
  const std::string method = "suffix+eagle3:head=" + head + "@policy=fixed";
  const EngineHandle engine = make_engine(model_, method.c_str(), with_log(talon_engine_default()));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_TRUE(warnings_[0].starts_with("the draft head " + head + " was made for another model"))
      << warnings_[0];
}

TEST_F(CHeadWarnings, TellOnceOfOneThatRequestsName) {
  const std::string method = "eagle3:head=" + put_head("0000", true).string() + "@policy=fixed";
  const EngineHandle engine = make_engine(model_, "none", with_log(talon_engine_default()));
  EXPECT_TRUE(warnings_.empty());
  const auto prompt = tokens_of(model_, "Once");
  talon_request request = request_for(prompt, 4);
  request.method = method.c_str();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_OK) << talon_last_error();
  }
  EXPECT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(talon_engine_run(engine.get(), nullptr, nullptr, nullptr), TALON_OK);
}

TEST_F(CHeadWarnings, TellOfOneThatCannotBeReadAlsoWhereAMethodFailsForWantOfIt) {
  const std::string own = open_model({.model = test_model_path(), .threads = 1}).fingerprint;
  put_head(own, false);
  const std::string root = root_.string();
  const char* const folders[] = {root.c_str()};
  talon_engine_options with_folder = with_log(talon_engine_default());
  with_folder.head_folders = folders;
  with_folder.head_folder_count = 1;
  const EngineHandle engine = make_engine(model_, "auto@policy=fixed", with_folder);
  EXPECT_STREQ(talon_engine_drafter(engine.get()), "suffix");
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_TRUE(warnings_[0].starts_with("a draft head is passed over: ")) << warnings_[0];
  with_folder.method = "eagle3@policy=fixed";
  talon_engine* failed = nullptr;
  EXPECT_NE(talon_engine_new(model_.get(), &with_folder, &failed), TALON_OK);
  EXPECT_EQ(warnings_.size(), 2U);
}

TEST_F(CHeadWarnings, TellOfTheHeadOfAnotherModelThatASpeculatorIsMadeWith) {
  const std::string head = put_head("0000", true).string();
  const std::string method = "eagle3:head=" + head;
  talon_speculator_options options = with_log(talon_speculator_default());
  options.method = method.c_str();
  options.model = model_.get();
  talon_speculator* made = nullptr;
  ASSERT_EQ(talon_speculator_new(&options, &made), TALON_OK) << talon_last_error();
  const SpeculatorHandle speculator(made);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_TRUE(warnings_[0].starts_with("the draft head " + head + " was made for another model"))
      << warnings_[0];
}

TEST_F(CHeadWarnings, TellASpeculatorOfOneThatCannotBeReadAlsoWhereItIsNotMade) {
  const std::string own = open_model({.model = test_model_path(), .threads = 1}).fingerprint;
  put_head(own, false);
  const std::string root = root_.string();
  const char* const folders[] = {root.c_str()};
  talon_speculator_options options = with_log(talon_speculator_default());
  options.method = "auto";
  options.model = model_.get();
  options.head_folders = folders;
  options.head_folder_count = 1;
  talon_speculator* made = nullptr;
  ASSERT_EQ(talon_speculator_new(&options, &made), TALON_OK) << talon_last_error();
  const SpeculatorHandle speculator(made);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_TRUE(warnings_[0].starts_with("a draft head is passed over: ")) << warnings_[0];
  options.method = "eagle3";
  EXPECT_NE(talon_speculator_new(&options, &made), TALON_OK);
  EXPECT_EQ(warnings_.size(), 2U);
}

}  // namespace
}  // namespace talon::head_warnings_test
