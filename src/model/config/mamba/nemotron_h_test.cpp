#include <gtest/gtest.h>

#include "io/test_files.h"
#include "model/cache/cache_shape.h"
#include "model/config/tensor_names.h"
#include "model/config/test_config.h"

// Nemotron-H: layers of one part each.
namespace talon::nemotron_h_test {
namespace {

using test::expect_refusal;
using test::read_folder;

Json folder() {
  return {{"model_type", "nemotron_h"},
          {"num_hidden_layers", 5},
          {"hidden_size", 64},
          {"intermediate_size", 172},
          {"max_position_embeddings", 4096},
          {"vocab_size", 512},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 4},
          {"head_dim", 16},
          {"hybrid_override_pattern", "M-M*-"},
          {"mamba_num_heads", 8},
          {"mamba_head_dim", 12},
          {"n_groups", 2},
          {"ssm_state_size", 24}};
}

/// Layers "M-M*-".
void expect_parts(const ModelConfig& config) {
  for (const std::size_t layer : {0U, 2U}) {
    const LayerPlan& plan = config.plans[layer];
    EXPECT_TRUE(plan.mixes() && !plan.attends && !plan.has_network());
    EXPECT_EQ(plan.recurrent.rule, StateRule::mamba2);
    EXPECT_EQ(plan.recurrent.layer, layer == 0 ? 0 : 1);
    EXPECT_EQ(plan.recurrent.value_heads, 8);
    EXPECT_EQ(plan.recurrent.value_dim, 12);
    EXPECT_EQ(plan.recurrent.key_dim, 24);
    EXPECT_TRUE(plan.recurrent.norm && plan.recurrent.filter_bias);
  }
  for (const std::size_t layer : {1U, 4U}) {
    const LayerPlan& plan = config.plans[layer];
    EXPECT_TRUE(plan.has_network() && !plan.mixes() && !plan.writes_cache);
    EXPECT_EQ(plan.intermediate, 172);
    EXPECT_EQ(plan.activation, InputTransform::relu_squared);
  }
  EXPECT_TRUE(config.plans[3].attends && config.plans[3].writes_cache);
  EXPECT_FALSE(config.plans[3].has_network());
  EXPECT_EQ(config.plans[3].cache_layer, 0);
  EXPECT_EQ(config.plans[3].rope, LayerPlan::Rope::none);
  EXPECT_EQ(config.plans[3].head_dim, 16);
  const KvShape shape = kv_shape(config, 1);
  EXPECT_EQ(shape.layers, 1);
  EXPECT_EQ(shape.states.layers, 2);
}

TEST(NemotronH, EveryLayerHasOnePart) {
  const ModelConfig config = read_folder(folder());
  expect_parts(config);
  EXPECT_EQ(config.norm_epsilon, 1e-5F);
  const TensorNames names = TensorNames::of(CheckpointFormat::hugging_face, config);
  EXPECT_EQ(names.embedding, "backbone.embeddings.weight");
  EXPECT_EQ(names.ffn_norm_of(1), "backbone.layers.1.norm.weight");
  EXPECT_EQ(names.attention_norm, names.ffn_norm);
}

TEST(NemotronH, LaterFoldersListTheLayersByNames) {
  Json json = folder();
  json.erase("hybrid_override_pattern");
  json.erase("num_hidden_layers");
  json["layers_block_type"] = {"mamba", "mlp", "linear_attention", "full_attention", "mlp"};
  expect_parts(read_folder(json));
  json["layers_block_type"][1] = "conv";
  expect_refusal(json, "layers_block_type");
  json["layers_block_type"] = {"mamba", "attention"};
  json["num_hidden_layers"] = 5;
  expect_refusal(json, "layers_block_type");
}

TEST(NemotronH, RefusesOtherPatterns) {
  Json json = folder();
  for (const char* pattern : {"M-M*e", "M-M*", ""}) {
    json["hybrid_override_pattern"] = pattern;
    expect_refusal(json, "hybrid_override_pattern");
  }
  json["hybrid_override_pattern"] = "M-M--";
  expect_refusal(json, "a layer with attention");
  json.erase("hybrid_override_pattern");
  expect_refusal(json, "hybrid_override_pattern");
}

TEST(NemotronH, ExpertsTakeThePlaceOfNetworks) {
  Json json = folder();
  json["hybrid_override_pattern"] = "MEM*-";
  json.update({{"n_routed_experts", 8},
               {"num_experts_per_tok", 2},
               {"moe_intermediate_size", 48},
               {"moe_shared_expert_intermediate_size", 80},
               {"routed_scaling_factor", 2.5}});
  const ModelConfig config = read_folder(json);
  const LayerPlan& plan = config.plans[1];
  EXPECT_TRUE(plan.has_network() && !plan.mixes());
  EXPECT_EQ(plan.intermediate, 0);
  EXPECT_EQ(plan.experts.count, 8);
  EXPECT_EQ(plan.experts.used, 2);
  EXPECT_EQ(plan.experts.width, 48);
  EXPECT_EQ(plan.experts.shared_width, 80);
  EXPECT_EQ(plan.experts.scale, 2.5F);
  EXPECT_TRUE(plan.experts.choice_bias && plan.experts.renormalize);
  EXPECT_EQ(plan.experts.score, RouteArgs::Score::sigmoid);
  EXPECT_EQ(plan.activation, InputTransform::relu_squared);
  EXPECT_EQ(config.plans[4].intermediate, 172);
  EXPECT_EQ(config.plans[4].experts.count, 0);
  json["moe_latent_size"] = 32;
  expect_refusal(json, "moe_latent_size");
}

TEST(NemotronH, RefusesBiasesAndOtherFunctions) {
  for (const char* key : {"use_bias", "mamba_proj_bias", "attention_bias", "mlp_bias"}) {
    Json json = folder();
    json[key] = true;
    expect_refusal(json, key);
  }
  for (const char* key : {"mlp_hidden_act", "mamba_hidden_act"}) {
    Json json = folder();
    json[key] = "gelu";
    expect_refusal(json, key);
  }
}

TEST(NemotronH, StepsHaveTheLimitsOfTheirKernels) {
  Json json = folder();
  json["time_step_min"] = 0.001;  // of its training's beginning
  EXPECT_EQ(read_folder(json).plans[0].recurrent.steps.least, 0);
  json["time_step_limit"] = {0.5, 2};
  EXPECT_EQ(read_folder(json).plans[0].recurrent.steps.least, 0.5F);
}

Json gguf_keys() {
  return {{"block_count", 5},
          {"embedding_length", 64},
          {"feed_forward_length", {0, 172, 0, 0, 172}},
          {"context_length", 512},
          {"attention.head_count", 8},
          {"attention.head_count_kv", {0, 0, 0, 4, 0}},
          {"attention.key_length", 16},
          {"attention.layer_norm_epsilon", 1e-5},
          {"rope.dimension_count", 8},
          {"ssm.conv_kernel", 4},
          {"ssm.state_size", 24},
          {"ssm.group_count", 2},
          {"ssm.time_step_rank", 8},
          {"ssm.inner_size", 96}};
}

/// Lists go on with a layer that predicts.
TEST(NemotronH, NetworksOfGgufFilesAreExpertsWhereThereAreSome) {
  Json keys = gguf_keys();
  keys.update({{"block_count", 6},
               {"nextn_predict_layers", 1},
               {"feed_forward_length", {0, 48, 0, 0, 48, 48}},
               {"attention.head_count_kv", {0, 0, 0, 4, 0, 4}},
               {"expert_count", 8},
               {"expert_used_count", 2},
               {"expert_feed_forward_length", 48},
               {"expert_shared_feed_forward_length", 80},
               {"expert_weights_norm", true}});
  const ModelConfig config = test::read_gguf(keys, "nemotron_h_moe");
  ASSERT_EQ(config.layers, 5);
  for (const std::size_t layer : {1U, 4U}) {
    EXPECT_EQ(config.plans[layer].experts.count, 8);
    EXPECT_EQ(config.plans[layer].experts.shared_width, 80);
    EXPECT_TRUE(config.plans[layer].experts.renormalize);
    EXPECT_FALSE(config.plans[layer].mixes());
  }
  EXPECT_TRUE(config.plans[3].attends);
  EXPECT_EQ(config.plans[2].recurrent.layer, 1);
}

TEST(NemotronH, IsReadFromGguf) {
  Json keys = gguf_keys();
  const std::vector<std::string> bias = {"blk.0.ssm_conv1d.bias"};
  const ModelConfig config = test::read_gguf(keys, "nemotron_h", bias);
  expect_parts(config);
  EXPECT_EQ(config.intermediate, 172);
  EXPECT_EQ(config.norm_epsilon, 1e-5F);
  EXPECT_EQ(config.rope.rotary, 0);
  const TensorNames names = TensorNames::of(CheckpointFormat::gguf, config);
  EXPECT_EQ(names.ffn_norm_of(1), "blk.1.attn_norm.weight");
  keys["feed_forward_length"] = 172;
  std::string message = test::message_of([&] { test::read_gguf(keys, "nemotron_h", bias); });
  EXPECT_NE(message.find("a layer with attention"), std::string::npos) << message;
  keys["feed_forward_length"] = Json::array();
  message = test::message_of([&] { test::read_gguf(keys, "nemotron_h", bias); });
  EXPECT_NE(message.find("feed_forward_length"), std::string::npos) << message;
}

}  // namespace
}  // namespace talon::nemotron_h_test
