#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <fstream>

#include "backend/cpu/cpu.h"
#include "backend/reference/reference.h"
#include "backend/weight_layout.h"
#include "core/error.h"
#include "io/formats/write_safetensors.h"
#include "io/json.h"
#include "maker_data.h"
#include "model/load/needed_memory.h"
#include "model/load/quantized/quantized_tensors.h"
#include "model/load/weigh_model.h"
#include "model_run.h"

namespace talon::quantized_folders_test {
namespace {

namespace fs = std::filesystem;

/// A tiny model whose matrices are stored as other programs quantise them, and what it computes
/// with the weights that these stand for (tests/data/golden/quantized).
struct Stored {
  std::string name;
  StorageType kept;  // the smallest type that holds its matrices as they are
};
void PrintTo(const Stored& stored, std::ostream* out) { *out << stored.name; }

const Stored kFolders[] = {{"gptq", StorageType::f32},  // groups in the order of activations
                           {"awq", StorageType::q8_0},
                           {"compressed_int4", StorageType::q4_0},
                           {"compressed_int4_asym", StorageType::q8_0},
                           {"compressed_fp8", StorageType::f32},
                           {"fp8_blocks", StorageType::f32},
                           {"bnb_nf4", StorageType::bf16},
                           {"bnb_fp4", StorageType::f32},
                           {"bnb_int8", StorageType::f32},
                           {"compressed_nvfp4", StorageType::f32},
                           {"modelopt_nvfp4", StorageType::f32},
                           {"mlx", StorageType::q4_1},
                           {"mlx_mxfp4", StorageType::mxfp4},
                           {"mlx_nvfp4", StorageType::nvfp4},
                           {"mlx_mxfp8", StorageType::bf16}};

class QuantizedFolder : public testing::TestWithParam<Stored> {
 protected:
  QuantizedRecording recording_ = unpack_quantized(GetParam().name);
};

TEST_P(QuantizedFolder, HoldsTheMatricesToTheBit) {
  const Checkpoint folder = open_checkpoint(recording_.folder);
  const auto quantization = read_quantization(ConfigKeys(folder.metadata, "config.json"));
  ASSERT_TRUE(quantization);
  const int rows = static_cast<int>(recording_.q_proj.size());
  const int cols = static_cast<int>(recording_.q_proj[0].size());
  const auto made =
      make_quantized(folder, *quantization, "model.layers.1.self_attn.q_proj.weight", rows, cols);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->type, GetParam().kept);
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  dequantize(made->type, made->bytes, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(
        values[i],
        recording_.q_proj[i / static_cast<std::size_t>(cols)][i % static_cast<std::size_t>(cols)])
        << i;
  }
}

TEST_P(QuantizedFolder, GivesTheLogitsOfTheWeightsThatItStandsFor) {
  ModelRun run(recording_.folder, make_reference_backend(2), KvType::f32, 128);
  const auto first = static_cast<int>(recording_.ids.size() - recording_.logits.size());
  double largest = 0;
  run.run(recording_.ids, first, [&](int row, std::span<const float> logits) {
    const auto& expected = recording_.logits[static_cast<std::size_t>(row - first)];
    for (std::size_t i = 0; i < logits.size(); ++i) {
      largest = std::max(largest, std::fabs(double{logits[i]} - expected[i]));
    }
  });
  EXPECT_LE(largest, 3e-4);
}

std::size_t bytes_of_matrices(const KeptTensors& kept, const Checkpoint& folder) {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : kept) {
    if (folder.require(name).shape.size() >= 2) bytes += tensor.bytes;
  }
  return bytes;
}

TEST_P(QuantizedFolder, NeedsTheMemoryThatItIsWeighedWith) {
  const Checkpoint folder = open_checkpoint(recording_.folder);
  const auto backend = [] { return make_cpu_backend({.threads = 1, .pin = false}); };
  for (const WeightLayout layout : kWeightLayouts) {
    LoadOptions options;
    options.layout = layout;
    const auto loading = backend();
    const Model model = load_model(folder, *loading, options);
    const std::size_t loaded = model.weight_bytes + model.embedding->bytes;
    EXPECT_EQ(bytes_of_matrices(weigh_model(folder, backend(), options), folder), loaded)
        << name_of(layout);
    const std::size_t least = least_weight_bytes(folder, model.config, layout);
    EXPECT_LE(least, loaded) << name_of(layout);
    EXPECT_GT(2 * least, loaded) << name_of(layout);
  }
}

