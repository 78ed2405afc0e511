#include "runtime/heads/heads.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <future>
#include <vector>

#include "core/error.h"
#include "io/json.h"
#include "io/test_files.h"
#include "runtime/heads/auto_drafter.h"
#include "runtime/heads/head_kind.h"
#include "runtime/heads/pairing.h"

namespace talon::heads_test {
namespace {

class Heads : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }

  /// A copy of a head of stories15M, or of other files, whose configuration names `target`; its
  /// folder below root.
  std::filesystem::path put_head(const std::string& folder, const std::string& target,
                                 const std::filesystem::path& from = TALON_TEST_DATA
                                 "/../../models/stories15m-eagle2") {
    const std::filesystem::path to = root_ / folder;
    std::filesystem::create_directories(to);
    std::filesystem::create_symlink(from / "model.safetensors", to / "model.safetensors");
    std::ifstream stream(from / "config.json");
    Json configuration = Json::parse(stream);
    configuration["talon"]["target_fingerprint"] = target;
    std::ofstream(to / "config.json") << configuration.dump();
    return to;
  }

  const std::filesystem::path root_ = testing::TempDir() + "/talon_heads_test";
};

TEST(HeadKinds, GemmasAssistantIsToldByItsConfiguration) {
  const auto kind = [](CheckpointFormat format, const char* key, const char* name) {
    Checkpoint files{};
    files.format = format;
    files.metadata = {{key, name}};
    return kind_of_head(files);
  };
  constexpr auto kFolder = CheckpointFormat::hugging_face, kFile = CheckpointFormat::gguf;
  EXPECT_EQ(kind(kFolder, "model_type", "gemma4_assistant"), "mtp");
  EXPECT_EQ(kind(kFolder, "model_type", "gemma4_unified_assistant"), "mtp");
  EXPECT_EQ(kind(kFile, "general.architecture", "gemma4-assistant"), "mtp");
  EXPECT_EQ(kind(kFolder, "model_type", "gemma4"), "");
  EXPECT_EQ(kind(kFile, "general.architecture", "gemma4"), "");
}

TEST_F(Heads, AreThoseOfTheFirstPlaceThatHasThem) {
  put_head("first/other", "0000");
  const auto second = put_head("second/own", "1234");
  put_head("third/own", "1234");
  std::filesystem::create_directories(root_ / "first/empty");
  const HeadFinder heads = heads_in({root_ / "none", root_ / "first", root_ / "second"}, "1234");
  EXPECT_EQ(heads("eagle2"), second.string());
  EXPECT_EQ(heads("eagle3"), "");
  EXPECT_EQ(heads_in({root_ / "second"}, "")("eagle2"), "");
}

TEST_F(Heads, LieTwoFoldersDeepAtMost) {
  const auto near = put_head("owner/name", "1234");
  put_head("far/too/far", "4321");
  EXPECT_EQ(heads_in({root_}, "1234")("eagle2"), near.string());
  EXPECT_EQ(heads_in({root_}, "4321")("eagle2"), "");
}

TEST_F(Heads, BesideThemADraftModelIsFound) {
  put_head("a", "1234");
  const auto model = put_head("b", "1234", TALON_TEST_DATA "/golden/stories260k/target");
  std::vector<std::string> told;
  const HeadFinder heads =
      heads_in({root_}, "1234", [&](std::string_view why) { told.emplace_back(why); });
  EXPECT_EQ(heads("draft"), model.string());
  EXPECT_EQ(heads("eagle2"), (root_ / "a").string());
  EXPECT_EQ(resolve_drafter("auto", heads), "eagle2+suffix");
  EXPECT_TRUE(told.empty());
}

TEST_F(Heads, InTheFolderOfTheModelAreFoundFirst) {
  const auto shipped = put_head("shipped/a", "1234"), own = put_head("model/head", "1234");
  LoadedModel loaded;
  loaded.path = root_ / "model";
  loaded.fingerprint = "1234";
  EXPECT_EQ(heads_of(loaded, {root_ / "shipped"})("eagle2"), own.string());
  loaded.path = root_ / "model.gguf";
  EXPECT_EQ(heads_of(loaded, {root_ / "shipped"})("eagle2"), shipped.string());
}

