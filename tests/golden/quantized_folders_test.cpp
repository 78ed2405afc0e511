#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "backend/reference/reference.h"
#include "core/error.h"
#include "io/json.h"
#include "maker_data.h"
#include "model/load/quantized_tensors.h"
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
                           {"fp8_blocks", StorageType::f32}};

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

INSTANTIATE_TEST_SUITE_P(Stored, QuantizedFolder, testing::ValuesIn(kFolders),
                         [](const auto& tested) { return tested.param.name; });

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
      {"gptq", "bits", 3, "bits"},
      {"gptq", "bits", 0, "bits"},
      {"gptq", "bits", 8, "qweight"},
      {"gptq", "group_size", 48, "groups of 48"},
      {"gptq", "group_size", 64, "groups"},
      {"gptq", "group_size", 1000000000, "group_size"},
      {"gptq", "checkpoint_format", "marlin", "checkpoint_format"},
      {"gptq", "quant_method", "hqq", "quant_method"},
      {"awq", "version", "gemv", "version"},
      {"awq", "group_size", 64, "qzeros"},
      {"compressed_int4", "format", "marlin-24", "format"},
      {"compressed_int4", "config_groups", Json::object(), "config_groups"},
      {"fp8_blocks", "weight_block_size", {0, 32}, "weight_block_size"},
      {"fp8_blocks", "weight_block_size", {64, 32}, "weight_scale_inv"},
      {"fp8_blocks", "weight_block_size", nullptr, "weight_block_size"},
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

}  // namespace
}  // namespace talon::quantized_folders_test
