#include <gtest/gtest.h>

#include "model/config/tensor_names.h"

// How makers and transformers spell the keys of single families, where one of them has its own way.
namespace talon::published_keys_test {
namespace {

ModelConfig read(const Json& json, std::vector<StoredTensor> tensors = {}) {
  Checkpoint folder;
  folder.format = CheckpointFormat::hugging_face;
  folder.path = "some/model";
  folder.metadata = json;
  folder.tensors = std::move(tensors);
  return read_model_config(folder);
}

Json sizes(const std::string& type, const Json& more) {
  Json json = {{"model_type", type},       {"num_hidden_layers", 4},          {"hidden_size", 64},
               {"intermediate_size", 172}, {"max_position_embeddings", 4096}, {"vocab_size", 512},
               {"num_attention_heads", 8}, {"num_key_value_heads", 4},        {"head_dim", 16}};
  json.update(more);
  return json;
}

/// transformers saves a base for each kind of layers, the makers have one for both.
TEST(Olmo3, WindowedLayersMayHaveABaseOfTheirOwn) {
  const Json yarn = {{"rope_type", "yarn"},
                     {"rope_theta", 2e5},
                     {"factor", 8.0},
                     {"original_max_position_embeddings", 512}};
  const ModelConfig one = read(sizes("olmo3", {{"rope_parameters", yarn}}));
  ASSERT_TRUE(one.local_rope);
  EXPECT_EQ(one.local_rope->base, 2e5);
  EXPECT_EQ(one.local_rope->scaling, RopeConfig::Scaling::none);
  const Json kinds = {{"full_attention", yarn},
                      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 3e4}}}};
  const ModelConfig both = read(sizes("olmo3", {{"rope_parameters", kinds}}));
  EXPECT_EQ(both.rope.base, 2e5);
  EXPECT_EQ(both.rope.scaling, RopeConfig::Scaling::yarn);
  ASSERT_TRUE(both.local_rope);
  EXPECT_EQ(both.local_rope->base, 3e4);
  EXPECT_EQ(both.local_rope->scaling, RopeConfig::Scaling::none);
  EXPECT_EQ(both.plans[0].rope, LayerPlan::Rope::local);
  EXPECT_EQ(both.plans[3].rope, LayerPlan::Rope::global);
}

/// DeepSeek-V3 under a name of its own; that of the models that see holds it as its text model.
TEST(KimiK2, IsReadAsDeepSeekV3) {
  const Json experts = {
      {"n_routed_experts", 8},    {"n_shared_experts", 1},      {"n_group", 1},
      {"topk_group", 1},          {"norm_topk_prob", true},     {"routed_scaling_factor", 2.827},
      {"num_experts_per_tok", 2}, {"moe_intermediate_size", 32}};
  Json text = sizes("kimi_k2", experts);
  text.erase("head_dim");
  text.update(Json{{"q_lora_rank", 24},
                   {"kv_lora_rank", 32},
                   {"qk_nope_head_dim", 16},
                   {"qk_rope_head_dim", 8},
                   {"v_head_dim", 16},
                   {"first_k_dense_replace", 1},
                   {"partial_rotary_factor", 0.5},
                   {"scoring_func", "sigmoid"},
                   {"topk_method", "noaux_tc"}});
  const StoredTensor embedding{
      "language_model.model.embed_tokens.weight", StorageType::f32, {512, 64}, {}};
  const ModelConfig config = read({{"model_type", "kimi_k25"}, {"text_config", text}}, {embedding});
  EXPECT_EQ(config.plans[0].latent.kv_rank, 32);
  EXPECT_EQ(config.plans[0].intermediate, 172);
  EXPECT_EQ(config.plans[1].experts.count, 8);
  EXPECT_EQ(config.plans[1].experts.scale, 2.827F);
  EXPECT_TRUE(config.plans[1].experts.renormalize && config.plans[1].experts.choice_bias);
  EXPECT_TRUE(config.interleaved_rope);
  const TensorNames names = TensorNames::of(CheckpointFormat::hugging_face, config);
  EXPECT_EQ(names.shared_gate, "language_model.model.layers.{}.mlp.shared_experts.gate_proj");
}

TEST(QwenVl, MissingKeysAreThoseOfTheClassOfItsText) {
  for (const char* type : {"qwen2_vl", "qwen2_5_vl"}) {
    const Json text = sizes(std::string(type) + "_text", Json::object());
    const ModelConfig config = read({{"model_type", type}, {"text_config", text}});
    EXPECT_EQ(config.norm_epsilon, 1e-5F) << type;
    EXPECT_EQ(config.rope.base, 1e6) << type;
  }
}

}  // namespace
}  // namespace talon::published_keys_test
