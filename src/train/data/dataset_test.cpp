#include "train/data/dataset.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "backend/cpu/cpu.h"
#include "core/error.h"
#include "train/data/shard_writer.h"
#include "train/data/test_folder.h"

namespace talon::dataset_test {
namespace {

using test::contents;
using test::DataFolder;

const std::vector<FeatureTap> kTaps = {{1}, {FeatureTap::kFinalNorm}};

Record record(int number, int tokens = 6) {
  Record result;
  for (int i = 0; i < tokens; ++i) result.tokens.push_back((number + i) % 512);
  result.response_begin = 2;
  result.source = "source " + std::to_string(number);
  result.job = static_cast<std::uint64_t>(number);
  result.temperature = 0.25F * static_cast<float>(number % 5);
  const std::size_t values =
      static_cast<std::size_t>(tokens - 1) * test::data_target(kTaps).info.row_values();
  std::vector<std::uint16_t> halves;
  for (std::size_t i = 0; i < values; ++i) {
    halves.push_back(static_cast<std::uint16_t>(static_cast<std::size_t>(number) * 7 + i));
  }
  const auto bytes = std::as_bytes(std::span(halves));
  result.features.assign(bytes.begin(), bytes.end());
  return result;
}

ShardWriterOptions writer_options(const DataFolder& folder) {
  const Manifest manifest = add_run(folder.path(), test::data_target(kTaps), Json::object());
  return {folder.path(), 0, 1, manifest.shard_kind()};
}

void write(const DataFolder& folder, int first, int count, std::size_t file_bytes = 1 << 29) {
  ShardWriterOptions options = writer_options(folder);
  options.file_bytes = file_bytes;
  ShardWriter writer(options, [](const std::string&) {});
  for (int i = first; i < first + count; ++i) writer.append(record(i, 5 + i % 4));
}

void flip_byte(const std::filesystem::path& file, std::uintmax_t at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(stream.get() ^ 0x10);
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(byte);
}

/// The message of the Error that opening the folder and reading all of it throws; empty: none.
std::string problem_of(const DataFolder& folder) {
  try {
    contents(folder.path());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Dataset, ReturnsWhatWasWrittenAcrossFilesAndResumes) {
  DataFolder folder;
  write(folder, 0, 5, 4000);
  write(folder, 5, 6, 4000);
  EXPECT_GT(list_shards(folder.path()).size(), 2u);
  const Dataset dataset(folder.path());
  ASSERT_EQ(dataset.size(), 11u);
  EXPECT_EQ(dataset.info().taps, (std::vector{1, FeatureTap::kFinalNorm}));
  std::uint64_t tokens = 0;
  for (int i = 0; i < 11; ++i) {
    const Record expected = record(i, 5 + i % 4);
    const Conversation found = dataset.read(static_cast<std::size_t>(i));
    EXPECT_TRUE(std::ranges::equal(found.tokens, expected.tokens));
    EXPECT_TRUE(std::ranges::equal(found.features, expected.features));
    EXPECT_EQ(found.rows(), static_cast<int>(expected.tokens.size()) - 1);
    std::uint16_t value = 0;
    found.copy_row(1, 3, {&value, 1});
    EXPECT_EQ(value, i * 7 + static_cast<int>(dataset.info().row_values()) + 3);
    EXPECT_EQ(found.response_begin, 2);
    EXPECT_EQ(found.source, expected.source);
    EXPECT_EQ(found.temperature, expected.temperature);
    tokens += expected.tokens.size();
  }
  EXPECT_EQ(dataset.tokens(), tokens);
  EXPECT_EQ(dataset.response_tokens(), tokens - 22);
}

TEST(Dataset, SeveralFoldersOfOneTargetAreOneAndOthersAreRefused) {
  DataFolder one, two, other;
  write(one, 0, 2);
  write(two, 2, 3);
  EXPECT_EQ(Dataset({one.path(), two.path()}).size(), 5u);
  Manifest manifest = test::data_target(kTaps);
  manifest.info.model_sha256 = "another";
  add_run(other.path(), manifest, Json::object());
  EXPECT_THROW(Dataset({one.path(), other.path()}), Error);
  EXPECT_THROW(add_run(one.path(), manifest, Json::object()), Error);
  std::filesystem::copy(one.only_shard(), other.path() / "shard-000-of-001-00000.talondata");
  EXPECT_NE(problem_of(other).find("another target"), std::string::npos);
}

TEST(Dataset, FoldersMayDifferInTheSettingsOfTheirTarget) {
  DataFolder one, rounded;
  write(one, 0, 2);
  Manifest manifest = test::data_target(kTaps);
  manifest.target_settings = {{"activations", 8}};
  add_run(rounded.path(), manifest, Json::object());
  EXPECT_EQ(Dataset({one.path(), rounded.path()}).size(), 2u);
}

/// Older folders have none.
TEST(Dataset, KeepsTheFingerprintOfItsTarget) {
  DataFolder one, older;
  Manifest manifest = test::data_target(kTaps);
  manifest.info.fingerprint = "0123456789abcdef";
  add_run(one.path(), manifest, Json::object());
  write(one, 0, 2);
  EXPECT_EQ(Dataset(one.path()).info().fingerprint, "0123456789abcdef");
  write(older, 2, 3);
  add_run(older.path(), manifest, {{"kind", "another"}});
  EXPECT_EQ(Dataset(older.path()).info().fingerprint, "");
  EXPECT_EQ(Dataset({one.path(), older.path()}).size(), 5u);
}

TEST(Dataset, AFolderKeepsOneTypeOfFeatures) {
  DataFolder folder, other;
  write(folder, 0, 2);
  Manifest manifest = test::data_target(kTaps);
  manifest.info.features = FeatureType::q8;
  try {
    add_run(folder.path(), manifest, Json::object());
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_NE(
        std::string(error.what()).find(R"(its target's features is "f16", this one's is "q8")"),
        std::string::npos)
        << error.what();
  }
  add_run(other.path(), manifest, Json::object());
  EXPECT_EQ(read_manifest(other.path())->info.features, FeatureType::q8);
  EXPECT_NE(read_manifest(other.path())->shard_kind(), read_manifest(folder.path())->shard_kind());
  std::filesystem::copy(folder.only_shard(), other.path() / "shard-000-of-001-00000.talondata");
  EXPECT_NE(problem_of(other).find("another target"), std::string::npos);
  std::ifstream file(other.path() / "manifest.json");
  std::string text(std::istreambuf_iterator<char>(file), {});
  text.replace(text.find("q8"), 2, "q9");
  std::ofstream(other.path() / "manifest.json") << text;
  EXPECT_NE(problem_of(other).find(R"("features": expected f16 or q8, found "q9")"),
            std::string::npos);
}

/// A folder as the first versions wrote it, with `activations` as its JSON text.
void write_older_folder(const DataFolder& folder, const std::string& activations) {
  std::ofstream(folder.path() / "manifest.json")
      << R"({"counts": {}, "format": "talon training data", "runs": [{"kind": "prompts"}], "target": {)"
      << R"("hidden": 64, "model": "stories260k", "settings": {"activations": )" << activations
      << R"(, "cache": "f16", "weights": "auto"}, "sha256": "sum", "taps": [1, -1], )"
      << R"("vocabulary": 512}, "version": 1})";
}

Manifest computed_with(Activations activations) {
  Manifest manifest = test::data_target(kTaps);
  manifest.target_settings = {
      {"activations", activations_json(activations)}, {"cache", "f16"}, {"weights", "auto"}};
  return manifest;
}

TEST(Dataset, FoldersOfEarlierVersionsAreAddedTo) {
  const std::pair<const char*, Activations> kinds[] = {
      {"8", Activations::bits8}, {"16", Activations::bits16}, {"\"mixed\"", Activations::mixed}};
  for (const auto& [text, activations] : kinds) {
    DataFolder folder;
    write_older_folder(folder, text);
    const Manifest older = read_manifest(folder.path()).value();
    const Manifest now = computed_with(activations);
    const Manifest added = add_run(folder.path(), now, {{"kind", "responses"}});
    EXPECT_EQ(added.runs.size(), 2u) << text;
    // Shards carry this sum: that of old ones must stay what new ones get.
    EXPECT_EQ(older.shard_kind(), now.shard_kind()) << text;
  }
}

TEST(Dataset, OtherActivationsAreNotAddedToAFolderAndAreNamed) {
  DataFolder folder;
  write_older_folder(folder, "8");
  try {
    add_run(folder.path(), computed_with(Activations::mixed), Json::object());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find(R"("activations":8)"), std::string::npos) << message;
    EXPECT_NE(message.find(R"("activations":"mixed")"), std::string::npos) << message;
  }
}

TEST(Dataset, ShufflesByTheSeedAlone) {
  DataFolder folder;
  write(folder, 0, 20);
  const Dataset dataset(folder.path());
  const auto order = dataset.shuffled(3);
  EXPECT_EQ(order, dataset.shuffled(3));
  EXPECT_NE(order, dataset.shuffled(4));
  EXPECT_EQ(std::set(order.begin(), order.end()).size(), 20u);
}

TEST(Dataset, EveryFlippedByteIsNamedWithShardAndPlace) {
  DataFolder folder;
  write(folder, 0, 3);
  const auto shard = folder.only_shard();
  const auto bytes = std::filesystem::file_size(shard);
  for (std::uintmax_t at = 0; at < bytes; at += 7) {
    flip_byte(shard, at);
    const std::string problem = problem_of(folder);
    EXPECT_NE(problem.find(shard.filename().string()), std::string::npos)
        << "byte " << at << ": " << problem;
    flip_byte(shard, at);
  }
  EXPECT_EQ(problem_of(folder), "");
}

TEST(Dataset, ADamagedShardIsNotWrittenTo) {
  DataFolder folder;
  write(folder, 0, 3);
  flip_byte(folder.only_shard(), 64);
  EXPECT_THROW(write(folder, 3, 1), Error);
}

TEST(Dataset, LeavesOutARecordCutOff) {
  DataFolder folder;
  write(folder, 0, 3);
  const auto shard = folder.only_shard();
  const auto bytes = std::filesystem::file_size(shard);
  for (const std::uintmax_t cut : {1u, 64u, 500u}) {
    std::filesystem::resize_file(shard, bytes - cut);
    const Dataset dataset(folder.path());
    EXPECT_EQ(dataset.size(), 2u);
  }
  std::filesystem::resize_file(shard, bytes);  // zeros at the end, as after a power failure
  EXPECT_NE(problem_of(folder), "");           // ... in a payload: the header was whole
}

TEST(Dataset, ZerosAtTheEndAreACutOffRecord) {
  DataFolder folder;
  write(folder, 0, 3);
  std::filesystem::resize_file(folder.only_shard(),
                               std::filesystem::file_size(folder.only_shard()) + 4096);
  EXPECT_EQ(Dataset(folder.path()).size(), 3u);
  write(folder, 3, 1);
  EXPECT_EQ(Dataset(folder.path()).size(), 4u);
}

TEST(Dataset, AFullDiskLosesNothingAndIsGoneOnWith) {
  DataFolder folder;
  write(folder, 0, 2);
  const auto bytes = std::filesystem::file_size(folder.only_shard());
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{bytes + 300, before.rlim_max};  // room for a part of a record
  std::string problem;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  try {
    ShardWriter writer({folder.path(), 0, 1, test::data_target(kTaps).shard_kind()}, {});
    writer.append(record(2));
  } catch (const Error& error) {
    problem = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_NE(problem.find("File too large"), std::string::npos) << problem;
  EXPECT_NE(problem.find(".talondata"), std::string::npos) << problem;
  EXPECT_EQ(std::filesystem::file_size(folder.only_shard()), bytes);
  write(folder, 2, 1);
  EXPECT_EQ(Dataset(folder.path()).size(), 3u);
}

TEST(Dataset, TwoWritersOfOneShardAreRefused) {
  DataFolder folder;
  const ShardWriter writer(writer_options(folder), {});
  EXPECT_THROW(ShardWriter(writer_options(folder), {}), Error);
}

TEST(Dataset, NamesAFolderWithoutManifestAndABrokenOne) {
  DataFolder folder;
  EXPECT_NE(problem_of(folder).find("manifest.json"), std::string::npos);
  write(folder, 0, 1);
  const auto file = folder.path() / "manifest.json";
  std::ofstream(file) << "{\"format\": \"talon training data\", \"version\": 1, \"target\": 3}";
  EXPECT_NE(problem_of(folder).find("target: expected an object"), std::string::npos);
  std::ofstream(file) << "{";
  EXPECT_NE(problem_of(folder).find("manifest.json"), std::string::npos);
}

TEST(PromptFile, SplitsAtLineFeedsOnlyAndNamesTheLine) {
  DataFolder folder;
  const auto file = folder.path() / "prompts.jsonl";
  std::ofstream(file) << "{\"prompt\":\"a\xE2\x80\xA8"
                         "b\",\"source\":\"s\",\"licence\":\"MIT\"}\r\n\n"
                      << "{\"prompt\":\"c\"}";
  const auto prompts = read_prompts(file);
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(prompts[0].text,
            "a\xE2\x80\xA8"
            "b");
  EXPECT_EQ(prompts[0].licence, "MIT");
  EXPECT_EQ(prompts[1].source, "unknown");

  for (const char* bad : {"{", "[1]", "{\"prompt\":3}", "{}"}) {
    std::ofstream(file) << "{\"prompt\":\"a\"}\n" << bad << "\n";
    try {
      read_prompts(file);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
    }
  }
}

TEST(PromptFile, ReadyResponsesAreChecked) {
  DataFolder folder;
  const auto file = folder.path() / "responses.jsonl";
  std::ofstream(file)
      << R"({"prompt_ids":[1,2],"response_ids":[3],"temperature":0.5,"source":"s"})";
  EXPECT_EQ(read_responses(file, 4).at(0).response, std::vector<TokenId>{3});
  EXPECT_THROW(read_responses(file, 3), Error);
  for (const char* bad : {R"({"prompt_ids":[],"response_ids":[3],"temperature":0})",
                          R"({"prompt_ids":[1],"response_ids":[-1],"temperature":0})",
                          R"({"prompt_ids":[1],"response_ids":[1.5],"temperature":0})",
                          R"({"prompt_ids":[1],"response_ids":[1],"temperature":-1})"}) {
    std::ofstream(file) << bad;
    EXPECT_THROW(read_responses(file, 4), Error) << bad;
  }
}

}  // namespace
}  // namespace talon::dataset_test
