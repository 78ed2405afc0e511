#include "train/head/target/target_weights.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "io/codec/zstd.h"
#include "model/load/fingerprint.h"
#include "model/load/tensor_loader.h"
#include "train/data/test_folder.h"
#include "train/head/target/target_layer.h"
#include "train/head/test_training.h"

// What heads take over of targets of all families and formats.
namespace talon::target_weights_test {
namespace {

using test::data_model;
using test::DataFolder;
using test::kTarget;
using torch::Tensor;

/// A model of tests/data/golden, unpacked.
class Golden {
 public:
  explicit Golden(const std::filesystem::path& name) {
    const std::filesystem::path packed = std::filesystem::path(TALON_TEST_DATA) / "golden" / name;
    std::filesystem::copy_file(packed / "config.json", folder_.path() / "config.json");
    std::ofstream(folder_.path() / "model.safetensors", std::ios::binary)
        << read_zstd(packed / "model.safetensors.zst");
    checkpoint = open_checkpoint(folder_.path());
    config = read_model_config(checkpoint);
  }
  std::string last_layer() const { return fmt::format("model.layers.{}.", config.layers - 1); }

  Checkpoint checkpoint;
  ModelConfig config;

 private:
  DataFolder folder_;
};

/// A head of the target as it starts.
struct Start {
  Start(const Golden& target, HeadKind kind)
      : shape(shape_of(target.config, kind)),
        values(parameter_shapes(shape), torch::kFloat, torch::kFloat, torch::kCPU),
        random(set_initial_values(values, shape, target.checkpoint, target.config, kScales, 1)) {}
  static HeadShape shape_of(const ModelConfig& config, HeadKind kind) {
    HeadShape shape = head_shape(kind, config, kScales);
    shape.layers = 2;
    return shape;
  }
  Tensor operator[](const char* name) const { return values[name].value; }
  static inline const FeatureScales kScales{.taps = {1, 1, 1}, .last = 1};

