#include <gtest/gtest.h>

#include "io/test_files.h"
#include "model/config/tensor_names.h"
#include "model/config/test_config.h"

// How makers and transformers spell the keys of single families, where one of them has its own way.
namespace talon::published_keys_test {
namespace {

using test::read_folder;

std::string refusal(const Json& json) {
  return test::message_of([&] { read_folder(json); });
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
  const ModelConfig one = read_folder(sizes("olmo3", {{"rope_parameters", yarn}}));
  ASSERT_TRUE(one.local_rope);
  EXPECT_EQ(one.local_rope->base, 2e5);
  EXPECT_EQ(one.local_rope->scaling, RopeConfig::Scaling::none);
  const Json kinds = {{"full_attention", yarn},
                      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 3e4}}}};
  const ModelConfig both = read_folder(sizes("olmo3", {{"rope_parameters", kinds}}));
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
  const ModelConfig config =
      read_folder({{"model_type", "kimi_k25"}, {"text_config", text}}, {embedding});
  EXPECT_EQ(config.plans[0].latent.kv_rank, 32);
  EXPECT_EQ(config.plans[0].intermediate, 172);
  EXPECT_EQ(config.plans[1].experts.count, 8);
  EXPECT_EQ(config.plans[1].experts.scale, 2.827F);
  EXPECT_TRUE(config.plans[1].experts.renormalize && config.plans[1].experts.choice_bias);
  EXPECT_TRUE(config.interleaved_rope);
  const TensorNames names = TensorNames::of(CheckpointFormat::hugging_face, config);
  EXPECT_EQ(names.shared_gate, "language_model.model.layers.{}.mlp.shared_experts.gate_proj");
}

/// transformers prefers what the whole configuration says, and takes the context where neither
/// does.
TEST(RopeScaling, TheOriginalContextMayStandBesideIt) {
  const Json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}};
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0}};
  for (Json scaling : {yarn, llama3}) {
    const auto original = [&](const Json& more) {
      Json json = sizes("llama", {{"rope_scaling", scaling}});
      json.update(more);
      return read_folder(json).rope.original_context;
    };
    EXPECT_EQ(original(Json::object()), 4096);
    EXPECT_EQ(original({{"original_max_position_embeddings", 512}}), 512);
    scaling["original_max_position_embeddings"] = 1024;
    EXPECT_EQ(original(Json::object()), 1024);
    EXPECT_EQ(original({{"original_max_position_embeddings", 512}}), 512);
  }
}

/// As of a small model for which nobody chose others.
TEST(Tokens, OfTheClassThatTheModelHasNotArePassedOver) {
  const ModelConfig olmo =
      read_folder(sizes("olmo2", {{"eos_token_id", 50279}, {"bos_token_id", 50256}}));
  EXPECT_TRUE(olmo.end_tokens.empty());
  EXPECT_FALSE(olmo.start_token);
  const Json several = {{"eos_token_id", {7, 151336}}};
  EXPECT_EQ(read_folder(sizes("glm4", several)).end_tokens, std::vector<TokenId>{7});
}

/// transformers makes all numbers as long as the largest.
TEST(Gemma4, NumbersOfLayersMayBeginWithZeros) {
  Json json = sizes("gemma4_text", {{"num_hidden_layers", 12}, {"hidden_size_per_layer_input", 0}});
  json["per_layer_config"] = {{"05", {{"head_dim", 32}}}, {"11", {{"head_dim", 32}}}};
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(config.plans[5].head_dim, 32);
  EXPECT_EQ(config.plans[11].head_dim, 32);
  EXPECT_EQ(config.plans[0].head_dim, 16);
}

TEST(OwnLayers, AreRefusedOfFamiliesThatHaveNone) {
  for (const char* type : {"llama", "mistral", "qwen3"}) {
    Json json = sizes(type, {{"per_layer_config", Json::object()}});
    EXPECT_EQ(read_folder(json).layers, 4) << type;
    json["per_layer_config"]["1"] = {{"sliding_window", 16}};
    EXPECT_NE(refusal(json).find("\"per_layer_config\": expected nothing"), std::string::npos)
        << refusal(json);
  }
}

