#include "model/load/prediction_layer.h"

#include <gtest/gtest.h>

#include "io/json.h"

namespace talon::prediction_layer_test {
namespace {

/// What a folder says whose four layers have experts but for the first.
ModelConfig read_folder(const Json& more) {
  Checkpoint folder;
  folder.format = CheckpointFormat::hugging_face;
  folder.path = "some/model";
  folder.metadata = {{"num_hidden_layers", 4},        {"hidden_size", 64},
                     {"intermediate_size", 96},       {"vocab_size", 512},
                     {"max_position_embeddings", 64}, {"num_attention_heads", 4},
                     {"num_key_value_heads", 2},      {"head_dim", 16},
                     {"moe_intermediate_size", 24},   {"num_experts", 8},
                     {"num_experts_per_tok", 2},      {"first_k_dense_replace", 1}};
  folder.metadata.update(more);
  return read_model_config(folder);
}

/// Behind the last layer, as DeepSeek's, with another name of its last norm.
TEST(PredictionLayers, OfLingAndHy3AreLikeTheirLayers) {
  const Json ling = {
      {"model_type", "bailing_moe"}, {"score_function", "sigmoid"}, {"use_qk_norm", true}};
  const Json hy3 = {{"model_type", "hy_v3"}, {"num_shared_experts", 1}};
  for (const Json& json : {ling, hy3}) {
    const ModelConfig config = read_folder(json);
    const std::string layer = "model.layers.4.";
    Checkpoint file;
    file.format = CheckpointFormat::hugging_face;
    file.tensors.push_back({layer + "eh_proj.weight", StorageType::f32, {64, 128}, {}});
    for (const char* norm : {"enorm.weight", "hnorm.weight", "final_layernorm.weight"}) {
      file.tensors.push_back({layer + norm, StorageType::f32, {64}, {}});
    }
    EXPECT_EQ(prediction_problem(file, config), "");
    const auto place = find_prediction_layer(file, config);
    ASSERT_TRUE(place.has_value());
    EXPECT_EQ(place->output_norm, layer + "final_layernorm.weight");
    EXPECT_EQ(place->fused_qkv, config.architecture == "bailing_moe");
    EXPECT_EQ(prediction_config(config, *place).plans.back().experts.count, 8);
  }
}

/// It has no experts, which a layer like the last one would.
TEST(PredictionLayers, ThatOfKExaoneIsNotRead) {
  Checkpoint file;
  file.format = CheckpointFormat::gguf;
  file.tensors.push_back({"blk.4.nextn.eh_proj.weight", StorageType::f32, {64, 128}, {}});
  const Json exaone = {{"model_type", "exaone_moe"}, {"num_shared_experts", 1}};
  ModelConfig config = read_folder(exaone);
  EXPECT_FALSE(find_prediction_layer(file, config).has_value());
  config.architecture = "exaone-moe";
  EXPECT_FALSE(find_prediction_layer(file, config).has_value());
  config.architecture = "exaone4";
  EXPECT_TRUE(find_prediction_layer(file, config).has_value());
}

}  // namespace
}  // namespace talon::prediction_layer_test
