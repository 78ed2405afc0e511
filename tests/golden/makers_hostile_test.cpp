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
                                         "stablelm_12b", "phi2", "mistral4", "granite4_hybrid_moe"),
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
