#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "backend/reference/reference.h"
#include "core/error.h"
#include "io/json.h"
#include "maker_data.h"
#include "model_run.h"

namespace talon::makers_hostile_test {
namespace {

namespace fs = std::filesystem;

Json read_config(const fs::path& folder) {
  std::ifstream stream(folder / "config.json");
  return Json::parse(stream);
}

void write_config(const fs::path& folder, const Json& config) {
  std::ofstream(folder / "config.json") << config;
}

/// Loads the folder and runs three tokens; what it was refused for, or nothing.
std::string try_model(const fs::path& folder) {
  try {
    ModelRun run(folder, make_reference_backend(1), KvType::f32, 64);
    const std::vector<TokenId> ids = {1, 2, 3};
    if (run.model().config.context >= 3 && run.model().config.vocabulary > 3) {
      run.run(ids, 0, [](int, std::span<const float>) {});
    }
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

/// Puts hostile values in the place of every value below `json`, one at a time.
void damage_all(const fs::path& folder, Json& whole, Json& json, int& refused) {
  const Json hostile[] = {nullptr,
                          0,
                          -1,
                          1,
                          3,
                          1000000000,
                          2147483648U,
                          1e30,
                          "text",
                          true,
                          Json::array(),
                          {1, 2},
                          Json::array({nullptr}),
                          Json::object()};
  for (auto& [key, value] : json.items()) {
    if (value.is_object()) damage_all(folder, whole, value, refused);
    const Json before = value;
    for (const Json& bad : hostile) {
      value = bad;
      write_config(folder, whole);
      refused += try_model(folder).empty() ? 0 : 1;  // and nothing else than an Error
    }
    value = before;
  }
}

class MakersHostile : public testing::TestWithParam<std::string> {};

TEST_P(MakersHostile, EveryValueOfAConfigurationMayBeHostile) {
  const fs::path folder = unpack_maker(GetParam()).folder;
  Json config = read_config(folder);
  ASSERT_EQ(try_model(folder), "");
  int refused = 0;
  damage_all(folder, config, config, refused);
  EXPECT_GT(refused, 100);
}

INSTANTIATE_TEST_SUITE_P(Families, MakersHostile,
                         testing::Values("phi3", "gemma3", "granite4_moe", "qwen3_moe", "gpt_oss",
                                         "llama4", "deepseek_v3", "gemma4_moe", "gemma4_e",
                                         "qwen3_next", "qwen3_5", "mimo", "exaone4", "ernie4_5_moe",
                                         "stablelm_12b", "phi2", "mistral4", "granite4_hybrid_moe",
                                         "lfm2_moe", "falcon_h1", "nemotron_h_moe", "apertus",
                                         "hunyuan_moe", "exaone_moe", "afmoe"),
                         [](const auto& tested) { return tested.param; });

struct Refusal {
  std::string family, key;
  Json value;
  std::string named;  // in the message
};

TEST(MakersHostileByName, WhatContradictsIsNamed) {
  const Refusal refusals[] = {
      {"qwen3_moe", "num_experts", 0, "num_experts"},
      {"qwen3_moe", "num_experts", 1000000000, "num_experts"},
      {"qwen3_moe", "num_experts", 7, "mlp.gate.weight"},  // a router of another width
      {"qwen3_moe", "num_experts", 9, "mlp.gate.weight"},
      {"qwen3_moe", "num_experts_per_tok", 9, "num_experts_per_tok"},
      {"qwen3_moe", "moe_intermediate_size", 31, "experts.0.gate_proj"},
      {"qwen3_moe", "mlp_only_layers", {1}, "layers.1.mlp.gate_proj"},
      {"gpt_oss", "layer_types", {"full_attention"}, "layer_types"},
      {"gpt_oss", "swiglu_limit", 6, "swiglu_limit"},
      {"gpt_oss", "num_local_experts", 5, "router"},
      {"deepseek_v3", "kv_lora_rank", 0, "kv_lora_rank"},
      {"deepseek_v3", "kv_lora_rank", 30, "kv_a_proj_with_mqa"},
      {"deepseek_v3", "qk_rope_head_dim", 7, "even head size"},
      {"deepseek_v3", "n_group", 0, "n_group"},
      {"deepseek_v3", "n_group", 3, "groups of equal size"},
      {"deepseek_v3", "topk_group", 5, "topk_group"},
      {"mimo", "hybrid_layer_pattern", {0, 1}, "hybrid_layer_pattern"},
      {"mimo", "moe_layer_freq", {0, 1, 0, 2, 1}, "moe_layer_freq"},
      {"mimo", "swa_num_key_value_heads", 3, "key-value heads"},
      {"mimo", "v_head_dim", 0, "v_head_dim"},
      {"mimo", "scoring_func", "softmax", "scoring_func"},
      {"gemma4_e", "num_kv_shared_layers", 6, "num_kv_shared_layers"},
      {"gemma4_e", "hidden_size_per_layer_input", 15, "embed_tokens_per_layer"},
      {"gemma4_moe", "global_head_dim", 31, "head"},
      {"qwen3_next", "linear_num_key_heads", 0, "linear_num_key_heads"},
      {"qwen3_next", "linear_num_key_heads", 3, "key heads"},
      {"qwen3_next", "linear_num_value_heads", 8, "in_proj_qkvz"},
      {"qwen3_next", "linear_key_head_dim", 1000000000, "linear_key_head_dim"},
      {"qwen3_next", "linear_conv_kernel_dim", 3, "conv1d"},
      {"qwen3_next", "linear_conv_kernel_dim", 0, "linear_conv_kernel_dim"},
      {"qwen3_next", "full_attention_interval", 0, "full_attention_interval"},
      {"qwen3_next", "full_attention_interval", 5, "layer with attention"},
      {"qwen3_next", "full_attention_interval", 2, "layers.1.self_attn"},
      {"qwen3_next", "layer_types", {"linear_attention"}, "layer_types"},
      {"olmo3", "sliding_window", -1, "sliding_window"},
      {"phi3", "partial_rotary_factor", 1.5, "partial_rotary_factor"},
      {"granite", "residual_multiplier", 0, "residual_multiplier"},
      {"arcee", "hidden_act", "silu", "hidden_act"},
      {"nemotron", "norm_eps", -1, "norm_eps"},
      {"command_r_plus", "use_qk_norm", false, "_norm.weight"},
      {"stablelm_12b", "qk_layernorm", false, "_layernorm.norms."},
      {"stablelm_12b", "use_parallel_residual", false, "layers.0.post_attention_layernorm"},
      {"stablelm", "qk_layernorm", true, "layers.0.self_attn.q_layernorm.norms.0.weight"},
      {"stablelm", "use_parallel_residual", true, "post_attention_layernorm"},
      {"arcee", "mlp_bias", true, "layers.0.mlp.up_proj.bias"},
      {"arcee_bias", "mlp_bias", false, "_proj.bias"},
      {"nemotron_bias", "mlp_bias", 1, "mlp_bias"},
      {"granite", "mlp_bias", true, "mlp_bias"},
      {"phi2", "qk_layernorm", true, "layers.0.self_attn.q_layernorm.weight"},
      {"phi2_norms", "qk_layernorm", false, "_layernorm."},
      {"granite4_hybrid", "mamba_n_groups", 0, "mamba_n_groups"},
      {"granite4_hybrid", "mamba_n_groups", 3, "key heads"},
      {"granite4_hybrid", "mamba_n_heads", 1000000000, "mamba_n_heads"},
      {"granite4_hybrid", "mamba_n_heads", 16, "mamba.in_proj"},
      {"granite4_hybrid", "mamba_d_head", "8", "mamba_d_head"},
      {"granite4_hybrid", "mamba_d_state", 0, "mamba_d_state"},
      {"granite4_hybrid", "mamba_d_state", 15, "mamba.in_proj"},
      {"granite4_hybrid", "mamba_d_conv", 1, "mamba_d_conv"},
      {"granite4_hybrid", "mamba_d_conv", 3, "mamba.conv1d"},
      {"granite4_hybrid", "mamba_conv_bias", false, "mamba.conv1d.bias"},
      {"granite4_hybrid", "mamba_proj_bias", true, "mamba_proj_bias"},
      {"granite4_hybrid", "attention_bias", true, "attention_bias"},
      {"granite4_hybrid", "time_step_limit", {2, 1}, "time_step_limit"},
      {"granite4_hybrid", "time_step_limit", {-1, 1}, "time_step_limit"},
      {"granite4_hybrid", "layer_types", {"mamba"}, "layer_types"},
      {"granite4_hybrid", "layer_types", nullptr, "a layer with attention"},
      {"granite4_hybrid_moe", "mamba_n_groups", 1, "mamba.in_proj"},
      {"bamba", "attn_layer_indices", {4}, "attn_layer_indices"},
      {"bamba", "attn_layer_indices", {1}, "layers.1.self_attn"},
      {"falcon_h1", "mamba_d_ssm", 50, "mamba_d_ssm"},
      {"falcon_h1", "mamba_n_heads", 5, "mamba_d_ssm"},
      {"falcon_h1", "mamba_d_state", 15, "mamba.in_proj"},
      {"falcon_h1", "mamba_n_groups", 4, "key heads"},
      {"falcon_h1", "mamba_rms_norm", true, "layers.0.mamba.norm.weight"},
      {"falcon_h1_norm", "mamba_rms_norm", false, "mamba.norm.weight"},
      {"falcon_h1_norm", "mamba_norm_before_gate", true, "mamba_norm_before_gate"},
      {"falcon_h1", "ssm_multipliers", {1, 2}, "ssm_multipliers"},
      {"falcon_h1", "mlp_multipliers", {1, 0}, "mlp_multipliers"},
      {"falcon_h1", "attention_in_multiplier", -1, "attention_in_multiplier"},
      {"falcon_h1", "attention_bias", true, "attention_bias"},
      {"falcon_h1", "mlp_bias", true, "mlp_bias"},
      {"nemotron_h", "hybrid_override_pattern", "M-M*", "hybrid_override_pattern"},
      {"nemotron_h", "hybrid_override_pattern", "M-M*e", "hybrid_override_pattern"},
      {"nemotron_h", "hybrid_override_pattern", "M-M*E", "n_routed_experts"},
      {"nemotron_h_moe", "hybrid_override_pattern", "M-M*E", "layers.1.mixer.up_proj"},
      {"nemotron_h_moe", "moe_latent_size", 16, "moe_latent_size"},
      {"nemotron_h_moe", "n_routed_experts", 5, "mixer.gate.weight"},
      {"nemotron_h_moe", "moe_intermediate_size", 25, "mixer.experts.0.up_proj"},
      {"nemotron_h_moe", "moe_shared_expert_intermediate_size", 39, "shared_experts.up_proj"},
      {"nemotron_h", "hybrid_override_pattern", "M-M--", "a layer with attention"},
      {"nemotron_h", "hybrid_override_pattern", "MMM*-", "layers.1.mixer.in_proj"},
      {"nemotron_h", "hybrid_override_pattern", "M-M**", "layers.4.mixer.q_proj"},
      {"nemotron_h", "mamba_num_heads", 6, "mixer.in_proj"},
      {"nemotron_h", "n_groups", 3, "key heads"},
      {"nemotron_h", "ssm_state_size", 15, "mixer.in_proj"},
      {"nemotron_h", "conv_kernel", 3, "mixer.conv1d"},
      {"nemotron_h", "mlp_hidden_act", "silu", "mlp_hidden_act"},
      {"nemotron_h", "use_bias", true, "use_bias"},
      {"lfm2", "conv_L_cache", 1, "conv_L_cache"},
      {"lfm2", "conv_L_cache", 4, "conv.conv.weight"},
      {"lfm2", "conv_bias", true, "conv_bias"},
      {"lfm2", "layer_types", {"conv"}, "layer_types"},
      {"lfm2", "layer_types", nullptr, "layers.0.self_attn"},
      {"lfm2", "block_ffn_dim_multiplier", 0, "block_ffn_dim_multiplier"},
      {"lfm2", "block_auto_adjust_ff_dim", false, "feed_forward.w1"},
      {"lfm2_moe", "num_experts", 5, "feed_forward.gate.weight"},
      {"lfm2_moe", "num_experts_per_tok", 7, "num_experts_per_tok"},
      {"lfm2_moe", "num_dense_layers", 0, "layers.0.feed_forward.gate.weight"},
      {"lfm2_moe", "moe_intermediate_size", 25, "experts.0.w1"},
      {"apertus", "hidden_act", "silu", "hidden_act"},
      {"apertus", "post_norm", true, "post_norm"},
      {"apertus", "mlp_bias", true, "mlp_bias"},
      {"minimax_m2", "rotary_dim", 7, "rotary_dim"},
      {"minimax_m2", "rotary_dim", 18, "rotary_dim"},
      {"minimax_m2", "num_local_experts", 5, "block_sparse_moe.gate.weight"},
      {"minimax_m2", "scoring_func", "softmax", "scoring_func"},
      {"minimax_m2", "attn_type_list", {1, 0}, "attn_type_list"},
      {"hunyuan_moe", "moe_topk", {2, 1}, "moe_topk"},
      {"hunyuan_moe", "moe_intermediate_size", {16, 17}, "moe_intermediate_size"},
      {"hunyuan_moe", "num_experts", 0, "num_experts"},
      {"hunyuan_moe", "num_shared_expert", {2, 2}, "num_shared_expert"},
      {"hunyuan_moe", "use_cla", true, "use_cla"},
      {"hy_v3", "mlp_layer_types", {"sparse", "sparse"}, "layers.0.mlp.router.gate"},
      {"hy_v3", "route_norm", false, "route_norm"},
      {"exaone_moe", "mlp_layer_types", {"sparse"}, "mlp_layer_types"},
      {"exaone_moe", "num_shared_experts", 2, "mlp.shared_experts."},
      {"exaone_moe", "n_group", 3, "groups of equal size"},
      {"dots1", "first_k_dense_replace", 0, "layers.0.mlp.gate.weight"},
      {"dots1", "n_routed_experts", 1000000000, "n_routed_experts"},
      {"afmoe", "sliding_window", nullptr, "sliding_window"},
      {"afmoe", "route_norm", false, "route_norm"},
      {"afmoe", "num_dense_layers", 4, "layers.2.mlp.gate_proj"},
      {"mellum", "layer_types", {"sliding_attention"}, "layer_types"},
      {"mellum", "mlp_layer_types", {"dense", "sparse"}, "layers.0.mlp.gate_proj"},
      {"bailing_moe", "score_function", "softmax", "score_function"},
      {"bailing_moe", "use_qk_norm", false, "use_qk_norm"},
      {"bailing_moe", "topk_group", 4, "topk_group"},
      {"bailing_moe", "num_key_value_heads", 4, "attention.query_key_value"},
      {"phimoe", "num_experts_per_tok", 3, "num_experts_per_tok"},
      {"phimoe", "num_local_experts", 7, "block_sparse_moe.gate.weight"},
      {"phimoe", "num_local_experts", 1, "num_local_experts"},
      {"phimoe", "router_jitter_noise", -1, "router_jitter_noise"},
      {"phimoe", "lm_head_bias", false, "lm_head.bias"},
      {"phimoe", "attention_bias", false, "_proj.bias"},
      {"mistral4", "n_routed_experts", 5, "mlp.gate.weight"},
      {"mistral4", "kv_lora_rank", 14, "kv_a_proj_with_mqa"},
      {"mistral4", "attention_bias", true, "attention_bias"},
      {"mistral4", "rope_parameters",
       Json{{"rope_type", "yarn"}, {"factor", 4}, {"llama_4_scaling_beta", -1}},
       "llama_4_scaling_beta"},
  };
  for (const auto& [family, key, value, named] : refusals) {
    const fs::path folder = unpack_maker(family).folder;
    Json config = read_config(folder);
    config[key] = value;
    write_config(folder, config);
    const std::string message = try_model(folder);
    EXPECT_NE(message.find(named), std::string::npos) << family << " " << key << ": " << message;
  }
}

}  // namespace
}  // namespace talon::makers_hostile_test