INSTANTIATE_TEST_SUITE_P(Stored, QuantizedFolder, testing::ValuesIn(kFolders),
                         [](const auto& tested) { return tested.param.name; });

/// The folder with the matrices whose names end so in fp8, or with what these stand for.
fs::path some_in_fp8(const fs::path& from, std::string_view ending, bool dequantised) {
  const fs::path folder = from.parent_path() / fmt::format("fp8_{}", ending);
  fs::create_directories(folder);
  Checkpoint model = open_checkpoint(from);
  std::deque<std::vector<std::byte>> made;
  const std::vector<float> scale = {0.125F};
  std::vector<TensorToWrite> tensors;
  for (const StoredTensor& tensor : model.tensors) {
    if (!tensor.name.ends_with(ending)) {
      tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
      continue;
    }
    std::vector<float> values(static_cast<std::size_t>(tensor.shape[0] * tensor.shape[1]));
    auto& codes = made.emplace_back(values.size());
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i * 37 % 64);
    if (!dequantised) {
      tensors.push_back({tensor.name, StorageType::f8_e4m3, tensor.shape, codes});
      tensors.push_back(
          {tensor.name + "_scale_inv", StorageType::f32, {1, 1}, std::as_bytes(std::span(scale))});
      continue;
    }
    dequantize(StorageType::f8_e4m3, codes, values);
    for (float& value : values) value *= scale[0];
    const auto bytes = std::as_bytes(std::span(values));
    auto& kept = made.emplace_back(bytes.begin(), bytes.end());
    tensors.push_back({tensor.name, StorageType::f32, tensor.shape, kept});
  }
  write_safetensors(folder / "model.safetensors", tensors);
  if (!dequantised) {
    model.metadata["quantization_config"] = {{"quant_method", "fp8"},
                                             {"weight_block_size", {4096, 4096}}};
  }
  std::ofstream(folder / "config.json") << model.metadata;
  return folder;
}

/// The first: a family, the second: what names of its matrices end with.
class SomeInFp8 : public testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(SomeInFp8, AreThoseThatTheyStandFor) {
  const auto& [family, ending] = GetParam();
  const MakerRecording recording = unpack_maker(family);
  std::vector<float> logits[2];
  for (const bool dequantised : {false, true}) {
    const fs::path folder = some_in_fp8(recording.folder, ending, dequantised);
    ModelRun run(folder, make_reference_backend(2), KvType::f32, 128);
    run.run(recording.sequences[0].ids, 0, [&](int, std::span<const float> row) {
      logits[dequantised].insert(logits[dequantised].end(), row.begin(), row.end());
    });
  }
  EXPECT_FALSE(logits[0].empty());
  EXPECT_EQ(logits[0], logits[1]);
}

INSTANTIATE_TEST_SUITE_P(Folders, SomeInFp8,
                         testing::Values(std::pair("deepseek_v3", "kv_b_proj.weight"),
                                         std::pair("qwen2_moe", "shared_expert_gate.weight")));

/// Gemma 4's folder with a matrix and a scale, of 1, for each expert in place of stacks.
fs::path experts_one_by_one(const fs::path& from) {
  constexpr std::string_view kExperts = ".experts.";
  const fs::path folder = from.parent_path() / "one_by_one";
  fs::create_directories(folder);
  Checkpoint model = open_checkpoint(from);
  const std::vector<float> scale = {1};
  std::vector<TensorToWrite> tensors;
  const auto add_rows = [&](const std::string& name, const StoredTensor& stack, std::int64_t first,
                            std::int64_t rows) {
    const std::size_t row_bytes =
        stack.bytes.size() / static_cast<std::size_t>(stack.shape[0] * stack.shape[1]);
    const auto bytes = stack.bytes.subspan(static_cast<std::size_t>(first) * row_bytes,
                                           static_cast<std::size_t>(rows) * row_bytes);
    tensors.push_back({name + ".weight", stack.type, {rows, stack.shape[2]}, bytes});
    tensors.push_back(
        {name + ".weight_scale", StorageType::f32, {1}, std::as_bytes(std::span(scale))});
  };
  for (const StoredTensor& tensor : model.tensors) {
    const std::size_t place = tensor.name.find(kExperts);
    if (place == std::string::npos) {
      tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
      continue;
    }
    const std::string stem = tensor.name.substr(0, place + kExperts.size());
    const bool fused = tensor.name.ends_with("gate_up_proj");
    const std::int64_t rows = fused ? tensor.shape[1] / 2 : tensor.shape[1];
    for (std::int64_t expert = 0; expert < tensor.shape[0]; ++expert) {
      const std::int64_t first = expert * tensor.shape[1];
      const std::string own = fmt::format("{}{}.", stem, expert);
      add_rows(own + (fused ? "gate_proj" : "down_proj"), tensor, first, rows);
      if (fused) add_rows(own + "up_proj", tensor, first + rows, rows);
    }
  }
  write_safetensors(folder / "model.safetensors", tensors);
  model.metadata["quantization_config"] = {{"quant_method", "fp8"}};
  std::ofstream(folder / "config.json") << model.metadata;
  return folder;
}

