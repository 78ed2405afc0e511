#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/reference/reference.h"
#include "io/formats/write_gguf.h"
#include "maker_data.h"
#include "model_run.h"

// GGUF files as the first converters and Ollama's wrote them hold the same models.
namespace talon::makers_older_test {
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

/// A file with the keys of another and some of its tensors.
class OlderFile {
 public:
  explicit OlderFile(const fs::path& newer) : newer_(open_checkpoint(newer)) {
    keys_ = newer_.metadata;
  }

  const Checkpoint& newer() const { return newer_; }
  Json& keys() { return keys_; }

  void keep(const StoredTensor& tensor) {
    tensors_.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
  }
  void add(const std::string& name, const StoredTensor& like, std::vector<std::int64_t> shape,
           std::span<const std::byte> bytes) {
    tensors_.push_back({name, like.type, std::move(shape), bytes});
  }
  fs::path write() const {
    const fs::path file = newer_.path.parent_path() / "older.gguf";
    GgufMetadata metadata;
    for (const auto& [key, value] : keys_.items()) metadata.emplace_back(key, value);
    write_gguf(file, metadata, tensors_);
    return file;
  }

 private:
  Checkpoint newer_;
  Json keys_;
  std::vector<TensorToWrite> tensors_;
};

/// A matrix of each expert under a name of its own: "ffn_gate_exps" becomes "ffn_gate.0", ...
void add_apart(const StoredTensor& stack, OlderFile& file) {
  const std::size_t count = static_cast<std::size_t>(stack.shape[0]);
  const std::size_t bytes = stack.bytes.size() / count;
  const std::string stem = stack.name.substr(0, stack.name.find("_exps"));
  for (std::size_t expert = 0; expert < count; ++expert) {
    file.add(fmt::format("{}.{}.weight", stem, expert), stack, {stack.shape[1], stack.shape[2]},
             stack.bytes.subspan(expert * bytes, bytes));
  }
}

TEST(OlderGguf, OfMixtralHoldsAMatrixForEachExpert) {
  const MakerRecording mixtral = unpack_maker("mixtral");
  OlderFile older(mixtral.gguf);
  for (const StoredTensor& tensor : older.newer().tensors) {
    const bool is_stack = tensor.name.find("_exps.") != std::string::npos;
    is_stack ? add_apart(tensor, older) : older.keep(tensor);
  }
  const auto& ids = mixtral.sequences[1].ids;
  EXPECT_TRUE(run(older.write(), ids) == run(mixtral.gguf, ids));
}

TEST(OlderGguf, OfQwen3NextHoldsOneMatrixOfInputsAndGates) {
  const MakerRecording recording = unpack_maker("qwen3_next");
  const Checkpoint folder = open_checkpoint(recording.folder);  // which has that matrix
  OlderFile older(recording.gguf);
  for (const StoredTensor& tensor : older.newer().tensors) {
    const std::size_t part = tensor.name.find(".attn_gate.");
    if (part != std::string::npos) {
      const std::string layer = tensor.name.substr(4, part - 4);
      const StoredTensor& whole =
          folder.require(fmt::format("model.layers.{}.linear_attn.in_proj_qkvz.weight", layer));
      older.add(fmt::format("blk.{}.ssm_in.weight", layer), whole, whole.shape, whole.bytes);
    } else if (tensor.name.find(".attn_qkv.") == std::string::npos) {
      older.keep(tensor);
    }
  }
  const auto& ids = recording.sequences[1].ids;
  EXPECT_TRUE(run(older.write(), ids) == run(recording.gguf, ids));
}

/// llama.cpp's quantiser leaves axes of one out behind all others.
TEST(QuantisedGguf, OfGranite4HasAVectorForTheNormOfTheOnlyKeyHead) {
  const MakerRecording recording = unpack_maker("granite4_hybrid");
  OlderFile quantised(recording.gguf);
  for (const StoredTensor& tensor : quantised.newer().tensors) {
    const bool is_norm = tensor.name.find(".ssm_norm.") != std::string::npos;
    quantised.add(tensor.name, tensor, is_norm ? std::vector{tensor.shape.back()} : tensor.shape,
                  tensor.bytes);
  }
  const auto& ids = recording.sequences[1].ids;
  EXPECT_TRUE(run(quantised.write(), ids) == run(recording.gguf, ids));
}

TEST(OllamasGguf, OfQwen35MoeListsHeadsByLayersAndGivesABiasAnotherName) {
  const MakerRecording recording = unpack_maker("qwen3_5_moe");
  OlderFile file(recording.gguf);
  Json& heads = file.keys().at("qwen35moe.attention.head_count_kv");
  Json listed = Json::array();
  for (unsigned layer = 0; layer < file.keys().at("qwen35moe.block_count"); ++layer) {
    const bool attends = file.newer().find(fmt::format("blk.{}.attn_k.weight", layer));
    listed.push_back(attends ? heads : Json(0U));
  }
  heads = listed;
  for (const StoredTensor& tensor : file.newer().tensors) {
    const std::size_t bias = tensor.name.find(".ssm_dt.bias");
    if (bias == std::string::npos) {
      file.keep(tensor);
    } else {
      file.add(tensor.name.substr(0, bias) + ".ssm_dt", tensor, tensor.shape, tensor.bytes);
    }
  }
  const auto& ids = recording.sequences[1].ids;
  EXPECT_TRUE(run(file.write(), ids) == run(recording.gguf, ids));
}

class OlderLatents : public testing::TestWithParam<std::string> {
 protected:
  /// The keys speak of the heads that the latents make, not of latents.
  static void rename(OlderFile& older) {
    Json& keys = older.keys();
    for (const char* name : {"key_length", "value_length"}) {
      const std::string key = fmt::format("deepseek2.attention.{}", name);
      keys[key] = keys.at(key + "_mla");
      keys.erase(key + "_mla");
    }
    keys["deepseek2.attention.head_count_kv"] = keys.at("deepseek2.attention.head_count");
  }
};

TEST_P(OlderLatents, AreMadeKeysAndValuesByOneMatrix) {
  const MakerRecording recording = unpack_maker(GetParam());
  const Checkpoint folder = open_checkpoint(recording.folder);  // which has that matrix
  OlderFile older(recording.gguf);
  rename(older);
  for (const StoredTensor& tensor : older.newer().tensors) {
    const std::size_t part = tensor.name.find(".attn_k_b.weight");
    if (part != std::string::npos) {
      const std::string layer = tensor.name.substr(4, part - 4);
      const StoredTensor& whole =
          folder.require(fmt::format("model.layers.{}.self_attn.kv_b_proj.weight", layer));
      older.add(fmt::format("blk.{}.attn_kv_b.weight", layer), whole, whole.shape, whole.bytes);
    } else if (tensor.name.find(".attn_v_b.") == std::string::npos) {
      older.keep(tensor);
    }
  }
  const auto& ids = recording.sequences[1].ids;
  EXPECT_TRUE(run(older.write(), ids) == run(recording.gguf, ids));
}

INSTANTIATE_TEST_SUITE_P(Families, OlderLatents,
                         testing::Values("deepseek_v2", "deepseek_v2_lite", "deepseek_v3"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace talon::makers_older_test
