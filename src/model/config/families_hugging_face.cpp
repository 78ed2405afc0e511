#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "model/config/family_helpers.h"

namespace talon {
namespace {

using Limits = ConfigLimits;
using HeadNorm = LayerPlan::HeadNorm;
constexpr auto kGelu = "gelu_pytorch_tanh", kReluSquared = "relu2";

void read_llama(const ConfigKeys& keys, ModelConfig&) {
  only_activation(keys, "silu");
  window_of(keys);  // which Llama has not, but a wrong one is refused
}

void read_mistral(const ConfigKeys& keys, ModelConfig& config) {
  read_llama(keys, config);
  window_layers(config, window_of(keys), [](int) { return true; });
}

/// Layers have the window that are listed, else all.
void read_ministral(const ConfigKeys& keys, ModelConfig& config) {
  if (!keys.has("layer_types")) return read_mistral(keys, config);
  read_llama(keys, config);
  window_by_types(keys, config, 0);
}

/// Qwen2 windows the layers from max_window_layers on, and only when told to.
void read_qwen_windows(const ConfigKeys& keys, ModelConfig& config) {
  if (!keys.flag_or("use_sliding_window", false)) return;
  if (keys.has("layer_types")) return window_by_types(keys, config, 0);
  const int first = keys.integer_or("max_window_layers", 0, INT32_MAX, 28);
  window_layers(config, window_of(keys), [&](int i) { return i >= first; });
}

void read_qwen2(const ConfigKeys& keys, ModelConfig& config) {
  read_llama(keys, config);
  config.qkv_bias = true;
  config.output_bias = false;
  each_plan(config, [](LayerPlan& plan) {
    plan.qkv_bias = true;
    plan.output_bias = false;
  });
  read_qwen_windows(keys, config);
}

void read_qwen3(const ConfigKeys& keys, ModelConfig& config) {
  read_llama(keys, config);
  norm_each_head(config);
  read_qwen_windows(keys, config);
}

void read_phi3(const ConfigKeys& keys, ModelConfig& config) {
  read_mistral(keys, config);
  config.forms.fused_qkv = config.forms.fused_gate_up = true;
}

void read_ministral3(const ConfigKeys& keys, ModelConfig& config) {
  read_mistral(keys, config);
  read_query_scaling(keys, config);
}

void read_smollm3(const ConfigKeys& keys, ModelConfig& config) {
  read_llama(keys, config);
  const int every = keys.integer_or("no_rope_layer_interval", 1, Limits::kLayers, 4);
  std::vector<bool> turns =
      flags_of_layers(keys, "no_rope_layers", config.plans.size());  // 1: rope
  for (int i = 0; static_cast<int>(turns.size()) < config.layers; ++i) {
    turns.push_back((i + 1) % every != 0);
  }
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (!turns[i]) config.plans[i].rope = LayerPlan::Rope::none;
  }
  if (!keys.flag_or("use_sliding_window", false)) return;
  if (keys.has("layer_types")) return window_by_types(keys, config, 0);
  window_layers(config, window_of(keys), [&](int i) {
    return config.plans[static_cast<std::size_t>(i)].rope == LayerPlan::Rope::none;
  });
}

void read_olmo2(const ConfigKeys& keys, ModelConfig& config) {
  read_llama(keys, config);
  each_plan(config, [](LayerPlan& plan) {
    plan.pre_norms = false;
    plan.post_norms = true;
    plan.head_norm = HeadNorm::per_row;
  });
}

/// The rope of windowed layers: as saved folders say it for each kind of layers, else a plain one.
RopeConfig local_rope_of(const ConfigKeys& keys, const ModelConfig& config, double base) {
  constexpr std::string_view kWindowed = "sliding_attention";
  const auto kinds = keys.object("rope_parameters");
  if (!kinds || !kinds->has(kWindowed)) return plain_rope(base);
  return read_rope_of(keys, config.context, config.head_dim, kWindowed);
}

void read_olmo3(const ConfigKeys& keys, ModelConfig& config) {
  read_olmo2(keys, config);
  window_by_types(keys, config, 4);
  local_rope_where_windowed(config, local_rope_of(keys, config, config.rope.base));
}

void read_exaone4(const ConfigKeys& keys, ModelConfig& config) {
  read_olmo2(keys, config);
  norm_each_head(config);
  window_exaone(keys, config);
}

void read_seed_oss(const ConfigKeys& keys, ModelConfig& config) {
  read_llama(keys, config);
  config.output_bias = keys.flag_or("attention_out_bias", false);
  each_plan(config, [&](LayerPlan& plan) { plan.output_bias = config.output_bias; });
}

/// MiniCPM: Llama with multipliers, which are 1 where a file lacks them.
void read_minicpm(const ConfigKeys& keys, ModelConfig& config) {
  read_llama(keys, config);
  constexpr std::string_view kSparse = "sparse_config";
  if (keys.has(kSparse)) keys.refuse(kSparse, "null: attention to all positions");
  const auto factor = [&](std::string_view key) { return keys.number_or(key, 1e-6, 1e6, 1); };
  config.tied_output = keys.flag_or("tie_word_embeddings", true);
  config.embedding_scale = static_cast<float>(factor("scale_emb"));
  config.logit_scale = 1.0F / static_cast<float>(config.hidden / factor("dim_model_base"));
  const double depth = factor("scale_depth") / std::sqrt(static_cast<double>(config.layers));
  each_plan(config, [&](LayerPlan& plan) { plan.residual_scale = static_cast<float>(depth); });
}

void read_hunyuan(const ConfigKeys& keys, ModelConfig& config) {
  read_llama(keys, config);
  if (!keys.flag_or("use_qk_norm", true)) keys.refuse("use_qk_norm", "true");
  if (keys.flag_or("use_cla", false)) keys.refuse("use_cla", "false");
  config.rope.base = hunyuan_base(keys, config);
  each_plan(config, [](LayerPlan& plan) {
    plan.head_norm = HeadNorm::after_rope;
    plan.head_norm_weights = true;
  });
}

/// GLM-4 of 2024, with the norms of Llama.
void read_glm(const ConfigKeys& keys, ModelConfig& config) {
  read_llama(keys, config);
  config.interleaved_rope = true;
  config.forms.fused_gate_up = true;
  config.output_bias = false;
  each_plan(config, [](LayerPlan& plan) { plan.output_bias = false; });
}

/// Arcee: Llama with a network without a gate.
void read_arcee(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, kReluSquared);
  each_plan(config, [](LayerPlan& plan) { plan.activation = InputTransform::relu_squared; });
}