  HeadShape shape;
  ParameterStore values;
  std::set<std::string> random;
};

Tensor floats(StorageType type, std::span<const std::byte> bytes, std::int64_t rows,
              std::int64_t cols) {
  const Tensor values = torch::empty({rows, cols});
  dequantize(type, bytes,
             std::span(values.data_ptr<float>(), static_cast<std::size_t>(rows * cols)));
  return values;
}

TEST(InitialValues, OfMatricesStoredInPartsAreThoseThatTheEngineLoads) {
  for (const char* name : {"fp8_blocks", "compressed_fp8", "awq", "gptq", "compressed_int4"}) {
    SCOPED_TRACE(name);
    const Golden target(std::filesystem::path("quantized") / name);
    const Start start(target, HeadKind::eagle3);
    EXPECT_TRUE(start.random.empty());
    const LoadOptions options;
    TensorLoader loader(target.checkpoint, *data_model().backend, options);
    const int width = target.config.heads * target.config.head_dim, hidden = target.config.hidden;
    const StoredMatrix o =
        loader.stored_matrix(target.last_layer() + "self_attn.o_proj.weight", hidden, width);
    EXPECT_TRUE(start["o"].equal(floats(o.type, o.bytes, hidden, width)));
    const int inner = target.config.intermediate;
    const StoredMatrix down =
        loader.stored_matrix(target.last_layer() + "mlp.down_proj.weight", hidden, inner);
    EXPECT_TRUE(start["down"].equal(floats(down.type, down.bytes, hidden, inner)));
  }
}

TEST(TargetTensors, AreMultipliedByTheFactorsBesideThem) {
  const std::vector<float> values = {1, -2}, factor = {0.5F};
  const auto values_bytes = std::as_bytes(std::span(values));
  Checkpoint file;
  file.format = CheckpointFormat::gguf;
  file.metadata = {{"general.architecture", "llama"}};
  file.tensors = {{"a.weight", StorageType::f32, {1, 2}, values_bytes},
                  {"a.scale", StorageType::f32, {1}, std::as_bytes(std::span(factor))}};
  const Tensor plain = floats(StorageType::f32, values_bytes, 1, 2);
  EXPECT_TRUE(TargetTensors(file).require("a.weight", {1, 2}).equal(plain * 0.5));
  file.metadata["general.architecture"] = "gemma4";  // where other tensors end so
  EXPECT_TRUE(TargetTensors(file).require("a.weight", {1, 2}).equal(plain));
}

/// Of Falcon-H1's GGUF files, in which it does not end in "weight".
TEST(TargetLayer, ItsSecondNormMayHaveANameOfItsOwn) {
  const std::vector<float> values = {2, 3};
  const auto bytes = std::as_bytes(std::span(values));
  Checkpoint file;
  file.format = CheckpointFormat::gguf;
  file.tensors.push_back({"blk.0.ffn_norm", StorageType::f32, {2}, bytes});
  ModelConfig config;
  config.architecture = "falcon-h1";
  config.hidden = 2;
  config.plans.resize(1);
  const TensorNames names = TensorNames::of(file.format, config);
  const TargetTensors tensors(file);
  const TargetLayer layer(tensors, names, config, 0);
  EXPECT_TRUE(layer.ffn_norm().equal(floats(StorageType::f32, bytes, 1, 2).reshape({-1})));
}

TEST(InitialValues, OfFusedGatesAreTheFiles) {
  const Golden target("makers/phi3");
  const Start start(target, HeadKind::eagle3);
  EXPECT_TRUE(start.random.empty());
  const StoredTensor& stored =
      target.checkpoint.require(target.last_layer() + "mlp.gate_up_proj.weight");
  EXPECT_TRUE(
      start["gate_up"].equal(floats(stored.type, stored.bytes, stored.shape[0], stored.shape[1])));
}

/// Falcon-H1's folders keep them apart. Its attention stands beside a state.
TEST(InitialValues, OfNetworksAreMultipliedByTheirFactors) {
  const Golden target("makers/falcon_h1");
  const Start start(target, HeadKind::eagle3);
  EXPECT_EQ(start.random, std::set<std::string>{"attention"});
  const auto stored = [&](const char* part) {
    const StoredTensor& tensor =
        target.checkpoint.require(target.last_layer() + "feed_forward." + part + "_proj.weight");
    return floats(tensor.type, tensor.bytes, tensor.shape[0], tensor.shape[1]);
  };
  EXPECT_TRUE(start["gate_up"].equal(at::cat({stored("gate") * 0.5, stored("up")})));
  EXPECT_TRUE(start["down"].equal(stored("down") * 2));
}

TEST(InitialValues, OfLayersOfAnotherFormAreRandom) {
  using Parts = std::set<std::string>;
  const Golden experts("makers/qwen3_moe"), gated("makers/qwen3_5");
  const Start of_experts(experts, HeadKind::eagle3), of_gated(gated, HeadKind::eagle3);
  EXPECT_EQ(of_experts.random, Parts{"MLP"});
  EXPECT_EQ(of_experts.shape.intermediate, 3 * 32) << "of the experts that a row goes to";
  EXPECT_EQ(of_gated.random, Parts{"attention"});
  // Inputs of size 1 give outputs of about that size, and what is added to the stream is small.
  const double usual = of_gated["kv"]
                           .narrow(1, gated.config.hidden, gated.config.hidden)
                           .square()
                           .sum(1)
                           .mean()
                           .sqrt()
                           .item<double>();
  const double added = of_gated["o"].square().sum(1).mean().sqrt().item<double>();
  EXPECT_NEAR(usual, 0.577, 0.05);
  EXPECT_NEAR(added, 0.3 * usual, 0.05);
}

/// Whatever a family's layers are like.
TEST(InitialValues, ThereAreForEveryFamily) {
  const std::filesystem::path makers = std::filesystem::path(TALON_TEST_DATA) / "golden/makers";
  for (const auto& family : std::filesystem::directory_iterator(makers)) {
    if (!family.is_directory()) continue;
    if (family.path().filename().string().ends_with("_assistant")) continue;  // no target
    SCOPED_TRACE(family.path().filename());
    const Golden target("makers" / family.path().filename());
    if (target.config.output_matrix_bias) continue;  // refused, see below
    for (const HeadKind kind :
         {HeadKind::eagle, HeadKind::eagle3, HeadKind::dflash, HeadKind::peagle}) {
      const Start start(target, kind);
      EXPECT_TRUE(start.values.values().isfinite().all().item<bool>());
      EXPECT_GT(start[kind == HeadKind::dflash ? "1.o" : "o"].abs().max().item<double>(), 0);
    }
    const TargetTables tables =
        read_target_tables(target.checkpoint, target.config, 8, torch::kFloat, torch::kCPU);
    EXPECT_EQ(tables.embedding_scale, double{target.config.embedding_scale});
  }
}

TEST(TargetTables, OfATargetWhoseOutputMatrixHasABiasAreRefused) {
  const Golden target("makers/phi2");
  try {
    read_target_tables(target.checkpoint, target.config, 8, torch::kFloat, torch::kCPU);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("without a bias"), std::string::npos) << error.what();
  }
}

TEST(TrainHead, DataOfAnotherModelOfTheSameSizesIsRefused) {
  const Checkpoint target = open_checkpoint(kTarget);
  const ModelConfig config = read_model_config(target);
  const auto refusal = [&](const std::string& fingerprint) -> std::string {
    DatasetInfo info = test::data_target({{FeatureTap::kFinalNorm}}).info;
    info.fingerprint = fingerprint;
    try {
      check_target(target, config, info, HeadKind::eagle);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(fingerprint_of(target, config)), "");
  EXPECT_EQ(refusal(""), "") << "older data has none";
  EXPECT_NE(refusal("0123456789abcdef").find("found that of stories260k, 0123456789abcdef"),
            std::string::npos)
      << refusal("0123456789abcdef");
}

}  // namespace
}  // namespace talon::target_weights_test