TEST(QuantizedExperts, LieOneByOneWhereTheFamilyHasStacks) {
  const MakerRecording recording = unpack_maker("gemma4_moe");
  std::vector<float> logits[2];
  for (const bool apart : {false, true}) {
    ModelRun run(apart ? experts_one_by_one(recording.folder) : recording.folder,
                 make_reference_backend(2), KvType::f32, 128);
    run.run(recording.sequences[0].ids, 0, [&](int, std::span<const float> row) {
      logits[apart].insert(logits[apart].end(), row.begin(), row.end());
    });
  }
  EXPECT_FALSE(logits[0].empty());
  EXPECT_EQ(logits[0], logits[1]);
}

bool is_stack(const StoredTensor& tensor) {
  return tensor.shape.size() >= 3 && tensor.name.find("exp") != std::string::npos;
}

std::size_t bytes_of_experts(const Model& model) {
  std::size_t bytes = 0;
  for (const LayerWeights& layer : model.layers) {
    for (const auto& matrix : layer.experts.matrices) bytes += matrix->bytes;
  }
  return bytes;
}

TEST(StacksOfExperts, TakeTheMemoryOfTheirMatrices) {
  const MakerRecording qwen3 = unpack_maker("qwen3_moe");
  for (const fs::path& path : {unpack_maker("gpt_oss").folder, unpack_maker("gemma4_moe").folder,
                               unpack_maker("gpt_oss").gguf, qwen3.gguf}) {
    Checkpoint checkpoint = open_checkpoint(path);
    const auto backend = [] { return make_cpu_backend({.threads = 1, .pin = false}); };
    const auto loading = backend();
    const Model model = load_model(checkpoint, *loading);
    const std::size_t loaded = bytes_of_experts(model);
    std::size_t weighed = 0;
    for (const auto& [name, tensor] : weigh_model(checkpoint, backend())) {
      if (is_stack(checkpoint.require(name))) weighed += tensor.bytes;
    }
    EXPECT_EQ(weighed, loaded) << path;
    const auto least = [&] {
      return least_weight_bytes(checkpoint, model.config, WeightLayout::as_stored);
    };
    const std::size_t all = least();
    std::erase_if(checkpoint.tensors, is_stack);
    checkpoint.by_name.clear();
    EXPECT_LE(all - least(), loaded) << path;
    EXPECT_GT(4 * (all - least()), loaded) << path;
  }
}

/// Of the last rows of a recording, as a folder gives them.
std::vector<float> last_logits(const fs::path& folder, const QuantizedRecording& recording) {
  ModelRun run(folder, make_reference_backend(2), KvType::f32, 128);
  std::vector<float> logits;
  run.run(recording.ids, static_cast<int>(recording.ids.size()) - 2,
          [&](int, std::span<const float> row) {
            logits.insert(logits.end(), row.begin(), row.end());
          });
  return logits;
}

TEST(QuantizedByModelOpt, MayBeExplainedByAFileBesideTheConfiguration) {
  const QuantizedRecording recording = unpack_quantized("modelopt_nvfp4");
  const std::vector<float> expected = last_logits(recording.folder, recording);
  const fs::path folder = recording.folder.parent_path() / "explained_beside";
  fs::create_directories(folder);
  fs::copy_file(recording.folder / "model.safetensors", folder / "model.safetensors",
                fs::copy_options::overwrite_existing);
  Json config = open_checkpoint(recording.folder).metadata;
  config.erase("quantization_config");
  std::ofstream(folder / "config.json") << config;
  const Json quantization = {{"quant_algo", "NVFP4"}, {"kv_cache_quant_algo", "FP8"}};
  std::ofstream(folder / "hf_quant_config.json") << Json{{"quantization", quantization}};
  EXPECT_EQ(last_logits(folder, recording), expected);
}