void read_glm4(const ConfigKeys& keys, ModelConfig& config) {
  read_glm(keys, config);
  each_plan(config, [](LayerPlan& plan) { plan.post_norms = true; });
}

/// What both of Cohere's families have: halves in parallel behind one LayerNorm.
void read_cohere_block(const ConfigKeys& keys, ModelConfig& config) {
  read_llama(keys, config);
  config.interleaved_rope = true;
  config.tied_output = keys.flag_or("tie_word_embeddings", true);
  config.logit_scale = static_cast<float>(keys.number_or("logit_scale", 1e-6, 1e6, 0.0625));
  config.final_norm = LayerPlan::Norm::layer;
  each_plan(config, [](LayerPlan& plan) {
    plan.norm = LayerPlan::Norm::layer;
    plan.parallel = true;
  });
}

/// LayerNorms of heads.
void norm_heads_if(bool norms, ModelConfig& config) {
  if (!norms) return;
  config.qk_norm = true;
  each_plan(config, [](LayerPlan& plan) { plan.head_norm = HeadNorm::layer_per_head; });
}

/// Command R names in max_position_embeddings fewer positions than it was made for; Command R+ has
/// norms of heads.
void read_cohere(const ConfigKeys& keys, ModelConfig& config) {
  read_cohere_block(keys, config);
  config.context = keys.integer_or("model_max_length", 1, Limits::kContext, config.context);
  norm_heads_if(keys.flag_or("use_qk_norm", false), config);
}

void read_cohere2(const ConfigKeys& keys, ModelConfig& config) {
  read_cohere_block(keys, config);
  if (keys.flag_or("use_qk_norm", false)) keys.refuse("use_qk_norm", "false");
  window_by_types(keys, config, keys.integer_or("sliding_window_pattern", 1, Limits::kLayers, 4));
  still_full_layers(config);
}

void plan_layer_norms(ModelConfig& config, InputTransform activation) {
  config.final_norm = LayerPlan::Norm::layer;
  config.final_norm_bias = true;
  each_plan(config, [&](LayerPlan& plan) {
    plan.norm = LayerPlan::Norm::layer;
    plan.norm_bias = true;
    plan.activation = activation;
  });
}

/// Of all matrices of the layers.
void plan_biases(ModelConfig& config) {
  config.qkv_bias = config.output_bias = true;
  each_plan(config,
            [](LayerPlan& plan) { plan.qkv_bias = plan.output_bias = plan.mlp_bias = true; });
}

