#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "draft/head/gguf_head.h"
#include "draft/head/head_config.h"
#include "eagle_head_files.h"
#include "eagle_run.h"
#include "io/quant/quantize.h"

namespace talon::eagle_outputs_test {
namespace {

/// A head with the target's rows of its tokens, as Talon trains them.
HeadFiles head_with_rows_of_the_target() {
  HeadFiles files = HeadFiles::read("eagle3_head");
  const std::string& differences = files.tensors.at("d2t").bytes;
  const auto table = target_embedding();
  std::vector<float> rows;
  for (std::int64_t i = 0; i < 160; ++i) {
    std::int64_t token = 0;
    std::memcpy(&token, differences.data() + static_cast<std::size_t>(i) * 8, 8);
    const auto row = table.begin() + (token + i) * 64;
    rows.insert(rows.end(), row, row + 64);
  }
  files.add("lm_head.weight", {160, 64}, rows);
  return files;
}

TEST(GgufHeadOutput, ThatIsTheTargetsIsTakenFromThere) {
  const test::TemporaryFolder folder, other;
  head_with_rows_of_the_target().write(folder);
  const auto whole = other.path() / "whole.gguf", shared = other.path() / "shared.gguf";
  const Checkpoint head = open_checkpoint(folder.path()), target = golden_target();
  write_gguf_head(head, target, HeadStorage::f32, whole);
  write_gguf_head(head, target, HeadStorage::f32, shared, HeadOutput::of_target);
  const std::size_t rows = 160 * 64 * sizeof(float);
  EXPECT_LT(std::filesystem::file_size(shared) + rows * 9 / 10, std::filesystem::file_size(whole));
  expect_same_drafts(drafts_of("eagle3", whole.string()), drafts_of("eagle3", shared.string()));
  EXPECT_NE(describe_head(open_checkpoint(shared)).at("parts").dump().find("rows of the target"),
            std::string::npos);
}

/// A head of that kind which leaves its output rows to the target.
std::filesystem::path write_sharing_head(const test::TemporaryFolder& folder) {
  const test::TemporaryFolder whole;
  head_with_rows_of_the_target().write(whole);
  const auto file = folder.path() / "sharing.gguf";
  write_gguf_head(open_checkpoint(whole.path()), golden_target(), HeadStorage::f32, file,
                  HeadOutput::of_target);
  return file;
}

TEST(GgufHeadOutput, IsWrittenThoughTheSourceLeavesItToTheTarget) {
  const test::TemporaryFolder folder;
  const auto sharing = write_sharing_head(folder), whole = folder.path() / "whole.gguf",
             again = folder.path() / "again.gguf";
  const Checkpoint target = golden_target();
  ASSERT_EQ(open_checkpoint(sharing).find("output.weight"), nullptr);
  write_gguf_head(open_checkpoint(sharing), target, HeadStorage::f32, whole);
  const Checkpoint written = open_checkpoint(whole);
  const std::vector<float> rows = head_with_rows_of_the_target().values("lm_head.weight");
  EXPECT_TRUE(
      std::ranges::equal(written.require("output.weight").bytes, std::as_bytes(std::span(rows))));
  EXPECT_EQ(written.require("output.weight").shape, (std::vector<std::int64_t>{160, 64}));
  EXPECT_FALSE(written.metadata.contains("eagle3.shared_output"));
  expect_same_drafts(drafts_of("eagle3", whole.string()), drafts_of("eagle3", sharing.string()));

  write_gguf_head(open_checkpoint(sharing), target, HeadStorage::f32, again, HeadOutput::of_target);
  EXPECT_EQ(open_checkpoint(again).find("output.weight"), nullptr);
  EXPECT_EQ(open_checkpoint(again).metadata.at("eagle3.shared_output"), true);
}

TEST(GgufHeadOutput, HasTheBytesOfRowsThatTheTargetStoresAsAskedFor) {
  const test::TemporaryFolder folder;
  const auto sharing = write_sharing_head(folder), file = folder.path() / "head.gguf";
  const auto output = [&](const Checkpoint& target) {
    write_gguf_head(open_checkpoint(sharing), target, HeadStorage::q8_0, file);
    const Checkpoint written = open_checkpoint(file);
    const StoredTensor& rows = written.require("output.weight");
    EXPECT_EQ(rows.type, StorageType::q8_0);
    return std::vector<std::byte>(rows.bytes.begin(), rows.bytes.end());
  };
  const std::vector<float> values = head_with_rows_of_the_target().values("lm_head.weight");
  EXPECT_TRUE(output(golden_target()) == quantize_q8_0(values));

  Checkpoint target = golden_target();  // codes that quantising their values would change
  std::vector<std::byte> table(std::size_t{512} * 64 / 32 * 34, std::byte{3});
  const auto stored =
      std::ranges::find(target.tensors, "model.embed_tokens.weight", &StoredTensor::name);
  stored->type = StorageType::q8_0;
  stored->bytes = table;
  EXPECT_TRUE(output(target) ==
              std::vector<std::byte>(std::size_t{160} * 64 / 32 * 34, std::byte{3}));
}

TEST(GgufHeadOutput, ThatIsNotTheTargetsIsNotLeftOut) {
  const test::TemporaryFolder folder;
  const auto golden = std::filesystem::path(TALON_TEST_DATA) / "golden/stories260k";
  const auto file = folder.path() / "head.gguf";
  for (const auto& [head, message] :
       {std::pair{"eagle3_head", "expected the target's rows, found another for token "},
        std::pair{"eagle3_head_fullvocab", "expected a row for each token of a reduced vocab"}}) {
    const std::string found = test::message_of([&] {
      write_gguf_head(open_checkpoint(golden / head), golden_target(), HeadStorage::q8_0, file,
                      HeadOutput::of_target);
    });
    EXPECT_NE(found.find(message), std::string::npos) << found;
    EXPECT_FALSE(std::filesystem::exists(file));
  }
}

TEST(GgufHeadOutput, IsNotComparedWithATargetThatLacksItsRows) {
  const test::TemporaryFolder folder, other;
  head_with_rows_of_the_target().write(folder);
  const Checkpoint head = open_checkpoint(folder.path());
  const auto file = other.path() / "head.gguf";
  const auto refusal = [&](StorageType type, const std::vector<std::int64_t>& shape) {
    Checkpoint target = golden_target();
    const auto table =
        std::ranges::find(target.tensors, "model.embed_tokens.weight", &StoredTensor::name);
    std::size_t bytes = block_shape(type).bytes;
    for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
    table->type = type;
    table->shape = shape;
    table->bytes = table->bytes.first(bytes);
    return test::message_of(
        [&] { write_gguf_head(head, target, HeadStorage::f32, file, HeadOutput::of_target); });
  };
  const std::vector<std::int64_t> shapes[] = {{}, {0, 64}, {100, 64}, {512, 32}, {512}};
  for (const auto& shape : shapes) {
    const std::string found = refusal(StorageType::f32, shape);
    EXPECT_NE(found.find("\"model.embed_tokens.weight\": expected [512, 64], found ["),
              std::string::npos)
        << found;
  }
  const std::string integers = refusal(StorageType::i16, {512, 64});
  EXPECT_NE(integers.find("expected floating-point numbers"), std::string::npos) << integers;
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace talon::eagle_outputs_test
