#include <gtest/gtest.h>

#include <limits>

#include "io/test_files.h"
#include "model/cache/cache_shape.h"
#include "model/config/test_config.h"

// Granite 4 and Bamba: layers that attend and layers of Mamba-2.
namespace talon::hybrid_families_test {
namespace {

using test::expect_refusal;
using test::read_folder;

using Rope = LayerPlan::Rope;

Json folder() {
  return {{"model_type", "granitemoehybrid"},
          {"num_hidden_layers", 4},
          {"hidden_size", 64},
          {"intermediate_size", 172},
          {"max_position_embeddings", 4096},
          {"vocab_size", 512},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 4},
          {"layer_types", {"mamba", "mamba", "attention", "mamba"}},
          {"num_local_experts", 0},
          {"shared_intermediate_size", 96},
          {"mamba_n_heads", 16},
          {"mamba_n_groups", 2},
          {"mamba_d_state", 24}};
}

TEST(Granite4, IsReadWhereAllLayersAttend) {
  Json json = folder();
  json["layer_types"] = {"attention", "attention", "full_attention", "attention"};
  const ModelConfig dense = read_folder(json);
  EXPECT_EQ(dense.plans[0].intermediate, 96);
  EXPECT_EQ(dense.plans[0].experts.count, 0);
  EXPECT_EQ(dense.plans[3].rope, Rope::none);  // as where the key is missing
  json["position_embedding_type"] = "rope";
  json["num_local_experts"] = 6;
  const ModelConfig mixture = read_folder(json);
  EXPECT_EQ(mixture.plans[0].rope, Rope::global);
  EXPECT_EQ(mixture.plans[0].experts.width, 172);
  EXPECT_EQ(mixture.plans[0].experts.shared_width, 96);
  EXPECT_EQ(kv_shape(mixture, 1).states.layers, 0);
}

TEST(Granite4, LayersOfMambaKeepStates) {
  const ModelConfig config = read_folder(folder());
  for (const std::size_t layer : {0U, 1U, 3U}) {
    const LayerPlan& plan = config.plans[layer];
    EXPECT_EQ(plan.recurrent.rule, StateRule::mamba2);
    EXPECT_EQ(plan.recurrent.key_heads, 2);
    EXPECT_EQ(plan.recurrent.value_heads, 16);
    EXPECT_EQ(plan.recurrent.key_dim, 24);
    EXPECT_EQ(plan.recurrent.value_dim, 8);  // twice the hidden size, over the heads
    EXPECT_EQ(plan.recurrent.kernel, 4);
    EXPECT_TRUE(plan.recurrent.filter_bias);
    EXPECT_EQ(plan.recurrent.layer, layer == 3 ? 2 : static_cast<int>(layer));
    EXPECT_FALSE(plan.writes_cache);
    EXPECT_EQ(plan.intermediate, 96);
  }
  EXPECT_EQ(config.plans[2].recurrent.value_heads, 0);
  EXPECT_EQ(config.plans[2].cache_layer, 0);
  const KvShape shape = kv_shape(config, 1);
  EXPECT_EQ(shape.layers, 1);
  EXPECT_EQ(shape.states.layers, 3);
  EXPECT_EQ(shape.states.channels(), 2 * 2 * 24 + 16 * 8);
  EXPECT_EQ(shape.states.input_cols(), shape.states.channels() + 16);
  EXPECT_EQ(shape.states.first_value(), 0);
  EXPECT_EQ(shape.states.first_key(), 16 * 8);
  EXPECT_EQ(shape.states.first_query(), 16 * 8 + 2 * 24);
}

TEST(Granite4, KindsOfLayersHaveTwoNamesEach) {
  Json json = folder();
  json["layer_types"] = {"linear_attention", "mamba", "full_attention", "linear_attention"};
  EXPECT_EQ(read_folder(json).plans[3].recurrent.layer, 2);
  json["layer_types"][1] = "sliding_attention";
  expect_refusal(json, "layer_types");
  json.erase("layer_types");  // all are Mamba's
  expect_refusal(json, "a layer with attention");
}

TEST(Granite4, StepsOfMambaHaveLimitsWhereTheFileSaysSo) {
  Json json = folder();
  constexpr float kEndless = std::numeric_limits<float>::infinity();
  EXPECT_EQ(read_folder(json).plans[0].recurrent.steps.most, kEndless);
  json["time_step_limit"] = {0.0, {{"__float__", "Infinity"}}};
  EXPECT_EQ(read_folder(json).plans[0].recurrent.steps.most, kEndless);
  json["time_step_limit"] = {0.25, 2};
  EXPECT_EQ(read_folder(json).plans[0].recurrent.steps.least, 0.25F);
  EXPECT_EQ(read_folder(json).plans[0].recurrent.steps.most, 2);
  const Json wrong[] = {Json::array({2, 1}), Json::array({-1, 1}), Json::array({1}),
                        Json::array({1, "2"}), Json(1)};
  for (const Json& bad : wrong) {
    json["time_step_limit"] = bad;
    expect_refusal(json, "time_step_limit");
  }
}

TEST(Granite4, HeadsOfMambaHaveTheStatedSizeOrDivideTheWidth) {
  Json json = folder();
  json["mamba_d_head"] = "auto";
  json["mamba_expand"] = 3;
  EXPECT_EQ(read_folder(json).plans[0].recurrent.value_dim, 12);
  json["mamba_d_head"] = 20;
  EXPECT_EQ(read_folder(json).plans[0].recurrent.value_dim, 20);
  json["mamba_d_head"] = "some";
  expect_refusal(json, "mamba_d_head");
  json.erase("mamba_d_head");
  json["mamba_n_heads"] = 10;
  expect_refusal(json, "mamba_n_heads");
  json["mamba_n_heads"] = 6;
  json["mamba_n_groups"] = 4;
  expect_refusal(json, "a multiple of 4 key heads");
}

TEST(Granite4, BiasesOfMambaAreThoseOfTheConvolution) {
  Json json = folder();
  json["mamba_conv_bias"] = false;
  EXPECT_FALSE(read_folder(json).plans[0].recurrent.filter_bias);
  json["mamba_proj_bias"] = true;
  expect_refusal(json, "mamba_proj_bias");
}

TEST(Bamba, ListsTheLayersThatAttend) {
  Json json = folder();
  json["model_type"] = "bamba";
  json.erase("layer_types");
  json["attn_layer_indices"] = {1, 3};
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(config.plans[0].recurrent.rule, StateRule::mamba2);
  EXPECT_EQ(config.plans[1].recurrent.value_heads, 0);
  EXPECT_EQ(config.plans[2].recurrent.layer, 1);
  EXPECT_EQ(config.plans[3].cache_layer, 1);
  EXPECT_EQ(config.plans[3].intermediate, 172);
  EXPECT_EQ(config.rope.rotary, 4);  // half of a head, which no key says
  EXPECT_EQ(config.norm_epsilon, 1e-5F);
  json["attn_layer_indices"] = Json::array({4});
  expect_refusal(json, "attn_layer_indices");
  json["attn_layer_indices"] = Json::array();
  expect_refusal(json, "a layer with attention");
  json.erase("attn_layer_indices");
  expect_refusal(json, "attn_layer_indices");
}

Json gguf_keys() {
  return {{"block_count", 2},
          {"embedding_length", 64},
          {"feed_forward_length", 172},
          {"context_length", 512},
          {"attention.head_count", 8},
          {"attention.head_count_kv", {4, 4}},
          {"attention.layer_norm_rms_epsilon", 1e-5},
          {"rope.scaling.finetuned", false}};
}

TEST(Granite4, IsReadFromGgufWhereAllLayersAttend) {
  Json keys = gguf_keys();
  const ModelConfig dense = test::read_gguf(keys, "granitehybrid");
  EXPECT_EQ(dense.plans[1].rope, Rope::none);
  EXPECT_EQ(dense.plans[1].intermediate, 172);
  EXPECT_EQ(dense.plans[1].score_scale, 0);  // not stated: of the head size, as llama.cpp has it
  keys.update(
      {{"expert_count", 6}, {"expert_used_count", 2}, {"expert_shared_feed_forward_length", 96}});
  const ModelConfig mixture = test::read_gguf(keys, "granitehybrid");
  EXPECT_EQ(mixture.plans[1].experts.count, 6);
  EXPECT_EQ(mixture.plans[1].experts.shared_width, 96);
}

TEST(Granite4, GgufLayersWithoutKeyValueHeadsAreMambas) {
  Json keys = gguf_keys();
  keys["attention.head_count_kv"] = {0, 4};
  keys.update({{"ssm.conv_kernel", 4},
               {"ssm.state_size", 24},
               {"ssm.group_count", 2},
               {"ssm.time_step_rank", 16},
               {"ssm.inner_size", 128}});
  const ModelConfig config = test::read_gguf(keys, "granitehybrid", {"blk.0.ssm_conv1d.bias"});
  EXPECT_EQ(config.kv_heads, 4);
  const RecurrentPlan& plan = config.plans[0].recurrent;
  EXPECT_EQ(plan.rule, StateRule::mamba2);
  EXPECT_EQ(plan.value_heads, 16);
  EXPECT_EQ(plan.value_dim, 8);
  EXPECT_TRUE(plan.filter_bias);
  EXPECT_EQ(config.plans[1].recurrent.value_heads, 0);
  EXPECT_FALSE(test::read_gguf(keys, "granitehybrid").plans[0].recurrent.filter_bias);
  keys.erase("ssm.group_count");
  const std::string message = test::message_of([&] { test::read_gguf(keys, "granitehybrid"); });
  EXPECT_NE(message.find("ssm.group_count"), std::string::npos) << message;
}

}  // namespace
}  // namespace talon::hybrid_families_test