/// As some versions of transformers save them: without what equals the defaults of the class.
TEST(TextModels, BelowOthersMayLackTheSizesOfTheirClass) {
  const auto read_text = [](const Json& text) {
    return read_folder({{"model_type", "llava"}, {"text_config", text}});
  };
  const ModelConfig vicuna =
      read_text({{"model_type", "llama"}, {"vocab_size", 32064}, {"rms_norm_eps", 1e-5}});
  EXPECT_EQ(vicuna.hidden, 4096);
  EXPECT_EQ(vicuna.intermediate, 11008);
  EXPECT_EQ(vicuna.layers, 32);
  EXPECT_EQ(vicuna.kv_heads, 32);
  EXPECT_EQ(vicuna.vocabulary, 32064);
  const ModelConfig mistral = read_text({{"model_type", "mistral"},
                                         {"hidden_size", 5120},
                                         {"head_dim", 128},
                                         {"num_hidden_layers", 40},
                                         {"sliding_window", nullptr}});
  EXPECT_EQ(mistral.kv_heads, 8);
  EXPECT_EQ(mistral.heads, 32);
  EXPECT_EQ(mistral.context, 131072);
  EXPECT_EQ(mistral.sliding_window, 0);
  const ModelConfig qwen2 = read_text({{"model_type", "qwen2"}, {"num_key_value_heads", 4}});
  EXPECT_EQ(qwen2.intermediate, 22016);
  EXPECT_EQ(qwen2.vocabulary, 151936);
  const ModelConfig llama4 = read_text({{"model_type", "llama4_text"}});
  EXPECT_EQ(llama4.layers, 48);
  EXPECT_EQ(llama4.head_dim, 128);
  EXPECT_EQ(llama4.plans[0].experts.count, 16);
}

TEST(Ministral, LayersHaveTheWindowThatAreListedElseAll) {
  Json json = sizes("ministral", {{"sliding_window", 9}});
  const auto windows = [&] {
    std::vector<int> all;
    for (const LayerPlan& plan : read_folder(json).plans) all.push_back(plan.window);
    return all;
  };
  EXPECT_EQ(windows(), (std::vector<int>{9, 9, 9, 9}));
  const std::string far = "full_attention", near = "sliding_attention";
  json["layer_types"] = {far, near, near, far};
  EXPECT_EQ(windows(), (std::vector<int>{0, 9, 9, 0}));
  json.erase("sliding_window");
  EXPECT_EQ(windows(), (std::vector<int>{0, 4096, 4096, 0}));
}

/// The first releases call it "su" and "yarn". Its class knows the original context.
TEST(Phi3, FactorsOfFrequenciesMayHaveOtherNames) {
  Json json = sizes("phi3", {{"max_position_embeddings", 131072}});
  const std::vector<float> factors(8, 2);
  json["rope_scaling"] = {{"short_factor", factors}, {"long_factor", factors}};
  for (const char* type : {"longrope", "su", "yarn"}) {
    json["rope_scaling"]["type"] = type;
    const ModelConfig config = read_folder(json);
    EXPECT_EQ(config.rope.scaling, RopeConfig::Scaling::longrope) << type;
    EXPECT_EQ(config.rope.original_context, 4096) << type;
    EXPECT_EQ(config.rope.long_divisors, factors) << type;
  }
}

TEST(GptOss, AnotherSlopeOfItsGateIsRefused) {
  Json json = sizes("gpt_oss", {{"num_local_experts", 8}, {"num_experts_per_tok", 2}});
  json["swiglu_alpha"] = 1.702;
  EXPECT_EQ(read_folder(json).layers, 4);
  json["swiglu_alpha"] = 1.5;
  EXPECT_NE(refusal(json).find("\"swiglu_alpha\": expected 1.702, found 1.5"), std::string::npos)
      << refusal(json);
}

