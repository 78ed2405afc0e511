#include <gtest/gtest.h>

#include <cmath>

#include "io/test_files.h"
#include "model/config/tensor_names.h"
#include "model/config/test_config.h"

// Families of 2025 and later: keys that the recorded models do not have, and those of GGUF files.
namespace talon::later_families_test {
namespace {

using test::expect_refusal;
using test::read_folder;

using HeadNorm = LayerPlan::HeadNorm;
using Rope = LayerPlan::Rope;
using Score = RouteArgs::Score;

/// With the experts of most of them, and `more` on top.
Json folder(const std::string& type, const Json& more) {
  Json json = {
      {"model_type", type},          {"num_hidden_layers", 4},   {"hidden_size", 64},
      {"intermediate_size", 96},     {"vocab_size", 512},        {"max_position_embeddings", 4096},
      {"num_attention_heads", 4},    {"num_key_value_heads", 2}, {"head_dim", 16},
      {"moe_intermediate_size", 24}, {"num_experts", 8},         {"num_experts_per_tok", 2}};
  json.update(more);
  return json;
}

std::vector<int> windows(const ModelConfig& config) {
  std::vector<int> all;
  for (const LayerPlan& plan : config.plans) all.push_back(plan.window);
  return all;
}

std::vector<bool> turning(const ModelConfig& config) {
  std::vector<bool> all;
  for (const LayerPlan& plan : config.plans) all.push_back(plan.rope != Rope::none);
  return all;
}

std::vector<bool> mixed(const ModelConfig& config) {
  std::vector<bool> all;
  for (const LayerPlan& plan : config.plans) all.push_back(plan.experts.count > 0);
  return all;
}

/// As published: the older spelling of the rotation. Without one it is that of the class.
TEST(Apertus, HasAnActivationOfItsOwnAndLlama3sRotation) {
  Json json = folder("apertus", {{"hidden_act", "xielu"}, {"rope_theta", 12000000}});
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(config.plans[0].activation, InputTransform::xielu);
  EXPECT_EQ(config.plans[3].head_norm, HeadNorm::per_head);
  EXPECT_EQ(config.rope.scaling, RopeConfig::Scaling::llama3);
  EXPECT_EQ(config.rope.base, 1.2e7);
  EXPECT_EQ(config.rope.original_context, 8192);
  const TensorNames names = TensorNames::of(CheckpointFormat::hugging_face, config);
  EXPECT_EQ(layer_tensor(names.activation, 2, "alpha_p"), "model.layers.2.mlp.act_fn.alpha_p");
  EXPECT_EQ(layer_tensor(names.ffn_norm, 2), "model.layers.2.feedforward_layernorm.weight");
  json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
  EXPECT_EQ(read_folder(json).rope.scaling, RopeConfig::Scaling::linear);
  json["qk_norm"] = false;
  expect_refusal(json, "qk_norm");
}

TEST(InternLm3, BiasesHaveNamesOfTheirOwn) {
  Json json = folder("internlm3", {{"qkv_bias", true}, {"bias", false}});
  EXPECT_TRUE(read_folder(json).plans[0].qkv_bias);
  EXPECT_FALSE(read_folder(json).plans[0].output_bias || read_folder(json).plans[0].mlp_bias);
  json["bias"] = true;
  EXPECT_TRUE(read_folder(json).plans[0].output_bias && read_folder(json).plans[0].mlp_bias);
  json.erase("head_dim");  // of the class
  EXPECT_EQ(read_folder(json).head_dim, 128);
  json["bias"] = 2;
  expect_refusal(json, "bias");
}

TEST(IQuestCoder, IsLlamaWithHeadsOfASize) {
  Json json = folder("iquestcoder", {{"use_sliding_window", false}, {"clip_qkv", nullptr}});
  json.erase("head_dim");
  EXPECT_EQ(read_folder(json).head_dim, 128);
  EXPECT_EQ(read_folder(json).norm_epsilon, 1e-5F);
  json["clip_qkv"] = 8.0;
  expect_refusal(json, "clip_qkv");
}

/// Beside other parts, whose keys and tensors are not looked at.
TEST(QwenOmni, ItsThinkersTextModelIsRead) {
  const auto read_thinker = [](const Json& text) {
    Checkpoint checkpoint;
    checkpoint.format = CheckpointFormat::hugging_face;
    checkpoint.path = "some/model";
    const Json thinker = {{"model_type", "some_thinker"}, {"text_config", text}};
    checkpoint.metadata = {{"model_type", "some_omni"}, {"thinker_config", thinker}};
    checkpoint.tensors.push_back(
        {"thinker.model.embed_tokens.weight", StorageType::f32, {512, 64}, {}});
    checkpoint.tensors.push_back({"talker.lm_head.weight", StorageType::f32, {512, 64}, {}});
    return read_model_config(checkpoint);
  };
  const ModelConfig dense = read_thinker(
      folder("qwen2_5_omni_text", {{"hidden_act", "silu"}, {"use_sliding_window", false}}));
  EXPECT_TRUE(dense.plans[0].qkv_bias && !dense.plans[0].output_bias);
  EXPECT_EQ(dense.rope.base, 1e6);
  EXPECT_EQ(dense.forms.prefix, "thinker.model.");
  EXPECT_TRUE(dense.tied_output);  // the file has no matrix of the thinker's
  const ModelConfig mixture = read_thinker(folder("qwen3_omni_moe_text", {{"num_experts", 8}}));
  EXPECT_EQ(mixture.plans[0].head_norm, HeadNorm::per_head);
  EXPECT_TRUE(mixture.plans[0].experts.renormalize);
}

TEST(Exaone45, IsReadAsItsTextModel) {
  const Json text =
      folder("exaone4_5_text", {{"hidden_act", "silu"}, {"sliding_window_pattern", "LLLG"}});
  const ModelConfig config = read_folder({{"model_type", "exaone4_5"}, {"text_config", text}});
  EXPECT_EQ(windows(config), (std::vector<int>{4096, 4096, 4096, 0}));
  EXPECT_TRUE(config.plans[0].post_norms && !config.plans[0].pre_norms);
}

TEST(MiniMaxM2, AttendsToAllPositionsWithPartsOfHeadsThatTurn) {
  Json json = folder("minimax_m2", {{"num_local_experts", 6},
                                    {"intermediate_size", 32},
                                    {"rotary_dim", 8},
                                    {"attn_type_list", {1, 1, 1, 1}}});
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(config.rope.rotary, 8);
  EXPECT_EQ(config.rope.base, 5e6);
  EXPECT_EQ(config.plans[0].head_norm, HeadNorm::per_row);
  EXPECT_EQ(config.plans[0].experts.count, 6);
  EXPECT_EQ(config.plans[0].experts.width, 32);
  EXPECT_EQ(config.plans[0].experts.score, Score::sigmoid);
  EXPECT_TRUE(config.plans[0].experts.choice_bias && config.plans[0].experts.renormalize);
  json["rotary_dim"] = 16;  // all of a head
  EXPECT_EQ(read_folder(json).rope.rotary, 0);
  json.erase("rotary_dim");  // as saved again
  json["rope_parameters"] = {{"rope_theta", 1e6}, {"partial_rotary_factor", 0.5}};
  EXPECT_EQ(read_folder(json).rope.rotary, 8);
  json["attn_type_list"][2] = 0;
  expect_refusal(json, "attn_type_list");
  json.erase("attn_type_list");
  json["shared_intermediate_size"] = 16;
  expect_refusal(json, "shared_intermediate_size");
}

TEST(HunyuanMoe, NumbersOfLayersAreTheSameInAll) {
  Json json = folder("hunyuan_v1_moe", {{"moe_topk", {3, 3, 3, 3}},
                                        {"num_shared_expert", {1, 1, 1, 1}},
                                        {"rope_scaling", {{"type", "dynamic"}, {"alpha", 1000}}}});
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(config.plans[0].experts.used, 3);
  EXPECT_EQ(config.plans[0].experts.width, 24);
  EXPECT_EQ(config.plans[0].experts.shared_width, 96);
  EXPECT_EQ(config.plans[0].head_norm, HeadNorm::after_rope);
  EXPECT_EQ(config.rope.base, static_cast<float>(1e4 * std::pow(1000.0, 16.0 / 14)));
  json.erase("moe_topk");  // as saved again
  json.erase("moe_intermediate_size");
  EXPECT_EQ(read_folder(json).plans[0].experts.used, 2);
  EXPECT_EQ(read_folder(json).plans[0].experts.width, 96);
  json["moe_topk"] = {3, 3, 2, 3};
  expect_refusal(json, "moe_topk");
  json["moe_topk"] = 9;
  expect_refusal(json, "moe_topk");
}

TEST(Hy3, AllLayersButTheFirstHaveExperts) {
  Json json = folder("hy_v3", {{"rope_theta", 10000.0}, {"num_shared_experts", 2}});
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(mixed(config), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(config.plans[0].head_norm, HeadNorm::per_head);
  EXPECT_EQ(config.plans[1].experts.scale, 2.826F);
  EXPECT_EQ(config.plans[1].experts.shared_width, 48);
  json["moe_router_enable_expert_bias"] = false;
  expect_refusal(json, "moe_router_enable_expert_bias");
}

TEST(ExaoneMoe, LayersWithExpertsHaveThreeSpellings) {
  Json json = folder("exaone_moe", {{"sliding_window", 32}, {"sliding_window_pattern", "LLLG"}});
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(windows(config), (std::vector<int>{32, 32, 32, 0}));
  EXPECT_EQ(turning(config), (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(mixed(config), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(config.plans[1].experts.shared_width, 24);
  EXPECT_EQ(config.plans[1].experts.scale, 2.5F);  // of the class
  EXPECT_TRUE(config.plans[1].pre_norms && !config.plans[1].post_norms);
  json["first_last_k_dense_replace"] = 2;
  EXPECT_EQ(mixed(read_folder(json)), (std::vector<bool>{false, false, true, true}));
  json["is_moe_layer"] = {true, false, true, false};
  EXPECT_EQ(mixed(read_folder(json)), (std::vector<bool>{true, false, true, false}));
  json["mlp_layer_types"] = {"dense", "dense", "dense", "sparse"};
  EXPECT_EQ(mixed(read_folder(json)), (std::vector<bool>{false, false, false, true}));
  json["sliding_window"] = nullptr;
  EXPECT_EQ(turning(read_folder(json)), (std::vector<bool>{true, true, true, true}));
  json["scoring_func"] = "softmax";
  expect_refusal(json, "scoring_func");
}

TEST(Dots1, HasWindowsFromALayerOn) {
  Json json = folder("dots1", {{"n_routed_experts", 8}, {"max_window_layers", 3}});
  EXPECT_EQ(windows(read_folder(json)), (std::vector<int>{0, 0, 0, 4096}));
  EXPECT_FALSE(read_folder(json).plans[0].experts.renormalize);
  json["sliding_window"] = nullptr;
  EXPECT_EQ(windows(read_folder(json)), (std::vector<int>{0, 0, 0, 0}));
}

TEST(Afmoe, FullLayersDoNotTurnAndGatesHaveAMatrix) {
  Json json = folder("afmoe", {{"sliding_window", 32}, {"route_scale", 2.5}});
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(windows(config), (std::vector<int>{32, 32, 32, 0}));
  EXPECT_EQ(turning(config), (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(mixed(config), (std::vector<bool>{false, true, true, true}));
  EXPECT_TRUE(config.plans[0].output_gate && config.plans[0].post_norms);
  EXPECT_TRUE(config.forms.gate_apart);
  EXPECT_EQ(config.plans[1].experts.shared_width, 48);
  EXPECT_EQ(config.plans[1].experts.scale, 2.5F);
  EXPECT_EQ(config.embedding_scale, 1);
  json["mup_enabled"] = true;
  EXPECT_EQ(read_folder(json).embedding_scale, 8);
  json["global_attn_every_n_layers"] = 2;
  EXPECT_EQ(windows(read_folder(json)), (std::vector<int>{32, 0, 32, 0}));
  json["sliding_window"] = 0;
  expect_refusal(json, "sliding_window");
}

/// Its files have no dense network whose width they could name.
TEST(SolarOpen, IsGlm45WithoutNormsOfHeads) {
  Json json = folder("solar_open", {{"n_routed_experts", 8}, {"attention_bias", true}});
  json.erase("intermediate_size");
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(mixed(config), (std::vector<bool>{true, true, true, true}));
  EXPECT_EQ(config.plans[0].head_norm, HeadNorm::none);
  EXPECT_EQ(config.plans[0].experts.shared_width, 24);
  EXPECT_TRUE(config.plans[0].qkv_bias && !config.plans[0].output_bias);
  EXPECT_EQ(config.rope.base, 1e6);
  json["first_k_dense_replace"] = 1;
  expect_refusal(json, "first_k_dense_replace");
}

TEST(Mellum, WindowedLayersTurnOtherwise) {
  Json json = folder(
      "mellum", {{"layer_types",
                  {"sliding_attention", "full_attention", "sliding_attention", "full_attention"}}});
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(windows(config), (std::vector<int>{1024, 0, 1024, 0}));
  EXPECT_EQ(config.rope.base, 5e5);
  ASSERT_TRUE(config.local_rope.has_value());
  EXPECT_EQ(config.local_rope->base, 1e4);
  EXPECT_EQ(config.plans[0].rope, Rope::local);
  EXPECT_TRUE(config.plans[0].experts.renormalize);
  json["mlp_layer_types"] = {"dense", "sparse", "sparse", "sparse"};
  EXPECT_EQ(mixed(read_folder(json)), (std::vector<bool>{false, true, true, true}));
  json.erase("layer_types");
  EXPECT_FALSE(read_folder(json).local_rope.has_value());
}

TEST(Ling, TheFirstModelsOfItsNameAreRefused) {
  Json json = folder("bailing_moe", {{"score_function", "sigmoid"},
                                     {"use_qk_norm", true},
                                     {"partial_rotary_factor", 0.5},
                                     {"num_shared_experts", 2},
                                     {"n_group", 4},
                                     {"topk_group", 2}});
  const ModelConfig config = read_folder(json);
  EXPECT_TRUE(config.forms.fused_qkv);
  EXPECT_EQ(config.rope.rotary, 8);
  EXPECT_EQ(config.plans[0].experts.groups_used, 2);
  EXPECT_EQ(config.plans[0].experts.shared_width, 48);
  const TensorNames names = TensorNames::of(CheckpointFormat::hugging_face, config);
  EXPECT_EQ(names.embedding, "model.word_embeddings.weight");
  json["score_function"] = nullptr;
  expect_refusal(json, "score_function");
}

/// The text models of GLM-4.1V, GLM-4.5V and GLM-4.6V, of which the first may lie below no key.
TEST(GlmThatSees, IsReadAsItsTextModel) {
  const Json dense = {{"model_type", "glm4v"},
                      {"text_config", folder("glm4v_text", {{"partial_rotary_factor", 0.5}})}};
  for (const Json& json : {dense, folder("glm4v", {{"partial_rotary_factor", 0.5}})}) {
    const ModelConfig config = read_folder(json);
    EXPECT_TRUE(config.interleaved_rope && config.plans[0].post_norms);
    EXPECT_TRUE(config.plans[0].qkv_bias && !config.plans[0].output_bias);
    EXPECT_EQ(config.rope.rotary, 8);
    const TensorNames names = TensorNames::of(CheckpointFormat::hugging_face, config);
    EXPECT_EQ(layer_tensor(names.post_ffn_norm, 1), "model.layers.1.post_mlp_layernorm.weight");
  }
  const Json text = folder("glm4v_moe_text", {{"n_routed_experts", 8}});
  const ModelConfig mixture = read_folder({{"model_type", "glm4v_moe"}, {"text_config", text}});
  EXPECT_EQ(mixed(mixture), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(mixture.rope.rotary, 8);
  EXPECT_FALSE(mixture.interleaved_rope);
  const TensorNames names = TensorNames::of(CheckpointFormat::hugging_face, mixture);
  EXPECT_EQ(layer_tensor(names.shared_up, 1), "model.layers.1.mlp.shared_experts.up_proj.weight");
}

Json gguf_keys(const Json& more = Json::object()) {
  Json keys = {{"block_count", 4},
               {"embedding_length", 64},
               {"feed_forward_length", 96},
               {"context_length", 512},
               {"attention.head_count", 4},
               {"attention.head_count_kv", 2},
               {"attention.key_length", 16},
               {"attention.value_length", 16},
               {"attention.layer_norm_rms_epsilon", 1e-5},
               {"expert_count", 8},
               {"expert_used_count", 2},
               {"expert_feed_forward_length", 24},
               {"expert_shared_count", 1},
               {"expert_gating_func", 2},
               {"leading_dense_block_count", 1}};
  keys.update(more);
  return keys;
}

TEST(LaterGguf, MixturesShareDeepSeeksRouting) {
  for (const char* name : {"dots1", "exaone-moe", "afmoe", "bailingmoe2"}) {
    const Json keys = gguf_keys({{"expert_weights_norm", true},
                                 {"expert_weights_scale", 2.5},
                                 {"attention.sliding_window", 32}});
    const ModelConfig config = test::read_gguf(keys, name);
    EXPECT_EQ(mixed(config), (std::vector<bool>{false, true, true, true})) << name;
    const ExpertPlan& experts = config.plans[1].experts;
    EXPECT_TRUE(experts.choice_bias && experts.renormalize) << name;
    EXPECT_EQ(experts.score, Score::sigmoid) << name;
    EXPECT_EQ(experts.scale, 2.5F) << name;
    EXPECT_EQ(experts.shared_width, 24) << name;
    EXPECT_EQ(config.plans[0].head_norm, HeadNorm::per_head) << name;
  }
}

TEST(LaterGguf, Hy3sRoutersTellWhichLayersHaveExperts) {
  const Json keys = gguf_keys({{"expert_weights_norm", true}, {"expert_weights_scale", 2.5}});
  const ModelConfig config = test::read_gguf(keys, "hy_v3", {"blk.2.ffn_gate_inp.weight"});
  EXPECT_EQ(mixed(config), (std::vector<bool>{false, false, true, false}));
  EXPECT_EQ(config.plans[2].experts.scale, 2.5F);
  EXPECT_EQ(config.plans[2].experts.shared_width, 24);  // where the file does not say
  const TensorNames names = TensorNames::of(CheckpointFormat::gguf, config);
  EXPECT_EQ(names.choice_bias, "blk.{}.exp_probs_b");
}

TEST(LaterGguf, FullLayersBesideWindowsDoNotTurn) {
  const Json keys = gguf_keys({{"attention.sliding_window", 32}});
  for (const char* name : {"exaone-moe", "afmoe"}) {
    const ModelConfig config = test::read_gguf(keys, name);
    EXPECT_EQ(windows(config), (std::vector<int>{32, 32, 32, 0})) << name;
    EXPECT_EQ(turning(config), (std::vector<bool>{true, true, true, false})) << name;
  }
  EXPECT_EQ(test::read_gguf(keys, "afmoe").embedding_scale, 8);
  EXPECT_TRUE(test::read_gguf(keys, "afmoe").forms.gate_apart);
  const auto all = turning(test::read_gguf(gguf_keys(), "exaone-moe"));
  EXPECT_EQ(all, (std::vector<bool>{true, true, true, true}));
  // Of Trinity without windows no layer would turn.
  const std::string message = test::message_of([&] { test::read_gguf(gguf_keys(), "afmoe"); });
  EXPECT_NE(message.find("attention.sliding_window"), std::string::npos) << message;
}

TEST(LaterGguf, MiniMaxHunyuanAndMellumAreRead) {
  Json keys = gguf_keys({{"rope.dimension_count", 8}});
  const ModelConfig minimax = test::read_gguf(keys, "minimax-m2");
  EXPECT_EQ(minimax.plans[0].head_norm, HeadNorm::per_row);
  EXPECT_EQ(minimax.rope.rotary, 8);
  EXPECT_EQ(minimax.plans[0].experts.shared_width, 0);
  keys["expert_gating_func"] = 1;
  const std::string message = test::message_of([&] { test::read_gguf(keys, "minimax-m2"); });
  EXPECT_NE(message.find("expert_gating_func"), std::string::npos) << message;
  const ModelConfig hunyuan = test::read_gguf(gguf_keys(), "hunyuan-moe");
  EXPECT_EQ(hunyuan.plans[0].head_norm, HeadNorm::after_rope);
  EXPECT_EQ(hunyuan.plans[0].experts.shared_width, 96);  // where the file does not say
  EXPECT_EQ(hunyuan.plans[0].experts.score, Score::softmax);
  const Json windowed =
      gguf_keys({{"attention.sliding_window", 32}, {"rope.freq_base_swa", 1000.0}});
  const ModelConfig mellum = test::read_gguf(windowed, "mellum");
  ASSERT_TRUE(mellum.local_rope.has_value());
  EXPECT_EQ(mellum.local_rope->base, 1000);
  EXPECT_EQ(mellum.plans[2].rope, Rope::local);
}

Checkpoint apertus_gguf() {
  Checkpoint file;
  file.format = CheckpointFormat::gguf;
  file.path = "some/model";
  file.metadata = {{"general.architecture", "apertus"},
                   {"xielu.alpha_p", {0.5, 0.5, 0.5, 0.5}},
                   {"xielu.alpha_n", {0.5, 0.5, 0.5, 0.5}},
                   {"xielu.beta", {0.5, 0.5, 0.5, 0.5}},
                   {"xielu.eps", 0.0}};  // of all
  const Json keys = gguf_keys();
  for (const auto& [key, value] : keys.items()) file.metadata["apertus." + key] = value;
  file.tensors.push_back({"token_embd.weight", StorageType::f32, {300, 64}, {}});
  return file;
}

TEST(LaterGguf, ApertusHasANumberOfEachLayer) {
  Checkpoint file = apertus_gguf();
  EXPECT_EQ(read_model_config(file).plans[3].activation, InputTransform::xielu);
  for (const char* key : {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"}) {
    for (const Json& wrong : {Json(), Json::array({0.5, 0.5}), Json(1e9), Json("0.5")}) {
      file = apertus_gguf();
      file.metadata[key] = wrong;
      const std::string message = test::message_of([&] { read_model_config(file); });
      EXPECT_NE(message.find(key), std::string::npos) << message;
    }
  }
}

/// MiniMax' answers end so; after Solar Open's marks of the same name other messages may follow.
TEST(LaterGguf, AnswersEndAtMarksOfTheirOwn) {
  Checkpoint file = apertus_gguf();
  file.metadata["tokenizer.ggml.tokens"] = {"<|end|>", "[e~[", "a"};
  file.metadata["tokenizer.ggml.token_type"] = {3, 3, 1};
  EXPECT_EQ(read_model_config(file).end_tokens, (std::vector<TokenId>{1, 0}));
  file.metadata["tokenizer.ggml.tokens"] = {"<|end|>", "<|flush|>", "<|calls|>"};
  EXPECT_EQ(read_model_config(file).end_tokens, (std::vector<TokenId>{1, 2}));
}

}  // namespace
}  // namespace talon::later_families_test