TEST_F(Heads, OfStrangersArePairedByAFileBesideThem) {
  const auto head = put_head("owner/name", "0000");
  EXPECT_EQ(heads_in({root_}, "1234")("eagle2"), "");
  write_pairing(head, {}, "1234");
  EXPECT_EQ(heads_in({root_}, "1234")("eagle2"), head.string());
  EXPECT_EQ(heads_in({root_}, "0000")("eagle2"), "");
  EXPECT_FALSE(std::filesystem::exists(head / "talon.json.part"));
}

TEST_F(Heads, OfOneFolderArePairedWithSeveralTargets) {
  const auto folder = put_head("owner/heads", "0000");
  for (const char* name : {"a", "b", "c"}) {
    std::filesystem::create_symlink(folder / "model.safetensors", folder / name);
    write_pairing(folder, {name}, name == std::string("b") ? "4321" : "1234");
  }
  const Json pairs = Json::parse(std::ifstream(folder / "talon.json"))["pairs"];
  EXPECT_EQ(pairs, Json::parse(R"([{"target_fingerprint": "1234", "heads": ["a", "c"]},
                                   {"target_fingerprint": "4321", "heads": ["b"]}])"));
  write_pairing(folder, {}, "5678");
  write_pairing(folder, {}, "5678");
  EXPECT_EQ(heads_in({root_}, "5678")("eagle2"), folder.string());
  std::vector<std::string> told;  // files of tensors alone are no heads: each was looked at
  const HeadWarnings tell = [&](std::string_view why) { told.emplace_back(why); };
  EXPECT_EQ(heads_in({root_}, "1234", tell)("eagle2"), "");
  ASSERT_EQ(told.size(), 2u);
  EXPECT_NE(told[1].find("owner/heads/c"), std::string::npos) << told[1];
}

TEST_F(Heads, ArePairedByManyAtOnceWhoLoseNoneOfThem) {
  const std::filesystem::path folder = root_ / "owner/name";
  std::filesystem::create_directories(folder / "talon.json.part");  // nobody's file aside
  constexpr std::size_t kWriters = 4, kHeads = 6;
  std::vector<std::future<void>> writers;
  for (std::size_t writer = 0; writer < kWriters; ++writer) {
    writers.push_back(std::async(std::launch::async, [&folder, writer] {
      for (std::size_t head = 0; head < kHeads; ++head)
        write_pairing(folder, {fmt::format("{}-{}.gguf", writer, head)}, "1234");
    }));
  }
  for (std::future<void>& writer : writers) EXPECT_NO_THROW(writer.get());
  const Json pairs = Json::parse(std::ifstream(folder / "talon.json"))["pairs"];
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0]["heads"].size(), kWriters * kHeads);
}

TEST_F(Heads, ArePairedAsOlderFilesSayAndStaySo) {
  const auto folder = put_head("owner/name", "0000");
  std::ofstream(folder / "talon.json") << R"({"target_fingerprint": "1234"})";
  EXPECT_EQ(heads_in({root_}, "1234")("eagle2"), folder.string());
  write_pairing(folder, {"b.gguf"}, "4321");
  EXPECT_EQ(heads_in({root_}, "1234")("eagle2"), folder.string());
  std::ofstream(folder / "talon.json") << "[nonsense";
  EXPECT_EQ(heads_in({root_}, "1234")("eagle2"), "");
  write_pairing(folder, {}, "1234");
  EXPECT_EQ(heads_in({root_}, "1234")("eagle2"), folder.string());
}

