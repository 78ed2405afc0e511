#include "io/checkpoint.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <thread>

#include "io/test_files.h"

namespace talon::checkpoint_test {
namespace {

using namespace test;

std::string refusal(const std::filesystem::path& path) {
  return message_of([&] { open_checkpoint(path); });
}

TEST(OpenCheckpoint, TellsFormatsApartByContentNotByName) {
  const TemporaryFolder folder;
  EXPECT_EQ(open_checkpoint(folder.add("1", small_gguf().build().bytes)).format,
            CheckpointFormat::gguf);
  EXPECT_EQ(open_checkpoint(folder.add("2", small_safetensors().bytes)).format,
            CheckpointFormat::safetensors);
  EXPECT_EQ(open_checkpoint(folder.add("3", small_torch().bytes)).format,
            CheckpointFormat::torch_bin);
  EXPECT_EQ(open_checkpoint(folder.add("4", small_llama2c().bytes)).format,
            CheckpointFormat::llama2c);
}

TEST(OpenCheckpoint, AFolderWithAHeadAloneIsThatHead) {
  const TemporaryFolder folder;
  const auto file = folder.add("head.gguf", small_gguf().build().bytes);
  EXPECT_EQ(open_checkpoint(folder.path()).path, file);
  folder.add("config.json", "{}");
  EXPECT_NE(refusal(folder.path()).find("expected model.safetensors"), std::string::npos);
}

TEST(OpenCheckpoint, SaysWhatIsWrongWithOtherFiles) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal(folder.path() / "none"),
            "open \"" + (folder.path() / "none").string() + "\": No such file or directory");
  EXPECT_NE(refusal(folder.add("empty", "")).find("the file is empty"), std::string::npos);
  EXPECT_NE(refusal(folder.path()).find("expected a config.json in it, found none"),
            std::string::npos);
  EXPECT_NE(refusal(folder.add("text", "hello world")).find("one that begins with \"hello wo\""),
            std::string::npos);
  EXPECT_NE(refusal(folder.add("lfs", "version https://git-lfs.github.com/spec/v1"))
                .find("a Git LFS pointer"),
            std::string::npos);
  EXPECT_NE(refusal(folder.add("page", "<!DOCTYPE html>")).find("a web page"), std::string::npos);
  EXPECT_NE(refusal(folder.add("json", "{\"a\": 1}")).find("JSON text"), std::string::npos);
  EXPECT_NE(refusal(folder.add("old", "\x80\x02}q.")).find("before 1.6"), std::string::npos);
  EXPECT_NE(refusal(folder.add("short", "GG")).find("begins with \"GG\""), std::string::npos);
}

TEST(OpenCheckpoint, RefusesPipesAndDevicesWithoutWaiting) {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(refusal(pipe).find("found a device or pipe"), std::string::npos);
  EXPECT_NE(refusal("/dev/null").find("found a device or pipe"), std::string::npos);
}

TEST(OpenCheckpoint, SaysWhyAFileCannotBeRead) {
  const TemporaryFolder folder;
  const auto secret = folder.add("secret", "GGUF");
  std::filesystem::permissions(secret, std::filesystem::perms::none);
  constexpr uid_t kNobody = 65534;
  const uid_t user = ::geteuid();
  if (user == 0 && ::seteuid(kNobody) != 0) GTEST_SKIP() << "root, who may read everything";
  const std::string message = refusal(secret);
  ASSERT_TRUE(user != 0 || ::seteuid(user) == 0);
  EXPECT_EQ(message, "open \"" + secret.string() + "\": Permission denied");
}

TEST(Checkpoint, NamesFileAndTensorWhenOneIsMissing) {
  const TemporaryFolder folder;
  const auto path = folder.add("m.safetensors", small_safetensors().bytes);
  const Checkpoint checkpoint = open_checkpoint(path);
  EXPECT_EQ(checkpoint.find("fc.weight"), nullptr);
  EXPECT_EQ(message_of([&] { checkpoint.require("fc.weight"); }),
            "load \"" + path.string() + "\": expected the tensor \"fc.weight\", found 3 others");
}

/// A look at one tensor after the other makes half a minute of these questions.
TEST(Checkpoint, IsAskedForOneOfManyTensorsInNoTime) {
  constexpr int kTensors = 40000, kRounds = 5;
  constexpr double kMostSeconds = 10;
  std::string header;
  for (int i = 0; i < kTensors; ++i) {
    header += fmt::format(R"({}"t{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})",
                          i == 0 ? "{" : ",", i, i, i + 1);
  }
  const TemporaryFolder folder;
  const Checkpoint checkpoint = open_checkpoint(folder.add(
      "m.safetensors", safetensors_file(header + "}", std::string(kTensors, 'x')).bytes));
  const std::clock_t begin = std::clock();
  int found = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kTensors; ++i) found += checkpoint.find(fmt::format("{}t", i)) ? 1 : 0;
  }
  EXPECT_EQ(found, 0);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, kMostSeconds);
  for (int i = 0; i < kTensors; i += 7) {
    const StoredTensor* tensor = checkpoint.find(fmt::format("t{}", i));
    ASSERT_TRUE(tensor);
    EXPECT_EQ(tensor->name, fmt::format("t{}", i));
  }
}

