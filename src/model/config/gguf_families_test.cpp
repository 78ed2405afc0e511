#include <gtest/gtest.h>

#include <span>

#include "io/test_files.h"
#include "model/config/tensor_names.h"
#include "model/config/test_config.h"

// What GGUF files of single families leave out or say in other ways.
namespace talon::gguf_families_test {
namespace {

using Scaling = RopeConfig::Scaling;

Json sizes(const Json& more = Json::object()) {
  Json keys = {{"block_count", 6},           {"embedding_length", 64},
               {"feed_forward_length", 172}, {"context_length", 512},
               {"attention.head_count", 8},  {"attention.layer_norm_rms_epsilon", 1e-5}};
  keys.update(more);
  return keys;
}

using test::read_gguf;

std::string refusal(const Json& keys, const std::string& architecture) {
  return test::message_of([&] { read_gguf(keys, architecture); });
}

TEST(GgufGemma2, MissingKeysAreThoseOfTheMakersModels) {
  const ModelConfig sparse = read_gguf(sizes(), "gemma2");
  EXPECT_EQ(sparse.logit_cap, 30);
  EXPECT_EQ(sparse.plans[0].soft_cap, 50);
  EXPECT_EQ(sparse.plans[0].window, 4096);
  EXPECT_EQ(sparse.plans[1].window, 0);
  const ModelConfig whole = read_gguf(sizes({{"attn_logit_softcapping", 4.0},
                                             {"final_logit_softcapping", 12.0},
                                             {"attention.sliding_window", 24}}),
                                      "gemma2");
  EXPECT_EQ(whole.logit_cap, 12);
  EXPECT_EQ(whole.plans[0].soft_cap, 4);
  EXPECT_EQ(whole.plans[0].window, 24);
}

TEST(GgufGemma3, BasesMayHaveOllamasNames) {
  const Json of_1b = sizes({{"attention.sliding_window", 64},
                            {"rope.global.freq_base", 2e6},
                            {"rope.local.freq_base", 2e4},
                            {"final_logit_softcapping", 30.0}});
  const ModelConfig config = read_gguf(of_1b, "gemma3");
  EXPECT_EQ(config.rope.base, 2e6);
  EXPECT_EQ(config.rope.scaling, Scaling::none);
  ASSERT_TRUE(config.local_rope);
  EXPECT_EQ(config.local_rope->base, 2e4);
  EXPECT_EQ(config.logit_cap, 0);  // which the model has not
  Json usual = of_1b;
  usual.update({{"rope.freq_base", 3e6}, {"rope.freq_base_swa", 3e4}});
  EXPECT_EQ(read_gguf(usual, "gemma3").rope.base, 3e6);
  EXPECT_EQ(read_gguf(usual, "gemma3").local_rope->base, 3e4);
  EXPECT_EQ(read_gguf(usual, "gemma3").logit_cap, 30);
}

TEST(GgufGemma3, OllamasFilesOfModelsThatSeeLackWhatTheyHaveInCommon) {
  Json sees = sizes({{"context_length", 131072}, {"attention.sliding_window", 1024}});
  EXPECT_EQ(read_gguf(sees, "gemma3").rope.scaling, Scaling::none);
  sees.erase("attention.layer_norm_rms_epsilon");
  const ModelConfig config = read_gguf(sees, "gemma3");
  EXPECT_EQ(config.norm_epsilon, 1e-6F);
  EXPECT_EQ(config.rope.base, 1e6);
  EXPECT_EQ(config.rope.scaling, Scaling::linear);
  EXPECT_EQ(config.rope.factor, 8);
  EXPECT_EQ(config.local_rope->base, 1e4);
  EXPECT_EQ(config.local_rope->scaling, Scaling::none);
  EXPECT_NE(refusal(sees, "llama").find("layer_norm_rms_epsilon"), std::string::npos);
}

/// YaRN divides by the logarithm of the base.
TEST(GgufYarn, IsRefusedWithABaseOf1AlsoUnderANameOfTheFamilys) {
  const Json yarn = {{"rope.scaling.type", "yarn"}, {"rope.scaling.factor", 4.0}};
  Json keys = sizes(yarn);
  keys["rope.global.freq_base"] = 1.0;
  EXPECT_NE(refusal(keys, "gemma3").find("more than 1 beside YaRN, found 1"), std::string::npos);
  keys["rope.global.freq_base"] = 1e6;
  EXPECT_EQ(read_gguf(keys, "gemma3").rope.scaling, Scaling::yarn);
}

TEST(GgufGlm4, ModelsThatSeeHaveHalfSplitRows) {
  EXPECT_TRUE(read_gguf(sizes(), "glm4").interleaved_rope);
  const auto with = [](const Json& sections) {
    return read_gguf(sizes({{"rope.dimension_sections", sections}}), "glm4").interleaved_rope;
  };
  EXPECT_FALSE(with({8, 12, 12, 0}));
  EXPECT_TRUE(with({0, 0, 0, 0}));
}

TEST(GgufYarn, AMultiplierBelow1IsAFactorOfTheUsualOne) {
  constexpr double kUsual = 1.138629436;  // 1 + 0.1 ln 4
  Json keys = sizes({{"rope.scaling.type", "yarn"},
                     {"rope.scaling.factor", 4.0},
                     {"rope.scaling.original_context_length", 128}});
  const auto amplitude = [&] { return read_gguf(keys, "qwen3").rope.attention_factor; };
  EXPECT_NEAR(amplitude(), kUsual, 1e-8);
  keys["rope.scaling.yarn_attn_factor"] = 0.8782488562869419;  // as of DeepSeek-R1-0528-Qwen3-8B
  EXPECT_NEAR(amplitude(), kUsual, 1e-8);
  keys["rope.scaling.attn_factor"] = 0.75;  // as Talon writes both
  EXPECT_EQ(amplitude(), 0.8782488562869419);
  keys["rope.scaling.yarn_attn_factor"] = 1.25;
  EXPECT_EQ(amplitude(), 1.25);
  keys.erase("rope.scaling.attn_factor");
  EXPECT_EQ(amplitude(), 1.25);
}

TEST(GgufMistral3, AFactorOfQueriesAndAnExponentMayBe0) {
  Json keys = sizes({{"rope.scaling.type", "yarn"},
                     {"rope.scaling.factor", 4.0},
                     {"rope.scaling.original_context_length", 128},
                     {"rope.scaling.yarn_log_multiplier", 0.0},
                     {"attention.temperature_scale", 0.0}});
  const ModelConfig devstral = read_gguf(keys, "mistral3");
  EXPECT_FALSE(devstral.plans[0].scales_queries);
  EXPECT_NEAR(devstral.rope.attention_factor, 1.138629436, 1e-8);
  keys["rope.scaling.yarn_log_multiplier"] = 1.0;
  keys["attention.temperature_scale"] = 0.1;
  const ModelConfig ministral = read_gguf(keys, "mistral3");
  EXPECT_TRUE(ministral.plans[0].scales_queries);
  EXPECT_EQ(ministral.query_scaling.beta, 0.1);
  EXPECT_EQ(ministral.query_scaling.floor, 128);
  EXPECT_EQ(ministral.rope.attention_factor, 1);
  keys["rope.scaling.yarn_log_multiplier"] = 0.7;
  EXPECT_NEAR(read_gguf(keys, "mistral3").rope.attention_factor, 1.03791002, 1e-7);
  keys["attention.temperature_scale"] = -0.1;
  EXPECT_NE(refusal(keys, "mistral3").find("temperature_scale"), std::string::npos);
}

/// Of latents; Mistral Small 4's files say nothing of what the makers' model has.
TEST(GgufDeepSeek2, QueriesMayBeScaledByTheirPositions) {
  Json keys = sizes({{"attention.kv_lora_rank", 16},
                     {"rope.dimension_count", 8},
                     {"attention.key_length_mla", 24},
                     {"attention.value_length_mla", 16},
                     {"expert_count", 4},
                     {"expert_used_count", 2},
                     {"rope.scaling.type", "yarn"},
                     {"rope.scaling.factor", 4.0},
                     {"rope.scaling.original_context_length", 128}});
  EXPECT_FALSE(read_gguf(keys, "deepseek2").plans[5].scales_queries);
  const ModelConfig small = read_gguf(keys, "mistral4");
  EXPECT_TRUE(small.plans[5].scales_queries);
  EXPECT_EQ(small.plans[5].experts.score, RouteArgs::Score::softmax);
  EXPECT_EQ(small.query_scaling.beta, 0.1);
  EXPECT_EQ(small.query_scaling.floor, 128);
  keys.update({{"attention.temperature_scale", 0.25}, {"attention.temperature_length", 64}});
  for (const char* name : {"deepseek2", "mistral4"}) {
    const ModelConfig config = read_gguf(keys, name);
    EXPECT_TRUE(config.plans[0].scales_queries) << name;
    EXPECT_EQ(config.query_scaling.beta, 0.25) << name;
    EXPECT_EQ(config.query_scaling.floor, 64) << name;
  }
  keys["attention.temperature_scale"] = -0.1;
  EXPECT_NE(refusal(keys, "deepseek2").find("temperature_scale"), std::string::npos);
  keys["attention.temperature_scale"] = 0.0;
  EXPECT_FALSE(read_gguf(keys, "mistral4").plans[5].scales_queries);
}

TEST(GgufQwen35Moe, HeadsMayBeListedWithNoneOfLayersWithAState) {
  Json keys = sizes({{"block_count", 4},
                     {"feed_forward_length", 0},
                     {"attention.head_count_kv", {0, 0, 0, 2}},
                     {"ssm.group_count", 2},
                     {"ssm.time_step_rank", 4},
                     {"ssm.state_size", 16},
                     {"ssm.inner_size", 64},
                     {"ssm.conv_kernel", 4},
                     {"expert_count", 4},
                     {"expert_used_count", 2},
                     {"expert_feed_forward_length", 32},
                     {"expert_shared_feed_forward_length", 32}});
  const ModelConfig config = read_gguf(keys, "qwen35moe");
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.plans[3].kv_heads, 2);
  EXPECT_EQ(config.plans[0].recurrent.value_heads, 4);
  EXPECT_EQ(config.plans[0].experts.width, 32);
  keys["attention.head_count_kv"] = {0, 0, 0, 0};
  EXPECT_NE(refusal(keys, "qwen35moe").find("key-value heads in a layer"), std::string::npos);
}

TEST(GgufQwen2Moe, FilesOfTheFirstDaysNameNoWidthsOfExperts) {
  Json keys = sizes({{"expert_count", 8}, {"expert_used_count", 4}});
  const ExpertPlan old = read_gguf(keys, "qwen2moe").plans[0].experts;
  EXPECT_EQ(old.width, 43);  // of 172
  EXPECT_EQ(old.shared_width, 172);
  keys.update({{"expert_feed_forward_length", 24}, {"expert_shared_feed_forward_length", 96}});
  const ExpertPlan own = read_gguf(keys, "qwen2moe").plans[0].experts;
  EXPECT_EQ(own.width, 24);
  EXPECT_EQ(own.shared_width, 96);
}

TEST(GgufNorms, TheEpsilonOfTwoIsThatOfTheFamilysKindOfNorms) {
  const Json keys = sizes({{"attention.layer_norm_epsilon", 1e-3}});
  EXPECT_EQ(read_gguf(keys, "llama").norm_epsilon, 1e-5F);
  EXPECT_EQ(read_gguf(keys, "cohere2").norm_epsilon, 1e-3F);
}

TEST(GgufLlama, GranitesFirstModelsOfCodeHaveBiasesOfTheFeedForwardNetwork) {
  std::vector<std::string> biases = {"blk.0.ffn_gate.bias", "blk.0.ffn_up.bias",
                                     "blk.0.ffn_down.bias"};
  const ModelConfig code = read_gguf(sizes(), "llama", biases);
  for (const LayerPlan& plan : code.plans) EXPECT_TRUE(plan.mlp_bias);
  biases.pop_back();
  EXPECT_FALSE(read_gguf(sizes(), "llama", biases).plans[0].mlp_bias);
}

TEST(GgufPhi3, FilesOfTheFirstDaysDoNotNameTheWindowOf4096Positions) {
  Json keys = sizes({{"block_count", 32}, {"context_length", 4096}});
  EXPECT_EQ(read_gguf(keys, "phi3").plans[31].window, 2047);
  keys["attention.sliding_window"] = 0;  // as later ones say that there is none
  EXPECT_EQ(read_gguf(keys, "phi3").plans[31].window, 0);
  keys.erase("attention.sliding_window");
  keys["context_length"] = 16384;  // as of Phi 4
  EXPECT_EQ(read_gguf(keys, "phi3").plans[31].window, 0);
}

TEST(GgufDeepSeek2, GroupsThatAFileDoesNotNameAreThoseOfTheMakersModels) {
  const auto experts = [](int layers, int count, const Json& more = Json::object()) {
    Json keys = sizes({{"block_count", layers},
                       {"attention.kv_lora_rank", 16},
                       {"attention.key_length_mla", 24},
                       {"attention.value_length_mla", 16},
                       {"rope.dimension_count", 8},
                       {"expert_count", count},
                       {"expert_used_count", 6}});
    keys.update(more);
    return read_gguf(keys, "deepseek2").plans[0].experts;
  };
  EXPECT_EQ(experts(61, 256).groups, 8);
  EXPECT_EQ(experts(61, 256).groups_used, 4);
  EXPECT_EQ(experts(60, 160).groups, 8);
  EXPECT_EQ(experts(60, 160).groups_used, 3);
  EXPECT_EQ(experts(61, 384).groups, 1);  // Kimi K2's
  EXPECT_EQ(experts(27, 64).groups, 1);
  const Json one = {{"expert_group_count", 1}, {"expert_group_used_count", 1}};
  EXPECT_EQ(experts(61, 256, one).groups, 1);
}

TEST(GgufRope, AFactorWithoutATypeIsLinear) {
  Json keys = sizes({{"rope.scaling.factor", 4.0}});
  EXPECT_EQ(read_gguf(keys, "llama").rope.scaling, Scaling::linear);
  EXPECT_EQ(read_gguf(keys, "llama").rope.factor, 4);
  keys["rope.scaling.type"] = "none";
  EXPECT_EQ(read_gguf(keys, "llama").rope.scaling, Scaling::none);
  EXPECT_EQ(read_gguf(keys, "llama").rope.factor, 1);
}

TEST(GgufGptNeox, TheModelOf20BApproximatesItsActivation) {
  const auto activation = [](int layers) {
    return read_gguf(sizes({{"block_count", layers}}), "gptneox").plans[0].activation;
  };
  EXPECT_EQ(activation(36), InputTransform::gelu_erf);
  EXPECT_EQ(activation(44), InputTransform::gelu_tanh);
}

TEST(GgufGemma1, HasNeitherNormsBehindItsHalvesNorCapsNorWindows) {
  const ModelConfig config = read_gguf(sizes({{"attention.key_length", 16}}), "gemma");
  EXPECT_EQ(config.embedding_scale, 8);
  EXPECT_EQ(config.logit_cap, 0);
  EXPECT_TRUE(config.tied_output);
  EXPECT_FALSE(config.interleaved_rope || config.forms.norm_plus_one);
  const LayerPlan& plan = config.plans[0];
  EXPECT_EQ(plan.head_dim, 16);
  EXPECT_EQ(plan.activation, InputTransform::gelu_tanh_gate);
  EXPECT_FALSE(plan.post_norms);
  EXPECT_EQ(plan.soft_cap, 0);
  EXPECT_EQ(plan.window, 0);
}

TEST(GgufCommandR, TurnsInAllLayersBehindOneLayerNorm) {
  const Json keys = sizes({{"attention.layer_norm_epsilon", 1e-3}, {"logit_scale", 0.0625}});
  const ModelConfig config = read_gguf(keys, "command-r");
  EXPECT_TRUE(config.interleaved_rope);
  EXPECT_EQ(config.norm_epsilon, 1e-3F);
  EXPECT_EQ(config.logit_scale, 0.0625F);
  EXPECT_EQ(config.final_norm, LayerPlan::Norm::layer);
  for (const LayerPlan& plan : config.plans) {
    EXPECT_TRUE(plan.parallel);
    EXPECT_EQ(plan.norm, LayerPlan::Norm::layer);
    EXPECT_EQ(plan.rope, LayerPlan::Rope::global);
  }
  const TensorNames names = TensorNames::of(CheckpointFormat::gguf, config);
  EXPECT_EQ(names.ffn_norm, names.attention_norm);
}

TEST(GgufChatGlm, TurnsPairwiseWithGatesAndUpsInOneMatrix) {
  const std::vector<std::string> fused = {"blk.0.attn_qkv.weight", "blk.0.attn_qkv.bias"};
  const ModelConfig config = read_gguf(sizes({{"rope.dimension_count", 4}}), "chatglm", fused);
  EXPECT_TRUE(config.interleaved_rope);
  EXPECT_TRUE(config.forms.fused_gate_up && config.forms.fused_qkv);
  EXPECT_EQ(config.rope.rotary, 4);
  EXPECT_TRUE(config.plans[0].qkv_bias);
  EXPECT_FALSE(config.plans[0].post_norms);
}

/// Converters say that halves are parallel where a folder says nothing.
TEST(GgufStableLm, HasBiasesOfNormsAndHalvesOneBehindTheOther) {
  const Json keys =
      sizes({{"attention.layer_norm_epsilon", 1e-3}, {"use_parallel_residual", true}});
  const ModelConfig config =
      read_gguf(keys, "stablelm", {"blk.0.attn_q.bias", "blk.0.ffn_norm.weight"});
  EXPECT_EQ(config.norm_epsilon, 1e-3F);
  EXPECT_TRUE(config.final_norm_bias);
  const LayerPlan& plan = config.plans[0];
  EXPECT_TRUE(plan.norm_bias && plan.qkv_bias);
  EXPECT_FALSE(plan.mlp_bias || plan.output_bias || plan.parallel);
  EXPECT_EQ(plan.activation, InputTransform::silu_gate);
  EXPECT_EQ(plan.head_norm, LayerPlan::HeadNorm::none);
  const TensorNames names = TensorNames::of(CheckpointFormat::gguf, config);
  EXPECT_EQ(names.ffn_norm, "blk.{}.ffn_norm");
}

/// Its tensors tell, whatever the key says.
TEST(GgufStableLm, Of12BHasNormsOfHeadsAndNoSecondNorm) {
  const Json keys =
      sizes({{"attention.layer_norm_epsilon", 1e-3}, {"use_parallel_residual", false}});
  const ModelConfig config = read_gguf(keys, "stablelm", {"blk.0.attn_q_norm.weight"});
  for (const LayerPlan& plan : config.plans) {
    EXPECT_TRUE(plan.parallel);
    EXPECT_EQ(plan.head_norm, LayerPlan::HeadNorm::layer_per_head);
    EXPECT_FALSE(plan.head_norm_bias);
  }
  const TensorNames names = TensorNames::of(CheckpointFormat::gguf, config);
  EXPECT_EQ(names.ffn_norm, names.attention_norm);
}

TEST(GgufCommandR, NormsHeadsWhereTheFileHasTheirNorms) {
  const Json keys = sizes({{"attention.layer_norm_epsilon", 1e-3}});
  const ModelConfig plus = read_gguf(keys, "command-r", {"blk.0.attn_q_norm.weight"});
  EXPECT_EQ(plus.plans[5].head_norm, LayerPlan::HeadNorm::layer_per_head);
  EXPECT_FALSE(plus.plans[5].head_norm_bias);
  EXPECT_EQ(read_gguf(keys, "command-r").plans[5].head_norm, LayerPlan::HeadNorm::none);
}

TEST(GgufArcee, TurnsPairwiseAndHasNoGate) {
  const ModelConfig config = read_gguf(sizes(), "arcee");
  EXPECT_TRUE(config.interleaved_rope);
  EXPECT_EQ(config.plans[0].activation, InputTransform::relu_squared);
  EXPECT_EQ(config.plans[0].norm, LayerPlan::Norm::rms);
  EXPECT_FALSE(config.plans[0].mlp_bias);
}

TEST(GgufMlpBias, OfANetworkWithoutAGateIsToldByItsTensors) {
  const Json keys = sizes({{"attention.layer_norm_epsilon", 1e-3}});
  for (const char* name : {"arcee", "nemotron"}) {
    const std::vector<std::string> biases = {"blk.0.ffn_up.bias", "blk.0.ffn_down.bias"};
    for (const LayerPlan& plan : read_gguf(keys, name, biases).plans) {
      EXPECT_TRUE(plan.mlp_bias) << name;
    }
    EXPECT_FALSE(read_gguf(keys, name, {"blk.0.ffn_up.bias"}).plans[0].mlp_bias) << name;
  }
}

/// Converters write the epsilon under both names.
TEST(GgufNemotron, HasWholeLayerNorms) {
  Json keys = sizes({{"attention.layer_norm_epsilon", 1e-3}, {"rope.dimension_count", 4}});
  const ModelConfig config = read_gguf(keys, "nemotron");
  EXPECT_EQ(config.norm_epsilon, 1e-3F);
  EXPECT_EQ(config.rope.rotary, 4);
  EXPECT_TRUE(config.final_norm_bias);
  EXPECT_FALSE(config.forms.norm_plus_one || config.interleaved_rope);
  const LayerPlan& plan = config.plans[0];
  EXPECT_EQ(plan.activation, InputTransform::relu_squared);
  EXPECT_TRUE(plan.norm_bias);
  EXPECT_FALSE(plan.qkv_bias || plan.mlp_bias || plan.parallel);
  keys["rope.dimension_count"] = 3;
  EXPECT_NE(refusal(keys, "nemotron").find("rope.dimension_count"), std::string::npos);
}

TEST(GgufPhi2, HasBiasesEverywhereAndOneNormForBothHalves) {
  const Json keys = sizes({{"attention.layer_norm_epsilon", 1e-3}});
  const ModelConfig config =
      read_gguf(keys, "phi2", {"blk.0.attn_q.bias", "blk.0.attn_output.bias"});
  EXPECT_EQ(config.norm_epsilon, 1e-3F);
  EXPECT_TRUE(config.final_norm_bias && config.output_matrix_bias);
  const LayerPlan& plan = config.plans[0];
  EXPECT_EQ(plan.activation, InputTransform::gelu_tanh);
  EXPECT_TRUE(plan.parallel && plan.norm_bias);
  EXPECT_TRUE(plan.qkv_bias && plan.output_bias && plan.mlp_bias);
  const TensorNames names = TensorNames::of(CheckpointFormat::gguf, config);
  EXPECT_EQ(names.ffn_norm, names.attention_norm);
  EXPECT_EQ(names.output_bias(), "output.bias");
}

TEST(GgufMiniCpm, MultipliersOfFirstFilesAreThoseOfTheMakersFirstModels) {
  const ModelConfig old = read_gguf(sizes(), "minicpm");
  EXPECT_TRUE(old.interleaved_rope);
  EXPECT_EQ(old.embedding_scale, 12);
  EXPECT_EQ(old.logit_scale, 4);                             // 256 / 64
  EXPECT_NEAR(old.plans[5].residual_scale, 0.571548, 1e-6);  // 1.4 / sqrt(6)
  const Json keys =
      sizes({{"embedding_scale", 6.0}, {"residual_scale", 0.5}, {"logit_scale", 8.0}});
  const ModelConfig config = read_gguf(keys, "minicpm");
  EXPECT_EQ(config.embedding_scale, 6);
  EXPECT_EQ(config.logit_scale, 0.125F);
  EXPECT_EQ(config.plans[0].residual_scale, 0.5F);
}

TEST(GgufRope, FactorsOfFrequenciesWithoutAnOriginalContextAreOfTheWholeOne) {
  const std::vector<float> factors = {1, 1, 2, 4};
  Checkpoint file;
  file.format = CheckpointFormat::gguf;
  file.path = "some/model";
  file.metadata = {{"general.architecture", "minicpm"}};
  const Json keys = sizes();
  for (const auto& [key, value] : keys.items()) file.metadata["minicpm." + key] = value;
  file.tensors.push_back({"token_embd.weight", StorageType::f32, {300, 64}, {}});
  for (const char* name : {"rope_factors_short.weight", "rope_factors_long.weight"}) {
    file.tensors.push_back({name, StorageType::f32, {4}, std::as_bytes(std::span(factors))});
  }
  const RopeConfig rope = read_model_config(file).rope;
  EXPECT_EQ(rope.scaling, Scaling::longrope);
  EXPECT_EQ(rope.original_context, 512);
  EXPECT_EQ(rope.short_divisors, factors);
}

TEST(GgufLlamas, OfOtherNamesTurnAsTheirConvertersHaveThem) {
  Json keys = sizes({{"attention.layer_norm_epsilon", 1e-3}});
  for (const char* name : {"exaone", "internlm2"}) {
    const ModelConfig config = read_gguf(keys, name);
    EXPECT_EQ(config.norm_epsilon, 1e-5F) << name;
    EXPECT_EQ(config.plans[0].norm, LayerPlan::Norm::rms) << name;
    EXPECT_EQ(config.plans[0].activation, InputTransform::silu_gate) << name;
    EXPECT_FALSE(config.plans[0].qkv_bias) << name;
  }
  EXPECT_FALSE(read_gguf(keys, "exaone").interleaved_rope);
  EXPECT_TRUE(read_gguf(keys, "internlm2").interleaved_rope);
  keys.erase("attention.layer_norm_rms_epsilon");  // EXAONE's folders call it by the other name
  EXPECT_EQ(read_gguf(keys, "exaone").norm_epsilon, 1e-3F);
}

TEST(GgufHunyuan, NormsHeadsBehindTheRotation) {
  const LayerPlan plan = read_gguf(sizes(), "hunyuan-dense").plans[0];
  EXPECT_EQ(plan.head_norm, LayerPlan::HeadNorm::after_rope);
  EXPECT_TRUE(plan.head_norm_weights);
}

}  // namespace
}  // namespace talon::gguf_families_test
