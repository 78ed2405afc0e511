#include <gtest/gtest.h>

#include "io/test_files.h"
#include "model/cache/cache_shape.h"
#include "model/config/tensor_names.h"
#include "model/config/test_config.h"

// Falcon-H1: attention and Mamba-2 in every layer, and factors of matrices.
namespace talon::falcon_h1_test {
namespace {

using test::expect_refusal;
using test::read_folder;

Json folder() {
  return {{"model_type", "falcon_h1"},
          {"num_hidden_layers", 2},
          {"hidden_size", 64},
          {"intermediate_size", 172},
          {"max_position_embeddings", 4096},
          {"vocab_size", 512},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 4},
          {"mamba_d_ssm", 96},
          {"mamba_n_heads", 8},
          {"mamba_n_groups", 2},
          {"mamba_d_state", 24}};
}

TEST(FalconH1, EveryLayerHasAttentionAndAState) {
  const ModelConfig config = read_folder(folder());
  for (int layer = 0; layer < 2; ++layer) {
    const LayerPlan& plan = config.plans[static_cast<std::size_t>(layer)];
    EXPECT_TRUE(plan.attends && plan.writes_cache);
    EXPECT_EQ(plan.cache_layer, layer);
    EXPECT_EQ(plan.rope, LayerPlan::Rope::global);
    EXPECT_EQ(plan.recurrent.layer, layer);
    EXPECT_EQ(plan.recurrent.rule, StateRule::mamba2);
    EXPECT_EQ(plan.recurrent.value_heads, 8);
    EXPECT_EQ(plan.recurrent.value_dim, 12);
    EXPECT_FALSE(plan.recurrent.norm);
    EXPECT_EQ(plan.factors, MatrixFactors{});
  }
  const KvShape shape = kv_shape(config, 1);
  EXPECT_EQ(shape.layers, 2);
  EXPECT_EQ(shape.states.layers, 2);
  const TensorNames names = TensorNames::of(CheckpointFormat::hugging_face, config);
  EXPECT_EQ(names.ffn_norm_of(1), "model.layers.1.pre_ff_layernorm.weight");
  EXPECT_EQ(names.state_fused_inputs, "model.layers.{}.mamba.in_proj");
}

TEST(FalconH1, WidthOfTheStateIsItsOwnOrATimesTheHiddenSize) {
  Json json = folder();
  json.erase("mamba_d_ssm");
  EXPECT_EQ(read_folder(json).plans[0].recurrent.width(), 1024);  // as the class has it
  json["mamba_d_ssm"] = nullptr;
  EXPECT_EQ(read_folder(json).plans[0].recurrent.width(), 128);
  json["mamba_d_ssm"] = 100;
  expect_refusal(json, "mamba_n_heads");
}

TEST(FalconH1, FactorsStayApart) {
  Json json = folder();
  json.update({{"embedding_multiplier", 5.5},
               {"lm_head_multiplier", 0.25},
               {"key_multiplier", 0.5},
               {"attention_in_multiplier", 3},
               {"attention_out_multiplier", 0.75},
               {"ssm_in_multiplier", 2},
               {"ssm_out_multiplier", 0.125},
               {"mlp_multipliers", {0.5, 1.5}},
               {"ssm_multipliers", {1, 2, 3, 4, 5}}});
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(config.embedding_scale, 5.5F);
  EXPECT_EQ(config.logit_scale, 0.25F);
  const MatrixFactors& f = config.plans[1].factors;
  EXPECT_EQ(f.q, 3);
  EXPECT_EQ(f.k, 1.5F);
  EXPECT_EQ(f.v, 3);
  EXPECT_EQ(f.o, 0.75F);
  EXPECT_EQ(f.gate, 0.5F);
  EXPECT_EQ(f.down, 1.5F);
  EXPECT_EQ(f.state_gate, 2);
  EXPECT_EQ(f.state_value, 4);
  EXPECT_EQ(f.state_key, 6);
  EXPECT_EQ(f.state_query, 8);
  EXPECT_EQ(f.state_decay, 10);
  EXPECT_EQ(f.state_o, 0.125F);
  for (const char* key : {"mlp_multipliers", "ssm_multipliers"}) {
    Json wrong = json;
    wrong[key] = {1, 2, 3};
    expect_refusal(wrong, key);
    wrong[key] = {1, 0};
    expect_refusal(wrong, key);
  }
  json["key_multiplier"] = 0;
  expect_refusal(json, "key_multiplier");
}

TEST(FalconH1, ANormOfTheStatesResultStandsBehindItsGate) {
  Json json = folder();
  json["mamba_rms_norm"] = true;
  expect_refusal(json, "mamba_norm_before_gate");
  json["mamba_norm_before_gate"] = false;
  EXPECT_TRUE(read_folder(json).plans[0].recurrent.norm);
}

TEST(FalconH1, RefusesBiases) {
  for (const char* key : {"projectors_bias", "mamba_proj_bias", "attention_bias", "mlp_bias"}) {
    Json json = folder();
    json[key] = true;
    expect_refusal(json, key);
  }
}

TEST(FalconH1, TensorsOfGgufFilesTellItsBiasesAndNorm) {
  const Json keys = {{"block_count", 2},
                     {"embedding_length", 64},
                     {"feed_forward_length", 172},
                     {"context_length", 512},
                     {"attention.head_count", 8},
                     {"attention.head_count_kv", 4},
                     {"attention.layer_norm_rms_epsilon", 1e-5},
                     {"ssm.conv_kernel", 4},
                     {"ssm.state_size", 24},
                     {"ssm.group_count", 2},
                     {"ssm.time_step_rank", 8},
                     {"ssm.inner_size", 96}};
  const ModelConfig plain = test::read_gguf(keys, "falcon-h1");
  EXPECT_FALSE(plain.plans[1].recurrent.norm || plain.plans[1].recurrent.filter_bias);
  const ModelConfig config =
      test::read_gguf(keys, "falcon-h1", {"blk.0.ssm_norm.weight", "blk.0.ssm_conv1d.bias"});
  for (const LayerPlan& plan : config.plans) {
    EXPECT_TRUE(plan.attends && plan.recurrent.norm && plan.recurrent.filter_bias);
    EXPECT_EQ(plan.recurrent.value_dim, 12);
    EXPECT_EQ(plan.factors, MatrixFactors{});
  }
  EXPECT_EQ(config.plans[1].recurrent.layer, 1);
  // llama.cpp's name has no ".weight".
  EXPECT_EQ(TensorNames::of(CheckpointFormat::gguf, config).ffn_norm_of(1), "blk.1.ffn_norm");
}

}  // namespace
}  // namespace talon::falcon_h1_test