TEST(HuggingFace, ReadsTheGoldenFolder) {
  const Checkpoint checkpoint = open_checkpoint(TALON_TEST_DATA "/golden/stories260k/target");
  EXPECT_EQ(checkpoint.format, CheckpointFormat::hugging_face);
  EXPECT_EQ(checkpoint.metadata["hidden_size"], 64);
  EXPECT_EQ(checkpoint.require("model.embed_tokens.weight").shape,
            (std::vector<std::int64_t>{512, 64}));
}

constexpr std::string_view kShardA = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
constexpr std::string_view kShardB = R"({"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";

TEST(HuggingFace, ReadsInfiniteNumbersAsPythonWritesThem) {
  const TemporaryFolder folder;
  folder.add("model.safetensors", safetensors_file(kShardA, "1111").bytes);
  folder.add("config.json", R"({"limits":[0.0, Infinity],"text":"an \"Infinity\", or \\","x":1})");
  const Json read = open_checkpoint(folder.path()).metadata;
  EXPECT_EQ(read["limits"][1], Json({{"__float__", "Infinity"}}));
  EXPECT_EQ(read["text"], "an \"Infinity\", or \\");
  EXPECT_EQ(read["x"], 1);
  folder.add("config.json", R"({"least":-Infinity})");
  EXPECT_NE(refusal(folder.path()).find("config.json"), std::string::npos);
}

TEST(HuggingFace, JoinsTheShardsOfAnIndex) {
  const TemporaryFolder folder;
  folder.add("config.json", R"({"model_type":"llama"})");
  folder.add("model.safetensors.index.json", R"({"weight_map":{"a":"1.st","b":"2.st"}})");
  folder.add("1.st", safetensors_file(kShardA, "1111").bytes);
  folder.add("2.st", safetensors_file(kShardB, "2222").bytes);
  const Checkpoint checkpoint = open_checkpoint(folder.path());
  EXPECT_EQ(checkpoint.tensors.size(), 2u);
  EXPECT_EQ(static_cast<char>(checkpoint.require("b").bytes[3]), '2');
  EXPECT_EQ(checkpoint.metadata["model_type"], "llama");
}

TEST(HuggingFace, TakesWhatAFileOfModelOptSaysWhereTheConfigurationSaysNothing) {
  const TemporaryFolder folder;
  folder.add("config.json", R"({"model_type":"llama"})");
  folder.add("model.safetensors", safetensors_file(kShardA, "1111").bytes);
  EXPECT_FALSE(open_checkpoint(folder.path()).metadata.contains("hf_quant_config"));
  folder.add("hf_quant_config.json", R"({"quantization":{"quant_algo":"NVFP4"}})");
  EXPECT_EQ(open_checkpoint(folder.path()).metadata["hf_quant_config"]["quantization"],
            Json({{"quant_algo", "NVFP4"}}));
  folder.add("hf_quant_config.json", "[]");
  EXPECT_NE(refusal(folder.path()).find("hf_quant_config.json\": expected an object"),
            std::string::npos);
  folder.add("config.json", R"({"quantization_config":{"quant_method":"fp8"}})");
  EXPECT_FALSE(open_checkpoint(folder.path()).metadata.contains("hf_quant_config"));
}

TEST(HuggingFace, ReadsTorchFilesWholeAndInShards) {
  const TemporaryFolder whole;
  whole.add("config.json", "{}");
  whole.add("pytorch_model.bin", small_torch().bytes);
  EXPECT_EQ(open_checkpoint(whole.path()).tensors.size(), 3u);
  const TemporaryFolder shards;
  shards.add("config.json", "{}");
  shards.add("pytorch_model.bin.index.json",
             R"({"weight_map":{"a":"1.bin","b":"1.bin","c":"1.bin"}})");
  shards.add("1.bin", small_torch().bytes);
  const Checkpoint checkpoint = open_checkpoint(shards.path());
  EXPECT_EQ(checkpoint.require("b").bytes.size(), 16u);
  EXPECT_EQ(checkpoint.owned.size(), 1u);
}

