#include <gtest/gtest.h>

#include "io/test_files.h"
#include "model/cache/cache_shape.h"
#include "model/config/tensor_names.h"
#include "model/config/test_config.h"

// LFM2: layers that attend and short convolutions.
namespace talon::lfm2_families_test {
namespace {

using test::expect_refusal;
using test::read_folder;

Json folder() {
  return {{"model_type", "lfm2"},
          {"num_hidden_layers", 4},
          {"hidden_size", 64},
          {"intermediate_size", 300},
          {"max_position_embeddings", 4096},
          {"vocab_size", 512},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 4},
          {"block_multiple_of", 16},
          {"layer_types", {"conv", "conv", "full_attention", "conv"}}};
}

void expect_convolution(const LayerPlan& plan, int kernel) {
  EXPECT_EQ(plan.recurrent.rule, StateRule::short_convolution);
  EXPECT_EQ(plan.recurrent.channels(), 64);
  EXPECT_EQ(plan.recurrent.kernel, kernel);
  EXPECT_FALSE(plan.writes_cache);
  EXPECT_EQ(plan.rope, LayerPlan::Rope::none);
}

TEST(Lfm2, LayersConvolveOrAttend) {
  const ModelConfig config = read_folder(folder());
  for (const std::size_t layer : {0U, 1U, 3U}) expect_convolution(config.plans[layer], 3);
  EXPECT_EQ(config.plans[3].recurrent.layer, 2);
  EXPECT_EQ(config.plans[2].recurrent.value_heads, 0);
  EXPECT_EQ(config.plans[2].cache_layer, 0);
  EXPECT_EQ(config.plans[2].head_norm, LayerPlan::HeadNorm::per_head);
  // What the class has where the file says nothing.
  EXPECT_TRUE(config.tied_output);
  EXPECT_EQ(config.rope.base, 1e6);
  EXPECT_EQ(config.norm_epsilon, 1e-5F);
}

TEST(Lfm2, AConvolutionKeepsItsLastInputsAlone) {
  Json json = folder();
  json["conv_L_cache"] = 4;
  const StateShape states = kv_shape(read_folder(json), 1).states;
  EXPECT_EQ(states.layers, 3);
  EXPECT_EQ(states.state_values(), 0);
  EXPECT_EQ(states.tail_values(), 3 * 64);
  EXPECT_EQ(states.input_cols(), 2 * 64);
  EXPECT_EQ(states.slot_bytes(), std::size_t{3} * 3 * 64 * sizeof(float));
}

TEST(Lfm2, FirstFoldersListTheLayersThatAttendAndHaveOtherNames) {
  Json json = folder();
  json.erase("layer_types");
  json.erase("intermediate_size");
  json["full_attn_idxs"] = {1, 3};
  json["block_ff_dim"] = 300;
  json["tie_embedding"] = false;
  const ModelConfig config = read_folder(json);
  expect_convolution(config.plans[0], 3);
  EXPECT_EQ(config.plans[1].recurrent.value_heads, 0);
  EXPECT_EQ(config.plans[3].cache_layer, 1);
  EXPECT_EQ(config.plans[0].intermediate, 208);
  EXPECT_FALSE(config.tied_output);
  json["full_attn_idxs"] = Json::array({4});
  expect_refusal(json, "full_attn_idxs");
  json["full_attn_idxs"] = 1;
  expect_refusal(json, "full_attn_idxs");
  json["full_attn_idxs"] = Json::array();
  expect_refusal(json, "a layer with attention");
  json.erase("full_attn_idxs");  // all attend
  EXPECT_EQ(kv_shape(read_folder(json), 1).states.layers, 0);
}

TEST(Lfm2, TheNetworkIsAsWideAsTheClassMakesIt) {
  Json json = folder();
  EXPECT_EQ(read_folder(json).plans[0].intermediate, 208);  // 2/3 of 300 are 200, in steps of 16
  json["block_ffn_dim_multiplier"] = 1.3;
  EXPECT_EQ(read_folder(json).plans[0].intermediate, 272);
  json["block_auto_adjust_ff_dim"] = false;
  EXPECT_EQ(read_folder(json).plans[3].intermediate, 300);
  json["block_auto_adjust_ff_dim"] = true;
  json["block_ffn_dim_multiplier"] = 999;
  expect_refusal(json, "block_ffn_dim_multiplier");
  json["block_ffn_dim_multiplier"] = 0;
  expect_refusal(json, "block_ffn_dim_multiplier");
}

TEST(Lfm2, RefusesWhatItsConvolutionsHaveNot) {
  Json json = folder();
  json["conv_bias"] = true;
  expect_refusal(json, "conv_bias");
  json["conv_bias"] = false;
  json["conv_L_cache"] = 1;
  expect_refusal(json, "conv_L_cache");
  json["conv_L_cache"] = 3;
  json["layer_types"][0] = "sliding_attention";
  expect_refusal(json, "layer_types");
}

TEST(Lfm2, ModelsThatSeeHoldItAsTheirTextModel) {
  Json text = folder();
  text["tie_embedding"] = true;
  const Json json = {{"model_type", "lfm2_vl"}, {"text_config", text}};
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(config.architecture, "lfm2");
  EXPECT_TRUE(config.tied_output);
  expect_convolution(config.plans[0], 3);
}

TEST(Lfm2Moe, HasExpertsBehindTheFirstLayers) {
  Json json = folder();
  json["model_type"] = "lfm2_moe";
  json.update({{"num_experts", 8}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 48}});
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(config.plans[1].intermediate, 300);  // two are dense, and no width is adjusted
  EXPECT_EQ(config.plans[1].experts.count, 0);
  const ExpertPlan& experts = config.plans[2].experts;
  EXPECT_EQ(experts.count, 8);
  EXPECT_EQ(experts.used, 2);
  EXPECT_EQ(experts.width, 48);
  EXPECT_EQ(experts.score, RouteArgs::Score::sigmoid);
  EXPECT_TRUE(experts.choice_bias && experts.renormalize);
  json.update({{"use_expert_bias", false}, {"num_dense_layers", 0}, {"norm_topk_prob", false}});
  EXPECT_EQ(read_folder(json).plans[0].experts.count, 8);
  EXPECT_FALSE(read_folder(json).plans[0].experts.choice_bias);
  EXPECT_FALSE(read_folder(json).plans[0].experts.renormalize);
  const TensorNames names = TensorNames::of(CheckpointFormat::hugging_face, config);
  EXPECT_EQ(names.choice_bias, "model.layers.{}.feed_forward.expert_bias");
  json["num_experts_per_tok"] = 9;
  expect_refusal(json, "num_experts_per_tok");
}