void read_starcoder2(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, kGelu);
  config.tied_output = keys.flag_or("tie_word_embeddings", true);
  if (!keys.flag_or("use_bias", true)) keys.refuse("use_bias", "true");
  plan_layer_norms(config, InputTransform::gelu_tanh);
  plan_biases(config);
  window_layers(config, window_of(keys), [](int) { return true; });
}

/// That of 12B has norms of heads, and halves in parallel behind one norm.
void read_stablelm(const ConfigKeys& keys, ModelConfig& config) {
  read_llama(keys, config);
  plan_layer_norms(config, InputTransform::silu_gate);
  norm_heads_if(keys.flag_or("qk_layernorm", false), config);
  config.qkv_bias = keys.flag_or("use_qkv_bias", false);
  config.output_bias = false;
  const bool parallel = keys.flag_or("use_parallel_residual", false);
  each_plan(config, [&](LayerPlan& plan) {
    plan.qkv_bias = config.qkv_bias;
    plan.output_bias = false;
    plan.parallel = parallel;
  });
}

/// Nemotron of 2024 and Minitron.
void read_nemotron(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, kReluSquared);
  plan_layer_norms(config, InputTransform::relu_squared);
  config.forms.norm_plus_one = true;
}

/// Phi 1 to 2: halves in parallel behind one norm, and biases everywhere; maybe one norm for all
/// heads of queries and one for those of keys.
void read_phi(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "gelu_new");
  plan_layer_norms(config, InputTransform::gelu_tanh);
  plan_biases(config);
  norm_heads_if(keys.flag_or("qk_layernorm", false), config);
  config.output_matrix_bias = true;
  each_plan(config, [&](LayerPlan& plan) {
    plan.head_norm_bias = config.qk_norm;
    plan.parallel = true;
  });
}

/// Factors of the amplitude, which the makers' code multiplies by instead of the usual one. Rows
/// stay as they are where texts grow, so there is one for texts of any length.
void read_mscale(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::string_view kShort = "short_mscale", kLong = "long_mscale";
  const auto scaling = rope_keys_of(keys);
  if (!scaling || config.rope.scaling != RopeConfig::Scaling::longrope) return;
  const double factor = scaling->number(kShort, 1e-3, 1e3);
  if (scaling->number(kLong, 1e-3, 1e3) != factor) scaling->refuse(kLong, "as short_mscale");
  config.rope.attention_factor = static_cast<float>(factor);  // as GGUF files keep it
}

/// Phi-3.5-MoE.
void read_phimoe(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::string_view kUsed = "num_experts_per_tok";
  only_activation(keys, "silu");
  plan_layer_norms(config, InputTransform::silu_gate);
  config.output_matrix_bias = keys.flag_or("lm_head_bias", false);
  read_mscale(keys, config);
  ExpertPlan experts;
  experts.count = keys.integer_or("num_local_experts", 2, Limits::kExperts, 16);
  experts.used = keys.integer(kUsed, 1, experts.count);
  if (experts.used != 2) keys.refuse(kUsed, "2");
  experts.width = keys.integer("intermediate_size", 1, Limits::kWidth);
  plan_near_experts(config, experts, keys.number_or("router_jitter_noise", 0, 1, 0.01));
  window_layers(config, window_of(keys), [](int) { return true; });
}

void read_gpt_neox(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::string_view kApproximations[] = {"gelu_fast", "gelu_new", kGelu};
  const std::string activation = keys.text_or("hidden_act", "gelu");
  const bool approximates =
      std::ranges::find(kApproximations, activation) != std::end(kApproximations);
  if (!approximates) only_activation(keys, "gelu");
  plan_layer_norms(config, approximates ? InputTransform::gelu_tanh : InputTransform::gelu_erf);
  plan_biases(config);
  config.forms = {.prefix = "gpt_neox.", .output = "embed_out."};
  config.forms.fused_qkv = config.forms.qkv_by_head = true;
  if (!keys.flag_or("attention_bias", true)) keys.refuse("attention_bias", "true");
  const bool parallel = keys.flag_or("use_parallel_residual", true);
  each_plan(config, [&](LayerPlan& plan) { plan.parallel = parallel; });
}

float cap_of(const ConfigKeys& keys, const char* key) {
  return static_cast<float>(keys.number_or(key, 1e-3, 1e9, 0));
}

void read_query_scalar(const ConfigKeys& keys, ModelConfig& config) {
  const double scalar = keys.number_or("query_pre_attn_scalar", 1e-3, 1e6, 256);
  if (scalar == config.head_dim) return;
  each_plan(config, [&](LayerPlan& plan) {
    plan.score_scale = static_cast<float>(1.0 / std::sqrt(scalar));
  });
}