TEST_F(Heads, OfTheModelThatCannotBeReadArePassedOverAndToldAndThoseOfOthersAreNot) {
  const auto head = put_head("owner/name", "1234");
  std::filesystem::remove(head / "model.safetensors");
  std::ofstream(head / "model.safetensors") << "nothing";
  std::vector<std::string> told;
  const HeadWarnings tell = [&](std::string_view why) { told.emplace_back(why); };
  EXPECT_EQ(heads_in({root_}, "4321", tell)("eagle2"), "");
  EXPECT_TRUE(told.empty());
  const auto whole = put_head("owner/whole", "1234");
  EXPECT_EQ(heads_in({root_}, "1234", tell)("eagle2"), whole.string());
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("owner/name"), std::string::npos) << told[0];
  std::ofstream(head / "config.json") << "[nonsense";
  std::filesystem::remove_all(whole);
  EXPECT_EQ(heads_in({root_}, "1234", tell)("eagle2"), "");
  EXPECT_EQ(told.size(), 1u);
}

TEST_F(Heads, AreFoundBesideAnythingThatLiesThere) {
  const auto head = put_head("owner/own", "1234");
  std::filesystem::create_directories(root_ / "owner/broken");
  test::GgufParts parts = test::small_gguf();
  parts.add_text("split.count", "\xFF");
  std::ofstream(root_ / "owner/broken/head.gguf", std::ios::binary) << parts.build().bytes;
  std::filesystem::create_directories(root_ / "owner/deep");
  std::ofstream(root_ / "owner/deep/talon.json") << std::string(1 << 20, '[');
  EXPECT_EQ(heads_in({root_}, "1234")("eagle2"), head.string());
  EXPECT_FALSE(is_head_of_another(root_ / "owner/broken/head.gguf", "1234"));
}

TEST_F(Heads, AreNotLookedForInLargeTexts) {
  const auto head = put_head("owner/own", "0000");
  const std::string text = R"({"target_fingerprint": "1234"})";
  std::ofstream(head / "talon.json") << text;
  EXPECT_EQ(heads_in({root_}, "1234")("eagle2"), head.string());
  std::ofstream(head / "talon.json") << text << std::string(17 << 20, ' ');
  EXPECT_EQ(heads_in({root_}, "1234")("eagle2"), "");
}

TEST_F(Heads, ThatNameOnlyOtherModelsAreOfAnother) {
  const auto own = put_head("own", "1234");
  EXPECT_FALSE(is_head_of_another(own, "1234"));
  EXPECT_TRUE(is_head_of_another(own, "4321"));
  const std::string drafter = "suffix+eagle2:depth=3,head=" + own.string();
  EXPECT_EQ(heads_of_another(drafter, "4321"), std::vector{own.string()});
  EXPECT_TRUE(heads_of_another(drafter, "1234").empty());
  EXPECT_TRUE(heads_of_another("eagle2+suffix", "4321").empty());
  write_pairing(own, {}, "4321");
  for (const char* target : {"1234", "4321"}) EXPECT_FALSE(is_head_of_another(own, target));
  EXPECT_TRUE(is_head_of_another(own, "5678"));
  const auto stranger = put_head("stranger", "");
  EXPECT_FALSE(is_head_of_another(stranger, "1234")) << "it says nothing";
  write_pairing(stranger, {"a.gguf"}, "1234");
  EXPECT_TRUE(is_head_of_another(stranger / "a.gguf", "4321"));
  EXPECT_FALSE(is_head_of_another(stranger / "b.gguf", "4321"));
  write_pairing(stranger, {"Q8/a.gguf"}, "1234");
  EXPECT_TRUE(is_head_of_another(stranger / "Q8/a.gguf", "4321"));
  EXPECT_FALSE(is_head_of_another(stranger / "Q8/a.gguf", "1234"));
  EXPECT_FALSE(is_head_of_another(root_ / "missing", "1234"));
}

TEST_F(Heads, OfAFolderWithPipesAreNotWaitedFor) {
  std::filesystem::create_directories(root_ / "owner/name");
  for (const char* file : {"talon.json", "config.json", "head.gguf"}) {
    ASSERT_EQ(mkfifo((root_ / "owner/name" / file).c_str(), 0600), 0);
  }
  EXPECT_EQ(heads_in({root_}, "1234")("eagle2"), "");
}

}  // namespace
}  // namespace talon::heads_test