Json gguf_keys() {
  return {{"block_count", 3},
          {"embedding_length", 64},
          {"feed_forward_length", 208},
          {"context_length", 512},
          {"attention.head_count", 8},
          {"attention.head_count_kv", {0, 4, 0}},
          {"attention.layer_norm_rms_epsilon", 1e-5},
          {"shortconv.l_cache", 3}};
}

TEST(Lfm2, GgufLayersWithoutKeyValueHeadsConvolve) {
  Json keys = gguf_keys();
  const ModelConfig config = test::read_gguf(keys, "lfm2");
  expect_convolution(config.plans[0], 3);
  EXPECT_EQ(config.plans[1].recurrent.value_heads, 0);
  EXPECT_EQ(config.plans[1].window, 0);
  EXPECT_EQ(config.plans[2].recurrent.layer, 1);
  EXPECT_EQ(TensorNames::of(CheckpointFormat::gguf, config).final_norm, "token_embd_norm");
  const ModelConfig of_ollama = test::read_gguf(keys, "lfm2", {"output_norm.weight"});
  EXPECT_EQ(TensorNames::of(CheckpointFormat::gguf, of_ollama).final_norm, "output_norm");
  keys["attention.sliding_window"] = 128;
  EXPECT_EQ(test::read_gguf(keys, "lfm2").plans[1].window, 128);
  EXPECT_EQ(test::read_gguf(keys, "lfm2").plans[0].window, 0);
  keys.erase("shortconv.l_cache");
  const std::string message = test::message_of([&] { test::read_gguf(keys, "lfm2"); });
  EXPECT_NE(message.find("shortconv.l_cache"), std::string::npos) << message;
}

TEST(Lfm2Moe, IsReadFromGguf) {
  Json keys = gguf_keys();
  keys.update({{"expert_count", 8},
               {"expert_used_count", 2},
               {"expert_feed_forward_length", 48},
               {"leading_dense_block_count", 1},
               {"expert_gating_func", 2}});
  const ModelConfig config = test::read_gguf(keys, "lfm2moe");
  EXPECT_EQ(config.plans[0].intermediate, 208);
  EXPECT_EQ(config.plans[1].intermediate, 0);
  EXPECT_EQ(config.plans[1].experts.width, 48);
  EXPECT_EQ(config.plans[1].experts.score, RouteArgs::Score::sigmoid);
  EXPECT_TRUE(config.plans[1].experts.renormalize);
  expect_convolution(config.plans[2], 3);
}

}  // namespace
}  // namespace talon::lfm2_families_test