/// As where a model was cut to its first layers.
TEST(ListsOfLayers, MayGoOnBehindTheLastOne) {
  const auto turning = [](const Json& json) {
    std::vector<bool> all;
    for (const LayerPlan& plan : read_folder(json).plans)
      all.push_back(plan.rope != LayerPlan::Rope::none);
    return all;
  };
  const Json turns = {{"no_rope_layers", {0, 1, 1, 0, 1, 0}}};
  EXPECT_EQ(turning(sizes("smollm3", turns)), (std::vector<bool>{false, true, true, false}));
  Json llama4 = sizes("llama4_text", turns);
  llama4.update(
      {{"intermediate_size_mlp", 96}, {"num_local_experts", 4}, {"moe_layers", {1, 3, 5}}});
  EXPECT_EQ(turning(llama4), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(read_folder(llama4).plans[3].experts.count, 4);
  EXPECT_EQ(read_folder(llama4).plans[2].experts.count, 0);
  EXPECT_NE(refusal(sizes("smollm3", {{"no_rope_layers", {0, 1, 1}}})).find("4 values"),
            std::string::npos);
}

TEST(QwenVl, MissingKeysAreThoseOfTheClassOfItsText) {
  for (const char* type : {"qwen2_vl", "qwen2_5_vl"}) {
    const Json text = sizes(std::string(type) + "_text", Json::object());
    const ModelConfig config = read_folder({{"model_type", type}, {"text_config", text}});
    EXPECT_EQ(config.norm_epsilon, 1e-5F) << type;
    EXPECT_EQ(config.rope.base, 1e6) << type;
  }
}

TEST(Gemma1, IsGemma2WithTheNormsOfLlamaAndWithoutCapsAndWindows) {
  Json json = sizes("gemma", {{"hidden_act", "gelu"}});  // which its makers approximate
  json.erase("head_dim");
  const ModelConfig config = read_folder(json);
  EXPECT_TRUE(config.tied_output);
  EXPECT_TRUE(config.forms.norm_plus_one);
  EXPECT_EQ(config.embedding_scale, 8);
  EXPECT_EQ(config.logit_cap, 0);
  const LayerPlan& plan = config.plans[0];
  EXPECT_EQ(plan.head_dim, 256);
  EXPECT_EQ(plan.activation, InputTransform::gelu_tanh_gate);
  EXPECT_FALSE(plan.post_norms);
  EXPECT_EQ(plan.window, 0);
  EXPECT_EQ(plan.soft_cap, 0);
  const TensorNames names = TensorNames::of(CheckpointFormat::hugging_face, config);
  EXPECT_EQ(names.ffn_norm, "model.layers.{}.post_attention_layernorm");
  json["hidden_activation"] = "gelu";
  EXPECT_NE(refusal(json).find("hidden_activation"), std::string::npos) << refusal(json);
  json["hidden_activation"] = "gelu_pytorch_tanh";
  EXPECT_EQ(read_folder(json).hidden, 64);
  json["use_bidirectional_attention"] = true;
  EXPECT_NE(refusal(json).find("use_bidirectional"), std::string::npos) << refusal(json);
}

TEST(Cohere1, TurnsInAllLayersAndNamesItsContextTwice) {
  Json json = sizes("cohere", {{"logit_scale", 0.25}, {"model_max_length", 131072}});
  const ModelConfig config = read_folder(json);
  EXPECT_TRUE(config.tied_output);
  EXPECT_TRUE(config.interleaved_rope);
  EXPECT_EQ(config.logit_scale, 0.25F);
  EXPECT_EQ(config.context, 131072);
  EXPECT_EQ(config.norm_epsilon, 1e-5F);
  EXPECT_EQ(config.final_norm, LayerPlan::Norm::layer);
  for (const LayerPlan& plan : config.plans) {
    EXPECT_TRUE(plan.parallel);
    EXPECT_EQ(plan.norm, LayerPlan::Norm::layer);
    EXPECT_EQ(plan.rope, LayerPlan::Rope::global);
    EXPECT_EQ(plan.window, 0);
  }
  const TensorNames names = TensorNames::of(CheckpointFormat::hugging_face, config);
  EXPECT_EQ(names.ffn_norm, names.attention_norm);
  json.erase("model_max_length");  // as of Aya 23
  EXPECT_EQ(read_folder(json).context, 4096);
  EXPECT_EQ(config.plans[0].head_norm, LayerPlan::HeadNorm::none);
}

TEST(CommandRPlus, HasALayerNormWithoutABiasForEachHead) {
  Json json = sizes("cohere", {{"use_qk_norm", true}});
  for (const LayerPlan& plan : read_folder(json).plans) {
    EXPECT_EQ(plan.head_norm, LayerPlan::HeadNorm::layer_per_head);
    EXPECT_FALSE(plan.head_norm_bias);
  }
  json["use_qk_norm"] = "yes";
  EXPECT_NE(refusal(json).find("use_qk_norm"), std::string::npos) << refusal(json);
  const Json other = sizes("cohere2", {{"use_qk_norm", true}});  // whose class has none
  EXPECT_NE(refusal(other).find("use_qk_norm"), std::string::npos) << refusal(other);
}

TEST(Glm, IsGlm4WithTheNormsOfLlama) {
  const ModelConfig config = read_folder(sizes("glm", Json::object()));
  EXPECT_TRUE(config.interleaved_rope);
  EXPECT_TRUE(config.forms.fused_gate_up);
  EXPECT_EQ(config.rope.rotary, 8);
  EXPECT_EQ(config.norm_epsilon, 1.5625e-7F);
  EXPECT_TRUE(config.plans[0].qkv_bias);
  EXPECT_FALSE(config.plans[0].output_bias);
  EXPECT_FALSE(config.plans[0].post_norms);
  EXPECT_TRUE(read_folder(sizes("glm4", Json::object())).plans[0].post_norms);
  const TensorNames names = TensorNames::of(CheckpointFormat::hugging_face, config);
  EXPECT_EQ(names.ffn_norm, "model.layers.{}.post_attention_layernorm");
}

TEST(StableLm, HasBiasesOfNormsAndMaybeOfQueriesKeysAndValues) {
  const ModelConfig config = read_folder(sizes("stablelm", {{"use_qkv_bias", true}}));
  EXPECT_EQ(config.rope.rotary, 4);
  EXPECT_EQ(config.norm_epsilon, 1e-5F);
  EXPECT_TRUE(config.final_norm_bias);
  const LayerPlan& plan = config.plans[0];
  EXPECT_EQ(plan.norm, LayerPlan::Norm::layer);
  EXPECT_EQ(plan.activation, InputTransform::silu_gate);
  EXPECT_TRUE(plan.norm_bias && plan.qkv_bias);
  EXPECT_FALSE(plan.output_bias || plan.mlp_bias || plan.parallel);
  EXPECT_FALSE(read_folder(sizes("stablelm", Json::object())).plans[0].qkv_bias);
  const TensorNames names = TensorNames::of(CheckpointFormat::hugging_face, config);
  EXPECT_EQ(names.ffn_norm, "model.layers.{}.post_attention_layernorm");
}

TEST(StableLm, Of12BNormsHeadsAndHasOneNormForBothHalves) {
  const Json keys = {{"qk_layernorm", true}, {"use_parallel_residual", true}};
  const ModelConfig config = read_folder(sizes("stablelm", keys));
  for (const LayerPlan& plan : config.plans) {
    EXPECT_EQ(plan.head_norm, LayerPlan::HeadNorm::layer_per_head);
    EXPECT_TRUE(plan.parallel && plan.norm_bias);
    EXPECT_FALSE(plan.head_norm_bias || plan.qkv_bias);
  }
  const TensorNames names = TensorNames::of(CheckpointFormat::hugging_face, config);
  EXPECT_EQ(names.ffn_norm, names.attention_norm);
  EXPECT_EQ(names.q_norm, "model.layers.{}.self_attn.q_layernorm.norms.{}");
  for (const char* key : {"qk_layernorm", "use_parallel_residual"}) {
    const std::string message = refusal(sizes("stablelm", {{key, 2}}));
    EXPECT_NE(message.find(key), std::string::npos) << message;
  }
}

/// Refused with a message that names the key.
void expect_refused(Json json, const char* key, const Json& value) {
  json[key] = value;
  EXPECT_NE(refusal(json).find(key), std::string::npos) << refusal(json);
}

TEST(Arcee, IsLlamaWithANetworkWithoutAGate) {
  const Json json = sizes("arcee", {{"hidden_act", "relu2"}});
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(config.norm_epsilon, 1e-5F);
  const LayerPlan& plan = config.plans[0];
  EXPECT_EQ(plan.activation, InputTransform::relu_squared);
  EXPECT_FALSE(is_gate(plan.activation));
  EXPECT_EQ(plan.norm, LayerPlan::Norm::rms);
  EXPECT_FALSE(plan.qkv_bias || plan.mlp_bias || config.interleaved_rope);
  expect_refused(json, "hidden_act", "silu");
  expect_refused(json, "mlp_bias", "yes");
  expect_refused(json, "partial_rotary_factor", 0.5);
}

TEST(Nemotron, HoldsLayerNormsLess1AndTurnsHalfOfAHead) {
  const Json json = sizes("nemotron", Json::object());
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(config.norm_epsilon, 1e-5F);
  EXPECT_EQ(config.rope.rotary, 8);
  EXPECT_TRUE(config.forms.norm_plus_one && config.final_norm_bias);
  EXPECT_EQ(config.final_norm, LayerPlan::Norm::layer);
  const LayerPlan& plan = config.plans[0];
  EXPECT_EQ(plan.norm, LayerPlan::Norm::layer);
  EXPECT_EQ(plan.activation, InputTransform::relu_squared);
  EXPECT_TRUE(plan.norm_bias);
  EXPECT_FALSE(plan.qkv_bias || plan.output_bias || plan.mlp_bias || plan.parallel);
  Json other = json;
  other["norm_eps"] = 1e-3;
  EXPECT_EQ(read_folder(other).norm_epsilon, 1e-3F);
  expect_refused(json, "norm_eps", 2);
  expect_refused(json, "hidden_act", "gelu");
  expect_refused(json, "partial_rotary_factor", 0.1);  // one column
}

TEST(MlpBias, IsReadOfFamiliesWhoseNetworksMayHaveBiases) {
  for (const char* family : {"llama", "arcee", "nemotron"}) {
    Json json = sizes(family, {{"mlp_bias", true}});
    if (json["model_type"] != "llama") json["hidden_act"] = "relu2";
    for (const LayerPlan& plan : read_folder(json).plans) EXPECT_TRUE(plan.mlp_bias) << family;
  }
  expect_refused(sizes("qwen2", Json::object()), "mlp_bias", true);
}

TEST(Phi2, HasBiasesEverywhereAndOneNormForBothHalves) {
  const Json json = sizes("phi", {{"hidden_act", "gelu_new"}});
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(config.norm_epsilon, 1e-5F);
  EXPECT_EQ(config.rope.rotary, 8);
  EXPECT_TRUE(config.final_norm_bias && config.output_matrix_bias);
  const LayerPlan& plan = config.plans[0];
  EXPECT_EQ(plan.norm, LayerPlan::Norm::layer);
  EXPECT_EQ(plan.activation, InputTransform::gelu_tanh);
  EXPECT_TRUE(plan.parallel && plan.norm_bias);
  EXPECT_TRUE(plan.qkv_bias && plan.output_bias && plan.mlp_bias);
  const TensorNames names = TensorNames::of(CheckpointFormat::hugging_face, config);
  EXPECT_EQ(names.ffn_norm, names.attention_norm);
  EXPECT_EQ(names.final_norm, "model.final_layernorm");
  EXPECT_EQ(names.o, "model.layers.{}.self_attn.dense");
  EXPECT_EQ(names.down, "model.layers.{}.mlp.fc2");
  EXPECT_EQ(names.output_bias(), "lm_head.bias");
  expect_refused(json, "hidden_act", "gelu");
  expect_refused(json, "qk_layernorm", "yes");
  EXPECT_FALSE(plan.head_norm_bias);
  const LayerPlan with = read_folder(sizes("phi", {{"qk_layernorm", true}})).plans[3];
  EXPECT_EQ(with.head_norm, LayerPlan::HeadNorm::layer_per_head);
  EXPECT_TRUE(with.head_norm_bias && with.parallel);
  EXPECT_EQ(names.q_norm, "model.layers.{}.self_attn.q_layernorm");
}

TEST(MiniCpm, MultipliersAreThoseOfGraniteUnderOtherNames) {
  Json json = sizes("minicpm", {{"scale_emb", 12}, {"scale_depth", 1.4}, {"dim_model_base", 16}});
  const ModelConfig config = read_folder(json);
  EXPECT_TRUE(config.tied_output);
  EXPECT_EQ(config.embedding_scale, 12);
  EXPECT_EQ(config.logit_scale, 0.25F);
  EXPECT_FLOAT_EQ(config.plans[3].residual_scale, 0.7F);
  EXPECT_EQ(config.plans[3].score_scale, 0);
  json["sparse_config"] = {{"topk", 64}};
  EXPECT_NE(refusal(json).find("sparse_config"), std::string::npos) << refusal(json);
}

TEST(Hunyuan, NormsHeadsBehindTheRotationWhoseBaseIsStretched) {
  const Json scaling = {{"type", "dynamic"}, {"alpha", 1000.0}, {"factor", 1.0}};
  Json json = sizes("hunyuan_v1_dense", {{"head_dim", 128}});
  EXPECT_EQ(read_folder(json).rope.base, 10000);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    Json stretched = json;
    stretched[key] = scaling;
    EXPECT_NEAR(read_folder(stretched).rope.base, 11158839.9, 1)
        << key;  // 1e4 * 1000 ^ (128 / 126)
  }
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(config.norm_epsilon, 1e-5F);
  EXPECT_EQ(config.plans[0].head_norm, LayerPlan::HeadNorm::after_rope);
  EXPECT_TRUE(config.plans[0].head_norm_weights);
  const TensorNames names = TensorNames::of(CheckpointFormat::hugging_face, config);
  EXPECT_EQ(names.q_norm, "model.layers.{}.self_attn.query_layernorm");
  EXPECT_EQ(names.k_norm, "model.layers.{}.self_attn.key_layernorm");
  for (const auto& [key, value] : {std::pair("use_qk_norm", false), std::pair("use_cla", true)}) {
    json[key] = value;
    EXPECT_NE(refusal(json).find(key), std::string::npos) << refusal(json);
    json.erase(key);
  }
}

}  // namespace
}  // namespace talon::published_keys_test