std::string try_model(const fs::path& folder) {
  try {
    const Checkpoint checkpoint = open_checkpoint(folder);
    const auto backend = make_reference_backend(1);
    load_model(checkpoint, *backend);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(QuantizedFolderRefusals, NameWhatContradicts) {
  struct Refusal {
    std::string folder, key;
    Json value;
    std::string named;
  };
  const Refusal refusals[] = {
      {"gptq", "bits", 3, "qweight"},
      {"gptq", "bits", 5, "bits"},
      {"gptq", "bits", 0, "bits"},
      {"gptq", "bits", 8, "qweight"},
      {"gptq", "group_size", 0, "group_size"},
      {"gptq", "group_size", -2, "group_size"},
      {"gptq", "group_size", 48, "groups"},
      {"gptq", "group_size", 64, "groups"},
      {"gptq", "group_size", 1000000000, "group_size"},
      {"gptq", "checkpoint_format", "marlin", "checkpoint_format"},
      {"gptq", "quant_method", "hqq", "quant_method"},
      {"awq", "version", "gemv", "version"},
      {"awq", "group_size", 0, "group_size"},
      {"awq", "group_size", 64, "qzeros"},
      {"compressed_int4", "format", "marlin-24", "format"},
      {"compressed_int4", "config_groups", Json::object(), "config_groups"},
      {"fp8_blocks", "weight_block_size", {0, 32}, "weight_block_size"},
      {"fp8_blocks", "weight_block_size", {64, 32}, "weight_scale_inv"},
      {"fp8_blocks", "weight_block_size", nullptr, "weight_scale_inv"},
      {"bnb_nf4", "load_in_4bit", false, "load_in_4bit"},
      {"bnb_nf4", "bnb_4bit_quant_storage", "bfloat16", "bnb_4bit_quant_storage"},
      {"bnb_int8", "quant_method", "fp8", "found i8"},
      {"modelopt_nvfp4", "quant_algo", "NVFP4_AWQ", "quant_algo"},
      {"modelopt_nvfp4", "quant_algo", "FP8", "weight\": expected [96, 96]"},
      {"modelopt_nvfp4", "group_size", 32, "group_size"},
      {"compressed_nvfp4", "format", "mxfp4-pack-quantized", "format"},
      {"fp8_stacks", "weight_block_size", {16, 16}, "_scale_inv"},
      {"fp8_stacks", "weight_block_size", nullptr, "_scale_inv"},
      {"fp8_stacks", "quant_method", "bitsandbytes", "load_in_4bit"},
  };
  for (const auto& [name, key, value, named] : refusals) {
    const fs::path folder = unpack_quantized(name).folder;
    std::ifstream stream(folder / "config.json");
    Json config = Json::parse(stream);
    config["quantization_config"][key] = value;
    std::ofstream(folder / "config.json") << config;
    const std::string message = try_model(folder);
    EXPECT_NE(message.find(named), std::string::npos) << name << " " << key << ": " << message;
  }
}

TEST(QuantizedByMlx, NamesWhatContradicts) {
  struct Refusal {
    std::string key;
    Json value;
    std::string named;
  };
  const Refusal refusals[] = {
      {"bits", 7, "bits"},
      {"bits", 5, ", 10], found ["},
      {"mode", "mxfp6", "mode"},
      {"mode", "mxfp4", "group_size"},
      {"group_size", 48, "group_size"},
      {"group_size", 32, ".scales\": expected ["},
      {"group_size", 128, "inputs in groups of 128"},
      {"model.embed_tokens", false, "model.embed_tokens.weight"},
      {"model.layers.0.mlp.gate_proj", {{"bits", 1}}, "bits"},
      {"model.layers.0.mlp.gate_proj", {{"bits", 6}}, "layers.0.mlp.gate_proj.weight"},
  };
  for (const auto& [key, value, named] : refusals) {
    const fs::path folder = unpack_quantized("mlx").folder;
    Json config = open_checkpoint(folder).metadata;
    config["quantization"][key] = value;
    std::ofstream(folder / "config.json") << config;
    const std::string message = try_model(folder);
    EXPECT_NE(message.find(named), std::string::npos) << key << ": " << message;
  }
}

}  // namespace
}  // namespace talon::quantized_folders_test
