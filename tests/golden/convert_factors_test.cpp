#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "backend/reference/reference.h"
#include "convert/convert_model.h"
#include "io/test_files.h"
#include "maker_data.h"
#include "model_run.h"

// Factors that folders keep apart from matrices, as a GGUF holds them: multiplied in.
namespace talon::convert_factors_test {
namespace {

namespace fs = std::filesystem;

using Rows = std::vector<std::vector<float>>;

Rows run(const fs::path& model, std::span<const TokenId> ids) {
  constexpr int kContext = 320;
  ModelRun run(model, make_reference_backend(2), KvType::f32, kContext);
  Rows rows;
  run.run(ids, 0, [&](int, std::span<const float> logits) {
    rows.emplace_back(logits.begin(), logits.end());
  });
  return rows;
}

void expect_near(const Rows& found, const Rows& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t row = 0; row < expected.size(); ++row) {
    for (std::size_t id = 0; id < expected[row].size(); ++id) {
      ASSERT_NEAR(found[row][id], expected[row][id], 3e-4) << row << ", " << id;
    }
  }
}

/// The folder with these keys, and what it is converted to.
struct Converted {
  Converted(const fs::path& model, const Json& keys) : file(place.path() / "model.gguf") {
    fs::copy_file(model / "model.safetensors", folder.path() / "model.safetensors");
    Json config = Json::parse(std::ifstream(model / "config.json"));
    config.merge_patch(keys);
    std::ofstream(folder.path() / "config.json") << config;
    convert_model(open_checkpoint(folder.path()), file, {});
    checkpoint = open_checkpoint(file);
  }
  StorageType type(const std::string& tensor) const { return checkpoint.require(tensor).type; }

  test::TemporaryFolder folder, place;
  fs::path file;
  Checkpoint checkpoint;
};

TEST(ConvertFactors, ThatAreNoPowersOfTwoGiveFloat32) {
  const MakerRecording falcon = unpack_maker("falcon_h1");
  const Json keys = {{"key_multiplier", 0.3},
                     {"attention_in_multiplier", 1.7},
                     {"mlp_multipliers", {0.9, 2.0}},
                     {"ssm_multipliers", {0.3, 0.7, 1.3, 0.9, 1.1}}};
  const Converted converted(falcon.folder, keys);
  const std::map<std::string, StorageType> types = {
      {"blk.0.attn_q.weight", StorageType::f32},       {"blk.0.attn_k.weight", StorageType::f32},
      {"blk.1.ffn_gate.weight", StorageType::f32},     {"blk.1.ssm_in.weight", StorageType::f32},
      {"blk.0.attn_output.weight", StorageType::bf16}, {"blk.1.ffn_down.weight", StorageType::bf16},
      {"blk.1.ffn_up.weight", StorageType::bf16},      {"blk.1.ssm_out.weight", StorageType::bf16}};
  for (const auto& [tensor, type] : types) EXPECT_EQ(converted.type(tensor), type) << tensor;
  const auto& ids = falcon.sequences[1].ids;
  expect_near(run(converted.file, ids), run(converted.folder.path(), ids));
}

TEST(ConvertFactors, PartTablesThatWereOne) {
  const MakerRecording falcon = unpack_maker("falcon_h1");
  const Json keys = {
      {"tie_word_embeddings", true}, {"embedding_multiplier", 3.3}, {"lm_head_multiplier", 0.5}};
  const Converted converted(falcon.folder, keys);
  EXPECT_EQ(converted.type("token_embd.weight"), StorageType::f32);
  EXPECT_EQ(converted.type("output.weight"), StorageType::bf16);
  const auto& ids = falcon.sequences[1].ids;
  expect_near(run(converted.file, ids), run(converted.folder.path(), ids));
}

}  // namespace
}  // namespace talon::convert_factors_test