void refuse_both_ways(const ConfigKeys& keys) {
  constexpr std::string_view kBothWays = "use_bidirectional_attention";  // EmbeddingGemma
  if (keys.flag_or(kBothWays, false)) keys.refuse(kBothWays, "false");
}

/// Files of the first days say "gelu" of what their makers approximate: `hidden_activation` is the
/// key that counts, and without it the class approximates, too.
void read_gemma1(const ConfigKeys& keys, ModelConfig& config) {
  refuse_both_ways(keys);
  const bool is_of_first =
      !keys.has("hidden_activation") && keys.text_or("hidden_act", kGelu) == "gelu";
  if (!is_of_first) only_activation(keys, kGelu);
  config.tied_output = true;
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  config.forms.norm_plus_one = true;
  each_plan(config, [](LayerPlan& plan) { plan.activation = InputTransform::gelu_tanh_gate; });
}

void read_gemma2(const ConfigKeys& keys, ModelConfig& config) {
  read_gemma(keys, config);
  read_query_scalar(keys, config);
  config.forms.norm_plus_one = true;
  const float cap = cap_of(keys, "attn_logit_softcapping");
  each_plan(config, [&](LayerPlan& plan) { plan.soft_cap = cap; });
  window_by_types(keys, config, 2);
}

void read_gemma3(const ConfigKeys& keys, ModelConfig& config) {
  refuse_both_ways(keys);
  read_gemma2(keys, config);
  each_plan(config, [&](LayerPlan& plan) {
    plan.head_norm = HeadNorm::per_head;
    plan.soft_cap = 0;  // its class has the key and does not read it
    plan.window = 0;
  });
  window_by_types(keys, config, keys.integer_or("sliding_window_pattern", 1, Limits::kLayers, 6));
  const double base = keys.number_or("rope_local_base_freq", 1, 1e12, 10000);
  local_rope_where_windowed(config, local_rope_of(keys, config, base));
}

struct Family {
  std::string_view name;
  FamilyReader read;
};
constexpr Family kFamilies[] = {
    {"llama", read_llama},
    {"mistral", read_mistral},
    {"ministral", read_ministral},
    {"ministral3", read_ministral3},
    {"mistral3", read_ministral3},
    {"qwen2", read_qwen2},
    {"qwen3", read_qwen3},
    {"phi3", read_phi3},
    {"smollm3", read_smollm3},
    {"olmo2", read_olmo2},
    {"olmo3", read_olmo3},
    {"granite", read_granite},
    {"minicpm", read_minicpm},
    {"hunyuan_v1_dense", read_hunyuan},
    {"glm", read_glm},
    {"glm4", read_glm4},
    {"glm4v", read_glm4},
    {"glm4v_text", read_glm4},
    {"cohere", read_cohere},
    {"cohere2", read_cohere2},
    {"starcoder2", read_starcoder2},
    {"stablelm", read_stablelm},
    {"arcee", read_arcee},
    {"nemotron", read_nemotron},
    {"phi", read_phi},
    {"phimoe", read_phimoe},
    {"gpt_neox", read_gpt_neox},
    {"gemma", read_gemma1},
    {"gemma2", read_gemma2},
    {"gemma3", read_gemma3},
    {"gemma3_text", read_gemma3},
    {"exaone4", read_exaone4},
    {"exaone4_5", read_exaone4},
    {"exaone4_5_text", read_exaone4},
    {"seed_oss", read_seed_oss},
    {"ernie4_5", read_ernie4_5},
    // The text models of those that see, to which three positions of a token are one.
    {"qwen2_vl", read_qwen2},
    {"qwen2_vl_text", read_qwen2},
    {"qwen2_5_vl", read_qwen2},
    {"qwen2_5_vl_text", read_qwen2},
    {"qwen2_5_omni_text", read_qwen2},
    {"qwen3_vl", read_qwen3},
    {"qwen3_vl_text", read_qwen3},
};

}  // namespace

FamilyReader hugging_face_family(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (family.name == model_type) return family.read;
  }
  for (const auto find :
       {hugging_face_expert_family, hugging_face_recurrent_family, hugging_face_later_family}) {
    if (const FamilyReader found = find(model_type)) return found;
  }
  return hugging_face_picture_family(model_type);
}

std::string hugging_face_families() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) names.push_back(family.name);
  return fmt::format("one of {}, {}, {}, {}, {}", fmt::join(names, ", "), kExpertModelTypes,
                     kRecurrentModelTypes, kLaterModelTypes, kPictureModelTypes);
}

}  // namespace talon
