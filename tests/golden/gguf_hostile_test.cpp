#include <gtest/gtest.h>

#include <optional>

#include "backend/reference/reference.h"
#include "core/error.h"
#include "maker_data.h"
#include "model/target.h"

// Keys of GGUF files of recorded models, changed one at a time.
namespace talon::gguf_hostile_test {
namespace {

/// Loads the model and runs three tokens; what it was refused for, or nothing.
std::string try_file(const Checkpoint& file) {
  const auto backend = make_reference_backend(1);
  try {
    const Model model = load_model(file, *backend);
    if (model.config.context < 4 || model.config.vocabulary < 4) return {};
    KvCache cache(*backend, kv_shape(model.config, 1, KvType::f32));
    Target target(model, cache, 4);
    KvSequence sequence = cache.start({}, false);
    const std::vector<TokenId> tokens = {1, 2, 3};
    if (!sequence.reserve(3)) return "the cache of the test is small";
    const SequenceRows rows{&sequence, tokens, {}, SequenceRows::Logits::all};
    target.forward({&rows, 1});
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::string architecture_of(const Checkpoint& file) {
  return file.metadata.at("general.architecture").get<std::string>();
}

/// A key or tensor, a layer or what lies in it.
bool names_something(const std::string& message) {
  for (const char* name : {"\"", "layer", "head", "rotary frequencies"}) {
    if (message.find(name) != std::string::npos) return true;
  }
  return false;
}

class GgufHostile : public testing::TestWithParam<std::string> {};

TEST_P(GgufHostile, EveryKeyOfAnArchitectureMayBeHostile) {
  Checkpoint file = open_checkpoint(unpack_maker(GetParam()).gguf);
  ASSERT_EQ(try_file(file), "");
  const std::string prefix = architecture_of(file) + ".";
  int refused = 0;
  for (auto& [key, value] : file.metadata.items()) {
    if (!key.starts_with(prefix)) continue;
    std::vector<Json> hostile = {nullptr,
                                 0,
                                 -1,
                                 1,
                                 3,
                                 7,
                                 1000000000,
                                 2147483648U,
                                 1e30,
                                 "text",
                                 true,
                                 Json::array(),
                                 Json::array({1, 2}),
                                 Json::array({"text"})};
    if (value.is_number_integer()) {
      const auto number = value.get<std::int64_t>();
      for (const std::int64_t other : {number - 1, number + 1, number / 2, 2 * number}) {
        hostile.emplace_back(other);
      }
    }
    const Json before = value;
    for (const Json& bad : hostile) {
      value = bad;
      const std::string message = try_file(file);  // and nothing else than an Error
      if (message.empty()) continue;
      ++refused;
      EXPECT_TRUE(names_something(message)) << key << " " << bad << ": " << message;
    }
    value = before;
  }
  EXPECT_EQ(try_file(file), "");
  EXPECT_GT(refused, 80);
}

INSTANTIATE_TEST_SUITE_P(Families, GgufHostile,
                         testing::Values("qwen3_moe", "deepseek_v3", "qwen3_next", "gemma4_e",
                                         "mimo", "granite4_hybrid_moe", "lfm2_moe",
                                         "falcon_h1_norm", "nemotron_h_moe", "afmoe"),
                         [](const auto& tested) { return tested.param; });

struct KeyRefusal {
  std::string family, key;  // below the architecture
  Json value;
  std::string named;  // in the message
};

TEST(GgufHostileByName, WhatContradictsIsNamed) {
  const KeyRefusal refusals[] = {
      {"qwen3_moe", "expert_count", 0, "expert_count"},
      {"qwen3_moe", "expert_count", 1000000000, "expert_count"},
      {"qwen3_moe", "expert_count", 7, "ffn_gate_inp"},  // a router of another width
      {"qwen3_moe", "expert_count", 9, "ffn_gate_inp"},
      {"qwen3_moe", "expert_used_count", 0, "expert_used_count"},
      {"qwen3_moe", "expert_used_count", 9, "expert_used_count"},
      {"qwen3_moe", "expert_feed_forward_length", 0, "expert_feed_forward_length"},
      {"qwen3_moe", "expert_feed_forward_length", 31, "_exps"},
      {"qwen3_moe", "attention.head_count", 3, "key-value heads"},
      {"qwen3_moe", "attention.head_count_kv", 0, "head_count_kv"},
      {"qwen3_moe", "attention.key_length", 0, "key_length"},
      {"gpt_oss", "expert_count", 5, "ffn_gate_inp"},
      {"phimoe", "expert_count", 7, "ffn_gate_inp"},
      {"phimoe", "expert_used_count", 1, "expert_used_count"},
      {"phimoe", "rope.scaling.attn_factor", 0, "attn_factor"},
      {"deepseek_v3", "attention.kv_lora_rank", 0, "kv_lora_rank"},
      {"deepseek_v3", "attention.kv_lora_rank", 1000000000, "kv_lora_rank"},
      {"deepseek_v3", "attention.kv_lora_rank", 30, "attn_kv_a_mqa"},
      {"deepseek_v3", "attention.q_lora_rank", 0, "attn_q"},
      {"deepseek_v3", "attention.q_lora_rank", 47, "attn_q_a"},
      {"deepseek_v3", "attention.key_length_mla", 8, "key_length_mla"},
      {"deepseek_v3", "attention.value_length_mla", 0, "value_length_mla"},
      {"deepseek_v3", "rope.dimension_count", 0, "dimension_count"},
      {"deepseek_v3", "rope.dimension_count", 7, "dimension_count"},
      {"deepseek_v3", "expert_group_count", 0, "expert_group_count"},
      {"deepseek_v3", "expert_group_count", 3, "groups of equal size"},
      {"deepseek_v3", "expert_group_used_count", 5, "expert_group_used_count"},
      {"deepseek_v3", "expert_gating_func", 3, "expert_gating_func"},
      {"deepseek_v3", "expert_shared_count", 65, "expert_shared_count"},
      {"deepseek_v3", "leading_dense_block_count", -1, "leading_dense_block_count"},
      {"mistral4", "attention.temperature_scale", -1, "temperature_scale"},
      {"mistral4", "attention.temperature_length", 0, "temperature_length"},
      {"falcon_h1", "ssm.group_count", 4, "key heads"},
      {"falcon_h1", "ssm.inner_size", 50, "inner_size"},
      {"falcon_h1", "ssm.state_size", 15, "ssm_in"},
      {"falcon_h1", "attention.head_count_kv", 0, "head_count_kv"},
      {"nemotron_h", "feed_forward_length", 64, "a layer with attention"},
      {"nemotron_h", "feed_forward_length", {0, 64}, "feed_forward_length"},
      {"nemotron_h", "attention.head_count_kv", Json::array({0, 0, 0, 0, 0}), "head_count_kv"},
      {"nemotron_h", "attention.head_count_kv", 2, "blk.0.attn_q"},
      {"nemotron_h", "ssm.group_count", 3, "key heads"},
      {"nemotron_h_moe", "moe_latent_size", 16, "moe_latent_size"},
      {"nemotron_h_moe", "expert_count", 5, "ffn_gate_inp"},
      {"nemotron_h_moe", "expert_feed_forward_length", 25, "ffn_up_exps"},
      {"nemotron_h_moe", "expert_shared_feed_forward_length", 0, "expert_shared_feed"},
      {"lfm2", "shortconv.l_cache", 1, "l_cache"},
      {"lfm2", "shortconv.l_cache", 4, "shortconv.conv.weight"},
      {"lfm2", "attention.head_count_kv", Json::array({0, 0, 0, 0}), "head_count_kv"},
      {"lfm2", "attention.head_count_kv", 2, "blk.0.attn_q.weight"},
      {"lfm2_moe", "expert_gating_func", 3, "expert_gating_func"},
      {"lfm2_moe", "leading_dense_block_count", 0, "blk.0.ffn_gate_inp"},
      {"qwen3_next", "ssm.group_count", 0, "group_count"},
      {"qwen3_next", "ssm.group_count", 3, "key heads"},
      {"qwen3_next", "ssm.time_step_rank", 0, "time_step_rank"},
      {"qwen3_next", "ssm.time_step_rank", 3, "inner_size"},
      {"qwen3_next", "ssm.state_size", 0, "state_size"},
      {"qwen3_next", "ssm.state_size", 1000000000, "state_size"},
      {"qwen3_next", "ssm.conv_kernel", 0, "conv_kernel"},
      {"qwen3_next", "ssm.conv_kernel", 3, "ssm_conv1d"},
      {"qwen3_next", "ssm.inner_size", 0, "inner_size"},
      {"qwen3_next", "full_attention_interval", 0, "full_attention_interval"},
      {"qwen3_next", "expert_shared_feed_forward_length", 0, "expert_shared_feed_forward_length"},
      {"granite4_hybrid", "ssm.group_count", 0, "group_count"},
      {"granite4_hybrid", "ssm.group_count", 3, "key heads"},
      {"granite4_hybrid", "ssm.time_step_rank", 3, "inner_size"},
      {"granite4_hybrid", "ssm.time_step_rank", 4, "ssm_in"},
      {"granite4_hybrid", "ssm.state_size", 15, "ssm_in"},
      {"granite4_hybrid", "ssm.conv_kernel", 3, "ssm_conv1d"},
      {"granite4_hybrid", "ssm.conv_kernel", 0, "conv_kernel"},
      {"granite4_hybrid", "ssm.inner_size", 0, "inner_size"},
      {"granite4_hybrid", "attention.head_count_kv", {0, 0, 0, 0}, "key-value heads in a layer"},
      {"granite4_hybrid", "attention.head_count_kv", {0, 2}, "head_count_kv"},
      {"granite4_hybrid", "attention.head_count_kv", {2, 2, 0, 0}, "blk.0.attn_q"},
      {"gemma4_e", "attention.shared_kv_layers", 6, "shared_kv_layers"},
      {"gemma4_e", "attention.key_length_swa", 1, "key_length_swa"},
      {"gemma4_e", "attention.sliding_window", -1, "sliding_window"},
      {"gemma4_e", "embedding_length_per_layer_input", 15, "per_layer_token_embd"},
      {"gemma4_e", "feed_forward_length", 0, "feed_forward_length"},
      {"mimo", "attention.value_length", 0, "value_length"},
      {"mimo", "attention.head_count_kv", {1, 2}, "head_count_kv"},
      {"mimo", "attention.sliding_window_pattern", {1, 0}, "sliding_window_pattern"},
      {"mimo", "expert_count", 7, "ffn_gate_inp"},
      {"minimax_m2", "expert_gating_func", 1, "expert_gating_func"},
      {"minimax_m2", "rope.dimension_count", 7, "dimension_count"},
      {"hunyuan_moe", "expert_shared_feed_forward_length", 15, "shexp"},
      {"hy_v3", "expert_gating_func", 1, "expert_gating_func"},
      {"hy_v3", "expert_shared_feed_forward_length", 15, "shexp"},
      {"exaone_moe", "expert_shared_count", 2, "shexp"},
      {"exaone_moe", "leading_dense_block_count", 0, "blk.0.ffn_gate_inp"},
      {"dots1", "expert_used_count", 5, "expert_used_count"},
      {"afmoe", "attention.head_count_kv", 4, "attn_k"},
      {"afmoe", "leading_dense_block_count", 4, "blk.2.ffn_gate"},
      {"mellum", "attention.sliding_window_pattern", {true}, "sliding_window_pattern"},
      {"bailing_moe", "expert_group_count", 4, "groups of equal size"},
      {"bailing_moe", "attention.head_count_kv", 1, "attn_qkv"},
  };
  std::string unpacked;
  std::optional<Checkpoint> file;
  for (const auto& [family, key, value, named] : refusals) {
    if (family != unpacked) file = open_checkpoint(unpack_maker(family).gguf);
    unpacked = family;
    Json& place = file->metadata[architecture_of(*file) + "." + key];
    const Json before = place;  // null, which counts as absent, where the file does not have it
    place = value;
    const std::string message = try_file(*file);
    EXPECT_NE(message.find(named), std::string::npos) << family << " " << key << ": " << message;
    place = before;
  }
}

}  // namespace
}  // namespace talon::gguf_hostile_test