TEST(HuggingFace, RefusesIndexesThatLieOrLeaveTheFolder) {
  const auto with_index = [](std::string_view index) {
    const TemporaryFolder folder;
    folder.add("config.json", "{}");
    folder.add("model.safetensors.index.json", index);
    folder.add("1.st", safetensors_file(kShardA, "1111").bytes);
    folder.add("2.st", safetensors_file(kShardA, "2222").bytes);
    return refusal(folder.path());
  };
  EXPECT_NE(
      with_index(R"({"weight_map":{"z":"1.st"}})").find("tensor \"z\": expected it in \"1.st\""),
      std::string::npos);
  EXPECT_NE(with_index(R"({"weight_map":{"a":"../1.st"}})").find("found \"../1.st\""),
            std::string::npos);
  EXPECT_NE(with_index(R"({"weight_map":{"a":"/etc/passwd"}})").find("file in the same folder"),
            std::string::npos);
  EXPECT_NE(with_index(R"({"weight_map":{"a":7}})").find("file in the same folder"),
            std::string::npos);
  EXPECT_NE(with_index(R"({"weight_map":{"a":"3.st"}})").find("No such file"), std::string::npos);
  EXPECT_NE(with_index(R"({"weight_map":[]})").find("\"weight_map\""), std::string::npos);
  EXPECT_NE(with_index(R"({})").find("\"weight_map\""), std::string::npos);
}

TEST(HuggingFace, RefusesOneTensorInTwoShards) {
  const TemporaryFolder folder;
  folder.add("config.json", "{}");
  folder.add("model.safetensors.index.json", R"({"weight_map":{"a":"1.st","b":"2.st"}})");
  folder.add("1.st", safetensors_file(kShardA, "1111").bytes);
  folder.add("2.st", safetensors_file(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                      R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                                      "2222")
                         .bytes);
  EXPECT_NE(refusal(folder.path()).find("tensor \"a\": expected one of that name, found two"),
            std::string::npos);
}

TEST(HuggingFace, SaysWhichFileOfTheFolderIsWrong) {
  const TemporaryFolder folder;
  folder.add("config.json", "{");
  EXPECT_NE(refusal(folder.path()).find("config.json\": expected JSON text"), std::string::npos);
  folder.add("config.json", "[]");
  EXPECT_NE(refusal(folder.path()).find("config.json\": expected an object"), std::string::npos);
  folder.add("config.json", "{}");
  EXPECT_NE(refusal(folder.path()).find("expected model.safetensors or pytorch_model.bin"),
            std::string::npos);
  folder.add("model.safetensors", "");
  EXPECT_NE(refusal(folder.path()).find("model.safetensors\": the file is empty"),
            std::string::npos);
}

TEST(MappedFile, AFileThatBecomesShorterWhileItIsReadIsAnError) {
  TemporaryFolder folder;
  const auto path = folder.add("f", std::string(100000, 'x'));
  MappedFile file(path);
  EXPECT_EQ(std::ranges::count(file.bytes(), std::byte{'x'}), 100000);
  EXPECT_NO_THROW(file.check_whole());
  std::filesystem::resize_file(path, 5000);
  const MappedFile moved = std::move(file);
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back(
        [&] { EXPECT_GE(std::ranges::count(moved.bytes(), std::byte{'x'}), 5000); });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_NE(message_of([&] { moved.check_whole(); }).find("became shorter"), std::string::npos);
  // Another mapping of the file as it is now is whole.
  const MappedFile again(path);
  EXPECT_EQ(std::ranges::count(again.bytes(), std::byte{'x'}), 5000);
  EXPECT_NO_THROW(again.check_whole());
}

TEST(MappedFileDeathTest, AFaultElsewhereEndsTheProcessAsEver) {
  TemporaryFolder folder;
  const MappedFile watched(folder.add("f", "hello"));
  const auto path = folder.add("g", std::string(100000, 'x'));
  const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* address = ::mmap(nullptr, 100000, PROT_READ, MAP_PRIVATE, number, 0);
  ::close(number);
  ASSERT_NE(address, MAP_FAILED);
  std::filesystem::resize_file(path, 1);
  const volatile char* bytes = static_cast<const char*>(address);
  EXPECT_EXIT(static_cast<void>(bytes[99999]), testing::KilledBySignal(SIGBUS), "");
  ::munmap(address, 100000);
}

TEST(MappedFile, KeepsItsBytesWhenMoved) {
  const TemporaryFolder folder;
  MappedFile first(folder.add("f", "hello"));
  const auto* begin = first.bytes().data();
  MappedFile second = std::move(first);
  EXPECT_EQ(second.bytes().data(), begin);
  EXPECT_EQ(second.bytes().size(), 5u);
  EXPECT_EQ(first.bytes().size(), 0u);
  first = std::move(second);
  EXPECT_EQ(static_cast<char>(first.bytes()[4]), 'o');
}

}  // namespace
}  // namespace talon::checkpoint_test
