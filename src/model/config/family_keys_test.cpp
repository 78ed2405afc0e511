#include <gtest/gtest.h>

#include "io/test_files.h"
#include "model/config/tensor_names.h"
#include "model/config/test_config.h"

// What keys of single families mean, beside what all have in common.
namespace talon::family_keys_test {
namespace {

using test::expect_refusal;
using test::read_folder;

using Rope = LayerPlan::Rope;

Json sizes(const std::string& type) {
  return {{"model_type", type},       {"num_hidden_layers", 4},          {"hidden_size", 64},
          {"intermediate_size", 172}, {"max_position_embeddings", 4096}, {"vocab_size", 512},
          {"num_attention_heads", 8}, {"num_key_value_heads", 4},        {"head_dim", 16}};
}

/// Those of `more` on top.
Json sizes(const std::string& type, const Json& more) {
  Json json = sizes(type);
  json.update(more);
  return json;
}

using test::read_gguf;

std::string refusal(const Json& json) {
  return test::message_of([&] { read_folder(json); });
}

void expect_refusal(const Json& json, std::initializer_list<std::string_view> parts) {
  const std::string message = refusal(json);
  for (const std::string_view part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
  }
}

template <typename Of>
auto of_layers(const ModelConfig& config, const Of& of) {
  std::vector<std::decay_t<decltype(of(config.plans[0]))>> all;
  for (const LayerPlan& plan : config.plans) all.push_back(of(plan));
  return all;
}

std::vector<int> windows(const ModelConfig& config) {
  return of_layers(config, [](const LayerPlan& plan) { return plan.window; });
}

TEST(Exaone4, TurnsEverywhereOrInWindowsAlone) {
  Json json = sizes("exaone4", {{"sliding_window", nullptr}, {"sliding_window_pattern", nullptr}});
  const auto turning = [](const ModelConfig& config) {
    return of_layers(config, [](const LayerPlan& plan) { return plan.rope == Rope::global; });
  };
  EXPECT_EQ(windows(read_folder(json)), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(turning(read_folder(json)), (std::vector<bool>{true, true, true, true}));
  json.update({{"sliding_window", 32}, {"sliding_window_pattern", "LG"}});
  EXPECT_EQ(windows(read_folder(json)), (std::vector<int>{32, 0, 32, 0}));
  EXPECT_EQ(turning(read_folder(json)), (std::vector<bool>{true, false, true, false}));
  json["sliding_window_pattern"] = 3;
  EXPECT_EQ(windows(read_folder(json)), (std::vector<int>{32, 32, 0, 32}));
  json["sliding_window_pattern"] = "LX";
  expect_refusal(json, {"sliding_window_pattern", "letters L and G"});
}

/// What the makers say by numbers of layers, transformers says by names of their kinds.
TEST(Mimo, BothSpellingsAreOneModel) {
  const Json common = {{"v_head_dim", 12},
                       {"n_routed_experts", 8},
                       {"num_experts_per_tok", 2},
                       {"moe_intermediate_size", 16},
                       {"routed_scaling_factor", nullptr},
                       {"head_dim", 24}};
  Json published = sizes("mimo_v2_flash", common);
  published.update({{"hybrid_layer_pattern", {0, 1, 1, 0}},
                    {"moe_layer_freq", {0, 1, 0, 1}},
                    {"sliding_window_size", 16},
                    {"swa_rope_theta", 2e4},
                    {"layernorm_epsilon", 1e-5}});
  Json saved = sizes("mimo_v2_flash", common);
  saved.update({{"layer_types",
                 {"full_attention", "sliding_attention", "sliding_attention", "full_attention"}},
                {"mlp_layer_types", {"dense", "sparse", "dense", "sparse"}},
                {"sliding_window", 17},
                {"rms_norm_eps", 1e-5},
                {"rope_parameters",
                 {{"full_attention", {{"rope_theta", 5e6}}},
                  {"sliding_attention", {{"rope_theta", 2e4}}}}}});
  for (const Json& json : {published, saved}) {
    const ModelConfig config = read_folder(json);
    EXPECT_EQ(windows(config), (std::vector<int>{0, 17, 17, 0}));
    EXPECT_EQ(of_layers(config, [](const LayerPlan& plan) { return plan.kv_heads; }),
              (std::vector<int>{4, 8, 8, 4}));
    EXPECT_EQ(of_layers(config, [](const LayerPlan& plan) { return plan.sinks; }),
              (std::vector<bool>{false, true, true, false}));
    EXPECT_EQ(of_layers(config, [](const LayerPlan& plan) { return plan.experts.count; }),
              (std::vector<int>{0, 8, 0, 8}));
    EXPECT_EQ(config.plans[1].values(), 12);
    EXPECT_EQ(config.plans[1].value_scale, 0.707F);
    EXPECT_EQ(config.plans[1].norm_epsilon, 1e-5F);
    EXPECT_EQ(config.plans[1].experts.scale, 1);
    EXPECT_EQ(config.rope.base, 5e6);
    EXPECT_EQ(config.rope.rotary, 8);
    EXPECT_EQ(config.local_rope->base, 2e4);
  }
}

TEST(Mimo, YarnIsRefusedWithABaseOf1OfWindowedLayers) {
  Json json = sizes("mimo_v2_flash", {{"v_head_dim", 12},
                                      {"n_routed_experts", 8},
                                      {"num_experts_per_tok", 2},
                                      {"moe_intermediate_size", 16},
                                      {"head_dim", 24},
                                      {"hybrid_layer_pattern", {0, 1, 1, 0}},
                                      {"sliding_window_size", 16},
                                      {"swa_rope_theta", 1.0},
                                      {"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}}});
  expect_refusal(json, {"layer 1", "more than 1 beside YaRN", "found 1"});
  json["swa_rope_theta"] = 1e4;
  EXPECT_EQ(read_folder(json).local_rope->scaling, RopeConfig::Scaling::yarn);
}

/// Lists go on behind the layers with those that predict.
TEST(Mimo, IsReadFromGgufWithPredictionLayers) {
  const ModelConfig config = read_gguf({{"block_count", 5},
                                        {"nextn_predict_layers", 3},
                                        {"embedding_length", 64},
                                        {"feed_forward_length", 172},
                                        {"context_length", 512},
                                        {"attention.head_count", 8},
                                        {"attention.head_count_kv", {2, 4, 4, 4, 4}},
                                        {"attention.key_length", 24},
                                        {"attention.value_length", 16},
                                        {"attention.value_scale", 0.5},
                                        {"attention.sliding_window", 128},
                                        {"attention.sliding_window_pattern", {0, 1, 1, 1, 1}},
                                        {"attention.layer_norm_rms_epsilon", 1e-5},
                                        {"rope.dimension_count", 8},
                                        {"rope.freq_base", 5e6},
                                        {"rope.freq_base_swa", 1e4},
                                        {"expert_count", 8},
                                        {"expert_used_count", 2},
                                        {"expert_feed_forward_length", 16}},
                                       "mimo2");
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(windows(config), (std::vector<int>{0, 128}));
  EXPECT_EQ(config.plans[1].kv_heads, 4);
  EXPECT_EQ(config.plans[1].values(), 16);
  EXPECT_EQ(config.plans[1].value_scale, 0.5F);
  EXPECT_EQ(config.plans[1].rope, Rope::local);
  EXPECT_EQ(config.local_rope->base, 1e4);
  EXPECT_EQ(config.local_rope->rotary, 8);
}

TEST(Gemma4, IsRefusedFromGgufWithoutANumberForEachLayer) {
  const Json whole = {{"block_count", 2},
                      {"embedding_length", 64},
                      {"feed_forward_length", {172, 96}},
                      {"expert_feed_forward_length", 32},
                      {"context_length", 512},
                      {"attention.head_count", 8},
                      {"attention.head_count_kv", {4, 2}},
                      {"attention.layer_norm_rms_epsilon", 1e-5}};
  const ModelConfig config = read_gguf(whole, "gemma4");
  EXPECT_EQ(config.plans[1].kv_heads, 2);
  EXPECT_EQ(config.plans[1].intermediate, 96);
  for (const char* key : {"attention.head_count_kv", "feed_forward_length"}) {
    Json none = whole, empty = whole;
    none.erase(key);
    empty[key] = Json::array();
    for (const Json& keys : {none, empty}) {
      const std::string message = test::message_of([&] { read_gguf(keys, "gemma4"); });
      EXPECT_NE(message.find(fmt::format("\"gemma4.{}\"", key)), std::string::npos) << message;
      EXPECT_NE(message.find("an integer"), std::string::npos) << message;
    }
  }
}

/// transformers saves what the published files say of all full layers under each one's number.
TEST(Gemma4, FullLayersHaveTheirHeadsInBothSpellings) {
  const Json types = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
  const Json common = {{"layer_types", types},
                       {"sliding_window", 32},
                       {"attention_k_eq_v", true},
                       {"num_key_value_heads", 4},
                       {"final_logit_softcapping", 30.0}};
  Json published = sizes("gemma4_text", common);
  published.update({{"global_head_dim", 32}, {"num_global_key_value_heads", 2}});
  Json saved = sizes("gemma4_text", common);
  const Json full = {{"head_dim", 32}, {"num_key_value_heads", 2}};
  saved["per_layer_config"] = {{"1", full}, {"3", full}};
  for (const Json& json : {published, saved}) {
    const ModelConfig config = read_folder(json);
    EXPECT_EQ(of_layers(config, [](const LayerPlan& plan) { return plan.head_dim; }),
              (std::vector<int>{16, 32, 16, 32}));
    EXPECT_EQ(of_layers(config, [](const LayerPlan& plan) { return plan.kv_heads; }),
              (std::vector<int>{4, 2, 4, 2}));
    EXPECT_EQ(config.rope.frequency_divisors.size(), 16U);
  }
  saved["per_layer_config"]["1"]["intermediate_size"] = 99;
  expect_refusal(saved, {"intermediate_size", "expected none but head_dim"});
}

TEST(Gemma4, TheLastLayerIsFullAndMissingKeysAreThoseOfTheClass) {
  Json json = sizes("gemma4_text", {{"use_bidirectional_attention", "vision"}});
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(windows(config), (std::vector<int>{512, 512, 512, 0}));
  EXPECT_EQ(config.plans[3].head_dim, 512);
  EXPECT_EQ(config.rope.base, 1e6);
  EXPECT_EQ(config.rope.frequency_divisors[63], 1);  // a quarter of the pairs
  EXPECT_GT(config.rope.frequency_divisors[64], 1e29);
  ASSERT_TRUE(config.local_rope);
  EXPECT_EQ(config.local_rope->base, 1e4);
  EXPECT_EQ(config.per_layer_input, 256);
  json["use_bidirectional_attention"] = "all";
  expect_refusal(json, {"use_bidirectional_attention", "found \"all\""});
}

/// The class of the model of 12B; that of the others has embeddings for each layer.
TEST(Gemma4, TheUnifiedModelHasDefaultsOfItsOwn) {
  const Json nested = {{"model_type", "gemma4_unified"},
                       {"text_config", sizes("gemma4_unified_text")}};
  for (const Json& json : {nested, sizes("gemma4_unified_text")}) {
    const ModelConfig config = read_folder(json);
    EXPECT_EQ(windows(config), (std::vector<int>{1024, 1024, 1024, 0}));
    EXPECT_EQ(config.plans[3].head_dim, 512);
    EXPECT_EQ(config.rope.base, 1e6);
    EXPECT_EQ(config.per_layer_input, 0);
    EXPECT_EQ(config.plans[0].experts.count, 0);
  }
}

TEST(Gemma3, HasTheKeyOfACapOfScoresButNoCap) {
  EXPECT_EQ(read_folder(sizes("gemma3_text", {{"attn_logit_softcapping", 25.0}})).plans[0].soft_cap,
            0);
  EXPECT_EQ(read_folder(sizes("gemma2", {{"attn_logit_softcapping", 25.0}})).plans[0].soft_cap, 25);
}

Json llama4(const Json& more) {
  Json json = sizes("llama4_text", {{"intermediate_size_mlp", 96}, {"num_local_experts", 4}});
  json["num_experts_per_tok"] = 1;
  json.update(more);
  return json;
}

TEST(Llama4, ListsOfLayersWin) {
  const auto chunks = [](const Json& more) {
    return of_layers(read_folder(llama4(more)), [](const LayerPlan& plan) { return plan.chunk; });
  };
  const auto mixed = [](const Json& more) {
    return of_layers(read_folder(llama4(more)),
                     [](const LayerPlan& plan) { return plan.experts.count; });
  };
  EXPECT_EQ(chunks(Json::object()), (std::vector<int>{8192, 8192, 8192, 0}));
  EXPECT_EQ(chunks({{"no_rope_layer_interval", 2}}), (std::vector<int>{8192, 0, 8192, 0}));
  EXPECT_EQ(chunks({{"attention_chunk_size", nullptr}}), (std::vector<int>{0, 0, 0, 0}));
  const Json types = {"full_attention", "chunked_attention", "full_attention", "chunked_attention"};
  EXPECT_EQ(chunks({{"layer_types", types}}), (std::vector<int>{0, 8192, 0, 8192}));
  EXPECT_EQ(mixed({{"interleave_moe_layer_step", 2}}), (std::vector<int>{0, 4, 0, 4}));
  EXPECT_EQ(mixed({{"moe_layers", {0, 3}}, {"interleave_moe_layer_step", 2}}),
            (std::vector<int>{4, 0, 0, 4}));
  EXPECT_EQ(mixed({{"moe_layers", Json::array()}}), (std::vector<int>{0, 0, 0, 0}));
}

TEST(Llama4, ExpertsMayLieOneByOne) {
  const TensorNames names =
      TensorNames::of(CheckpointFormat::hugging_face, read_folder(llama4(Json::object())));
  const std::string experts = "model.layers.{}.feed_forward.experts.";
  EXPECT_EQ(names.expert_gate, experts + "{}.gate_proj");
  EXPECT_EQ(names.expert_up, experts + "{}.up_proj");
  EXPECT_EQ(names.expert_gate_up, experts + "gate_up_proj");
  EXPECT_EQ(names.expert_down, experts + "{}.down_proj");
}

TEST(Ministral3, ScalesQueriesInBothSpellingsUnlessBy0) {
  const Json scaling = {
      {"rope_type", "yarn"}, {"factor", 16.0},      {"original_max_position_embeddings", 128},
      {"mscale", 1},         {"mscale_all_dim", 1}, {"llama_4_scaling_beta", 0.25}};
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    Json json = sizes("ministral3", {{key, scaling}});
    const ModelConfig config = read_folder(json);
    EXPECT_TRUE(config.plans[0].scales_queries) << key;
    EXPECT_EQ(config.query_scaling.beta, 0.25) << key;
    EXPECT_EQ(config.query_scaling.floor, 128) << key;
    EXPECT_EQ(config.rope.attention_factor, 1) << key;
    json[key]["llama_4_scaling_beta"] = 0;
    EXPECT_FALSE(read_folder(json).plans[0].scales_queries) << key;
  }
}

TEST(Mistral4, ScalesQueriesOfLatentsAndChoosesExpertsByASoftmax) {
  const Json latents = Json::parse(R"({"kv_lora_rank": 16, "qk_nope_head_dim": 8, "v_head_dim": 8,
      "qk_rope_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2,
      "moe_intermediate_size": 32})");
  const ModelConfig config = read_folder(sizes("mistral4", latents));
  EXPECT_TRUE(config.plans[0].scales_queries);
  EXPECT_EQ(config.query_scaling.floor, 8192);
  EXPECT_EQ(config.plans[0].latent.kv_rank, 16);
  EXPECT_EQ(config.plans[0].experts.score, RouteArgs::Score::softmax);
}

TEST(QwenMoe, WindowsWithoutAListAreThoseOfTheClass) {
  const Json windowed = {{"num_experts", 8},
                         {"num_experts_per_tok", 2},
                         {"use_sliding_window", true},
                         {"sliding_window", 9},
                         {"moe_intermediate_size", 32},
                         {"shared_expert_intermediate_size", 32},
                         {"max_window_layers", 3}};
  EXPECT_EQ(windows(read_folder(sizes("qwen3_moe", windowed))), (std::vector<int>{9, 9, 9, 9}));
  EXPECT_EQ(windows(read_folder(sizes("qwen2_moe", windowed))), (std::vector<int>{9, 0, 9, 0}));
  EXPECT_EQ(windows(read_folder(sizes("qwen2", windowed))), (std::vector<int>{0, 0, 0, 9}));
  Json plain = sizes("qwen2_moe", windowed);
  EXPECT_TRUE(read_folder(plain).plans[0].qkv_bias);
  plain["qkv_bias"] = false;
  EXPECT_FALSE(read_folder(plain).plans[0].qkv_bias);
}

TEST(SmolLm3, WindowsWithoutAListAreThoseOfLayersThatDoNotTurn) {
  const Json windowed = {{"use_sliding_window", true}, {"sliding_window", 9}};
  EXPECT_EQ(windows(read_folder(sizes("smollm3", windowed))), (std::vector<int>{0, 0, 0, 9}));
}

TEST(PartialRotation, IsRefusedWhereTheClassOfAFamilyPassesOverIt) {
  const Json half = {{"partial_rotary_factor", 0.5}};
  expect_refusal(sizes("llama", half), {"partial_rotary_factor", "heads of llama turn whole"});
  expect_refusal(sizes("llama", {{"rope_parameters", half}}), {"found 0.5"});
  EXPECT_EQ(read_folder(sizes("phi3", half)).rope.rotary, 8);
}

TEST(MissingKeys, AreThoseOfTheFamilysClass) {
  const auto epsilon = [](const char* type) { return read_folder(sizes(type)).norm_epsilon; };
  EXPECT_EQ(epsilon("llama"), 1e-6F);
  for (const char* type : {"phi3", "olmo2", "olmo3", "cohere2", "starcoder2", "gpt_neox"}) {
    EXPECT_EQ(epsilon(type), 1e-5F) << type;
  }
  EXPECT_EQ(read_folder(sizes("glm4")).norm_epsilon, 1.5625e-7F);
  EXPECT_TRUE(read_folder(sizes("glm4")).qkv_bias);
  EXPECT_EQ(read_folder(sizes("gpt_neox")).rope.rotary, 4);
  EXPECT_EQ(read_folder(sizes("gpt_neox", {{"rotary_pct", 0.5}})).rope.rotary, 8);
  EXPECT_EQ(read_folder(sizes("smollm3")).rope.base, 2e6);
  EXPECT_EQ(read_folder(sizes("gemma2")).plans[0].soft_cap, 50);
  EXPECT_EQ(read_folder(sizes("gemma2", {{"final_logit_softcapping", nullptr}})).logit_cap, 0);
  EXPECT_EQ(read_folder(sizes("gemma2")).plans[0].window, 4096);
  const ModelConfig ministral = read_folder(sizes("ministral3"));
  EXPECT_EQ(ministral.rope.factor, 16);
  EXPECT_EQ(ministral.query_scaling.floor, 16384);
  const Json experts = {{"num_local_experts", 8}, {"num_experts_per_tok", 2}};
  Json gpt_oss = sizes("gpt_oss", experts);
  EXPECT_EQ(read_folder(gpt_oss).rope.factor, 32);
  EXPECT_EQ(read_folder(gpt_oss).rope.base, 1.5e5);
  gpt_oss["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
  EXPECT_EQ(read_folder(gpt_oss).rope.scaling, RopeConfig::Scaling::linear);
}

/// As published: heads of latents have sizes of their own, which need not divide the model's.
TEST(Glm47Flash, HasMoreHeadsThanDivideItsWidth) {
  Json json = sizes("glm4_moe_lite", {{"hidden_size", 2048},
                                      {"num_attention_heads", 20},
                                      {"num_key_value_heads", 20},
                                      {"q_lora_rank", 768},
                                      {"kv_lora_rank", 512},
                                      {"qk_nope_head_dim", 192},
                                      {"qk_rope_head_dim", 64},
                                      {"v_head_dim", 256},
                                      {"partial_rotary_factor", 1.0},
                                      {"n_routed_experts", 64},
                                      {"num_experts_per_tok", 4},
                                      {"moe_intermediate_size", 1536}});
  json.erase("head_dim");
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(config.plans[0].head_dim, 576);
  EXPECT_EQ(config.plans[0].latent.output_dim, 256);
  json.erase("kv_lora_rank");
  expect_refusal(json, {"hidden_size", "a multiple of 20 heads"});
}

TEST(Qwen35, StatesWhoseValuesNoIntCountsAreRefused) {
  const Json huge = {{"linear_num_key_heads", 1},
                     {"linear_num_value_heads", 4096},
                     {"linear_key_head_dim", 1024},
                     {"linear_value_head_dim", 1024},
                     {"linear_conv_kernel_dim", 4}};
  expect_refusal(sizes("qwen3_5", huge), {"layer 0", "131072 columns", "found 4194304"});
  Json keys = sizes("qwen3_5", huge);
  keys["linear_value_head_dim"] = 32;
  EXPECT_EQ(read_folder(keys).plans[0].recurrent.width(), 131072);
  keys["linear_num_key_heads"] = 256;
  expect_refusal(keys, {"layer 0", "131072 columns", "found 262144"});
}

TEST(GptOss, MayHaveNoBiases) {
  Json json = sizes("gpt_oss", {{"num_local_experts", 8}, {"num_experts_per_tok", 2}});
  EXPECT_TRUE(read_folder(json).plans[0].output_bias);
  json["attention_bias"] = false;
  EXPECT_FALSE(read_folder(json).plans[0].output_bias || read_folder(json).plans[0].qkv_bias);
}

TEST(Phi35Moe, ChoosesTheBestAndTheBestOfTheOthers) {
  const Json factors = {1, 1, 1, 1, 1, 1, 1, 1};
  Json scaling = {{"type", "longrope"},     {"short_factor", factors},
                  {"long_factor", factors}, {"short_mscale", 1.25},
                  {"long_mscale", 1.25},    {"original_max_position_embeddings", 64}};
  Json json = sizes("phimoe", {{"num_local_experts", 8}, {"lm_head_bias", true}});
  json["rope_scaling"] = scaling;
  const ModelConfig config = read_folder(json);
  EXPECT_EQ(config.rope.attention_factor, 1.25);
  EXPECT_TRUE(config.output_matrix_bias && config.final_norm_bias);
  const LayerPlan& plan = config.plans[0];
  EXPECT_TRUE(plan.norm == LayerPlan::Norm::layer && plan.norm_bias && !plan.mlp_bias);
  EXPECT_EQ(plan.experts.score, RouteArgs::Score::near_best);
  EXPECT_EQ(plan.experts.jitter, 0.01F);
  EXPECT_EQ(plan.experts.used, 2);
  EXPECT_EQ(plan.intermediate, 0);
  json["num_experts_per_tok"] = 1;
  expect_refusal(json, {"num_experts_per_tok", "2"});
  json["num_experts_per_tok"] = 2;
  json["rope_scaling"]["long_mscale"] = 1.5;
  expect_refusal(json, {"long_mscale", "as short_mscale"});
  json["rope_scaling"].erase("short_mscale");
  expect_refusal(json, {"short_mscale"});
}

}  // namespace
}  // namespace talon::family_keys_test
