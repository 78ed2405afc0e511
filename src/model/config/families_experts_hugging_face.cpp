#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "model/config/family_helpers.h"

namespace talon {

const std::string_view kExpertModelTypes =
    "mixtral, qwen2_moe, qwen3_moe, qwen3_omni_moe_text, qwen3_vl_moe, qwen3_vl_moe_text, gpt_oss, "
    "granitemoe, granitemoeshared, mistral4, glm4_moe, glm4v_moe, glm4v_moe_text, llama4, "
    "llama4_text, deepseek_v2, deepseek_v3, kimi_k2, gemma4, gemma4_text, gemma4_unified, "
    "gemma4_unified_text, mimo_v2_flash, olmoe, ernie4_5_moe, glm4_moe_lite";

namespace {

using Limits = ConfigLimits;
using HeadNorm = LayerPlan::HeadNorm;

/// How many experts there are, how many a token has, and how wide they are, under the names that
/// the families use.
ExpertPlan read_experts(const ConfigKeys& keys, std::string_view count, std::string_view width) {
  ExpertPlan experts;
  const bool saved_again = !keys.has(count) && keys.has("num_local_experts");
  experts.count = keys.integer(saved_again ? "num_local_experts" : count, 1, Limits::kExperts);
  const std::string_view used = keys.has("top_k_experts") ? "top_k_experts" : "num_experts_per_tok";
  experts.used = keys.integer(used, 1, experts.count);
  experts.width = keys.integer(width, 1, Limits::kWidth);
  return experts;
}

bool every_layer(int) { return true; }

void read_mixtral(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  ExpertPlan experts = read_experts(keys, "num_local_experts", "intermediate_size");
  experts.renormalize = true;
  plan_experts(config, experts, every_layer);
  window_layers(config, window_of(keys), every_layer);
}

/// Qwen's layers without experts: listed, or all but every so many.
void plan_qwen_experts(const ConfigKeys& keys, ModelConfig& config, const ExpertPlan& experts) {
  const int step = keys.integer_or("decoder_sparse_step", 1, Limits::kLayers, 1);
  std::vector<int> dense;
  if (const Json* listed = keys.find("mlp_only_layers"); listed && listed->is_array()) {
    dense = keys.integers("mlp_only_layers", 0, Limits::kLayers, listed->size());
  }
  plan_experts(config, experts, [&](int i) {
    return (i + 1) % step == 0 && std::find(dense.begin(), dense.end(), i) == dense.end();
  });
}

void read_qwen3_moe(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  norm_each_head(config);
  ExpertPlan experts = read_experts(keys, "num_experts", "moe_intermediate_size");
  experts.renormalize = keys.flag_or("norm_topk_prob", false);
  plan_qwen_experts(keys, config, experts);
  if (keys.flag_or("use_sliding_window", false)) {
    window_layers(config, window_of(keys), every_layer);
  }
}

void read_qwen3_vl_moe(const ConfigKeys& keys, ModelConfig& config) {
  read_qwen3_moe(keys, config);
  each_plan(config, [](LayerPlan& plan) { plan.experts.renormalize = true; });
  config.forms.experts_inputs_first = true;
}

void read_qwen2_moe(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  config.qkv_bias = keys.flag_or("qkv_bias", true);
  config.output_bias = false;
  each_plan(config, [&](LayerPlan& plan) {
    plan.qkv_bias = config.qkv_bias;
    plan.output_bias = false;
  });
  read_qwen_experts(keys, config, keys.flag_or("norm_topk_prob", false));
  if (!keys.flag_or("use_sliding_window", false)) return;
  if (keys.has("layer_types")) return window_by_types(keys, config, 0);
  // Unlike the dense models', its class counts the windows from the first layer on.
  const int end = keys.integer_or("max_window_layers", 0, INT32_MAX, 28);
  window_layers(config, window_of(keys), [&](int i) { return i % 2 == 0 && i < end; });
}

void read_olmoe(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  if (keys.has("clip_qkv")) keys.refuse("clip_qkv", "null");
  each_plan(config, [](LayerPlan& plan) { plan.head_norm = HeadNorm::per_row; });
  ExpertPlan experts = read_experts(keys, "num_experts", "intermediate_size");
  experts.renormalize = keys.flag_or("norm_topk_prob", false);
  plan_experts(config, experts, every_layer);
}

/// Every so many of the layers from one to another.
void read_ernie4_5_moe(const ConfigKeys& keys, ModelConfig& config) {
  read_ernie4_5(keys, config);
  ExpertPlan experts;
  experts.count = keys.integer("moe_num_experts", 1, Limits::kExperts);
  experts.used = keys.integer("moe_k", 1, experts.count);
  experts.width = keys.integer("moe_intermediate_size", 1, Limits::kWidth);
  experts.choice_bias = experts.renormalize = true;
  experts.shared_width = experts.width * keys.integer_or("moe_num_shared_experts", 0, 64, 2);
  const int first = keys.integer_or("moe_layer_start_index", 0, Limits::kLayers, 1);
  const int last = keys.integer_or("moe_layer_end_index", -1, Limits::kLayers, -1);
  const int every = keys.integer_or("moe_layer_interval", 1, Limits::kLayers, 1);
  plan_experts(config, experts, [&](int i) {
    return (i + 1) % every == 0 && i >= first && (last < 0 || i <= last);
  });
}

void read_gpt_oss(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  if (keys.number_or("swiglu_limit", 0, 1e6, kSwigluLimit) != kSwigluLimit) {
    keys.refuse("swiglu_limit", "7");
  }
  const double slope = keys.number_or("swiglu_alpha", 0, 1e6, kSwigluSlope);
  if (static_cast<float>(slope) != kSwigluSlope) keys.refuse("swiglu_alpha", "1.702");
  const bool biases = keys.flag_or("attention_bias", true);
  config.qkv_bias = config.output_bias = biases;
  each_plan(config, [&](LayerPlan& plan) {
    plan.qkv_bias = plan.output_bias = biases;
    plan.sinks = true;
    plan.activation = InputTransform::clamped_swiglu;
  });
  ExpertPlan experts = read_experts(keys, "num_local_experts", "intermediate_size");
  experts.renormalize = experts.biases = true;
  plan_experts(config, experts, every_layer);
  config.forms.experts_inputs_first = config.forms.experts_alternate = true;
  window_by_types(keys, config, 2);
}

void read_granitemoe(const ConfigKeys& keys, ModelConfig& config) {
  read_granite(keys, config);
  ExpertPlan experts = read_experts(keys, "num_local_experts", "intermediate_size");
  experts.renormalize = true;
  experts.shared_width = keys.integer_or("shared_intermediate_size", 0, Limits::kWidth, 0);
  plan_experts(config, experts, every_layer);
}

/// In the layers that are listed, else in all but the first ones.
void plan_sigmoid_experts(const ConfigKeys& keys, ModelConfig& config) {
  const int dense = keys.integer_or("first_k_dense_replace", 0, Limits::kLayers, 0);
  const auto sparse =
      layers_called(keys, "mlp_layer_types", config.plans.size(), "sparse", "dense");
  plan_experts(config, read_sigmoid_experts(keys), [&](int i) {
    return sparse.empty() ? i >= dense : sparse[static_cast<std::size_t>(i)];
  });
}

void read_glm4_moe(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  config.output_bias = false;
  config.qk_norm = keys.flag_or("use_qk_norm", false);
  each_plan(config, [&](LayerPlan& plan) {
    plan.output_bias = false;
    if (config.qk_norm) plan.head_norm = HeadNorm::per_head;
  });
  plan_sigmoid_experts(keys, config);
}

/// Some files have a number for it, of which 0 means no.
bool tunes_temperature(const ConfigKeys& keys) {
  constexpr std::string_view kKey = "attn_temperature_tuning";
  const Json* value = keys.find(kKey);
  if (value && value->is_number()) return keys.integer(kKey, 0, INT32_MAX) != 0;
  return keys.flag_or(kKey, true);
}

/// Llama 4's layers whose attention has chunks: listed, else those that turn.
std::vector<bool> chunked_layers(const ConfigKeys& keys, const std::vector<bool>& turns) {
  const auto chunked =
      layers_called(keys, "layer_types", turns.size(), "chunked_attention", "full_attention");
  return chunked.empty() ? turns : chunked;
}

/// Those with experts: listed, else every so many.
std::vector<int> mixed_layers(const ConfigKeys& keys, int layers) {
  constexpr std::string_view kKey = "moe_layers";
  if (const Json* listed = keys.find(kKey); listed && listed->is_array()) {
    return keys.integers(kKey, 0, Limits::kLayers, listed->size());
  }
  const int step = keys.integer_or("interleave_moe_layer_step", 1, Limits::kLayers, 1);
  std::vector<int> result;
  for (int i = step - 1; i < layers; i += step) result.push_back(i);
  return result;
}

void read_llama4(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  config.interleaved_rope = true;
  const auto count = static_cast<std::size_t>(config.layers);
  std::vector<bool> turns = flags_of_layers(keys, "no_rope_layers", count);  // 1: rope
  const auto every =
      static_cast<std::size_t>(keys.integer_or("no_rope_layer_interval", 1, Limits::kLayers, 4));
  for (std::size_t i = turns.size(); i < count; ++i) turns.push_back((i + 1) % every != 0);
  const bool norms = keys.flag_or("use_qk_norm", true);
  const std::vector<bool> chunked = chunked_layers(keys, turns);
  const int chunk = keys.integer_or("attention_chunk_size", 1, INT32_MAX, 0);
  const bool tuned = tunes_temperature(keys);
  config.query_scaling = {tuned ? keys.number_or("attn_scale", 0, 1e3, 0.1) : 0,
                          keys.number_or("floor_scale", 1, 1e9, 8192), 1};
  for (std::size_t i = 0; i < count; ++i) {
    LayerPlan& plan = config.plans[i];
    plan.intermediate = keys.integer("intermediate_size_mlp", 1, Limits::kWidth);
    if (chunked[i]) plan.chunk = chunk;
    if (!turns[i]) {
      plan.rope = LayerPlan::Rope::none;
      plan.scales_queries = tuned;
      continue;
    }
    if (norms) plan.head_norm = HeadNorm::after_rope;
  }
  ExpertPlan experts = read_experts(keys, "num_local_experts", "intermediate_size");
  experts.score = RouteArgs::Score::sigmoid;
  experts.weigh_input = true;
  experts.shared_width = experts.width;
  config.forms.experts_inputs_first = true;
  const std::vector<int> mixed = mixed_layers(keys, config.layers);
  plan_experts(config, experts, [&](int i) { return std::ranges::find(mixed, i) != mixed.end(); });
}

/// The two multipliers of a head's scores and angles that DeepSeek's YaRN has.
double latent_score_scale(const ConfigKeys& keys, const ModelConfig& config, int head_dim) {
  double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  const auto scaling = rope_keys_of(keys);
  const double all = scaling ? scaling->number_or("mscale_all_dim", 0, 1e3, 0) : 0;
  if (config.rope.scaling != RopeConfig::Scaling::yarn || all == 0) return scale;
  const double mscale = yarn_attention_factor(config.rope.factor, all);
  return scale * mscale * mscale;
}

void read_latents(const ConfigKeys& keys, ModelConfig& config) {
  LatentPlan latent;
  latent.kv_rank = keys.integer("kv_lora_rank", 1, Limits::kHeadDim);
  latent.q_rank = keys.integer_or("q_lora_rank", 1, Limits::kWidth, 0);
  latent.plain_dim = keys.integer("qk_nope_head_dim", 1, Limits::kHeadDim);
  latent.rotary_dim = keys.integer("qk_rope_head_dim", 2, Limits::kHeadDim);
  latent.output_dim = keys.integer("v_head_dim", 1, Limits::kHeadDim);
  // The sizes that a folder saved again calls head_dim are others.
  config.rope = read_rope_of(keys, config.context, latent.rotary_dim, "full_attention");
  config.rope.rotary = latent.rotary_dim;
  config.interleaved_rope = keys.flag_or("rope_interleave", true);
  config.kv_heads = 1;
  config.head_dim = latent.kv_rank + latent.rotary_dim;
  const double scale = latent_score_scale(keys, config, latent.plain_dim + latent.rotary_dim);
  each_plan(config, [&](LayerPlan& plan) {
    plan.latent = latent;
    plan.kv_heads = 1;
    plan.head_dim = config.head_dim;
    plan.value_dim = latent.kv_rank;
    plan.score_scale = static_cast<float>(scale);
  });
}

void read_deepseek_v3(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  if (keys.flag_or("attention_bias", false)) keys.refuse("attention_bias", "false");
  read_latents(keys, config);
  plan_sigmoid_experts(keys, config);
}

void read_deepseek_v2(const ConfigKeys& keys, ModelConfig& config) {
  read_deepseek_v3(keys, config);
  const std::string method = keys.text_or("topk_method", "greedy");
  if (method != "greedy" && method != "group_limited_greedy") {
    keys.refuse("topk_method", "greedy or group_limited_greedy");
  }
  each_plan(config, [&](LayerPlan& plan) {
    plan.experts.score = RouteArgs::Score::softmax;
    plan.experts.choice_bias = plan.experts.group_by_two = plan.experts.renormalize = false;
    if (method == "greedy") plan.experts.groups = plan.experts.groups_used = 1;
  });
}

/// Mistral Small 4: DeepSeek-V3 with queries that their positions scale and a softmax of experts.
void read_mistral4(const ConfigKeys& keys, ModelConfig& config) {
  read_deepseek_v3(keys, config);
  read_query_scaling(keys, config);
  each_plan(config, [](LayerPlan& plan) {
    plan.experts.score = RouteArgs::Score::softmax;
    plan.experts.choice_bias = false;
  });
}

/// The object below a layer's number, which zeros make as long as the largest one.
std::optional<ConfigKeys> object_of_layer(const ConfigKeys& layers, std::size_t layer) {
  constexpr int kMostDigits = 4;
  static_assert(Limits::kLayers < 10'000);
  for (int digits = 1; digits <= kMostDigits; ++digits) {
    if (auto own = layers.object(fmt::format("{:0{}}", layer, digits))) return own;
  }
  return std::nullopt;
}

/// What layers have otherwise than the others: how transformers saves what the published files say
/// of the full layers.
void read_heads_of_layers(const ConfigKeys& layers, ModelConfig& config) {
  for (std::size_t i = 0; i < config.plans.size(); ++i) {
    const auto own = object_of_layer(layers, i);
    if (!own) continue;
    LayerPlan& plan = config.plans[i];
    plan.head_dim = own->integer_or("head_dim", 2, Limits::kHeadDim, plan.head_dim);
    plan.kv_heads = own->integer_or("num_key_value_heads", 1, Limits::kHeads, plan.kv_heads);
    own->expect_only({"head_dim", "num_key_value_heads"});
  }
}

/// Full layers have heads of their own size and, in some models, values that are their keys.
void plan_gemma4_heads(const ConfigKeys& keys, ModelConfig& config) {
  const auto layers = keys.object("per_layer_config");
  const int head_dim = keys.integer_or("global_head_dim", 2, Limits::kHeadDim, config.head_dim);
  const int kv_heads =
      keys.integer_or("num_global_key_value_heads", 1, Limits::kHeads, config.kv_heads);
  const bool keys_are_values = keys.flag_or("attention_k_eq_v", false);
  each_plan(config, [&](LayerPlan& plan) {
    plan.head_norm = HeadNorm::per_head;
    plan.value_norm = plan.output_scale = true;
    plan.score_scale = 1;
    if (plan.window > 0) return;
    plan.keys_are_values = keys_are_values;
    if (layers) return;
    plan.head_dim = head_dim;
    if (keys_are_values) plan.kv_heads = kv_heads;
  });
  if (layers) read_heads_of_layers(*layers, config);
  // The last layer is a full one.
  config.rope = read_rope_of(keys, config.context, config.plans.back().head_dim, "full_attention");
}

void read_gemma4(const ConfigKeys& keys, ModelConfig& config) {
  read_gemma(keys, config);
  constexpr std::string_view kBothWays = "use_bidirectional_attention";
  if (keys.text_or(kBothWays, "vision") != "vision") keys.refuse(kBothWays, "vision");
  window_by_types(keys, config, 6);
  config.plans.back().window = 0;  // whatever the list says
  plan_gemma4_heads(keys, config);
  local_rope_where_windowed(
      config, read_rope_of(keys, config.context, config.head_dim, "sliding_attention"));
  const int shared = keys.integer_or("num_kv_shared_layers", 0, config.layers - 1, 0);
  share_last_layers(config, shared);
  const bool wide = keys.flag_or("use_double_wide_mlp", false);
  config.per_layer_input = keys.integer_or("hidden_size_per_layer_input", 0, Limits::kWidth, 0);
  each_plan(config, [&](LayerPlan& plan) {
    plan.per_layer_input = config.per_layer_input;
    if (wide && !plan.writes_cache) plan.intermediate *= 2;
  });
  if (!keys.flag_or("enable_moe_block", false)) return;
  ExpertPlan experts = read_experts(keys, "num_experts", "moe_intermediate_size");
  experts.renormalize = experts.beside_dense = true;
  plan_experts(config, experts, every_layer);
}

struct Family {
  std::string_view name;
  FamilyReader read;
};
constexpr Family kFamilies[] = {
    {"mixtral", read_mixtral},
    {"qwen2_moe", read_qwen2_moe},
    {"qwen3_moe", read_qwen3_moe},
    {"qwen3_omni_moe_text", read_qwen3_moe},
    {"qwen3_vl_moe", read_qwen3_vl_moe},
    {"qwen3_vl_moe_text", read_qwen3_vl_moe},
    {"gpt_oss", read_gpt_oss},
    {"granitemoe", read_granitemoe},
    {"granitemoeshared", read_granitemoe},
    {"glm4_moe", read_glm4_moe},
    {"glm4v_moe", read_glm4_moe},
    {"glm4v_moe_text", read_glm4_moe},
    {"llama4", read_llama4},
    {"llama4_text", read_llama4},
    {"deepseek_v2", read_deepseek_v2},
    {"deepseek_v3", read_deepseek_v3},
    {"kimi_k2", read_deepseek_v3},
    {"gemma4", read_gemma4},
    {"gemma4_text", read_gemma4},
    {"gemma4_unified", read_gemma4},
    {"gemma4_unified_text", read_gemma4},
    {"mimo_v2_flash", read_mimo},
    {"olmoe", read_olmoe},
    {"ernie4_5_moe", read_ernie4_5_moe},
    {"glm4_moe_lite", read_deepseek_v3},
    {"mistral4", read_mistral4},
};

}  // namespace

ExpertPlan read_sigmoid_experts(const ConfigKeys& keys) {
  ExpertPlan experts = read_experts(keys, "n_routed_experts", "moe_intermediate_size");
  experts.score = RouteArgs::Score::sigmoid;
  experts.choice_bias = experts.group_by_two = true;
  experts.renormalize = keys.flag_or("norm_topk_prob", true);
  experts.scale = static_cast<float>(keys.number_or("routed_scaling_factor", 1e-6, 1e6, 1));
  experts.groups = keys.integer_or("n_group", 1, experts.count, 1);
  experts.groups_used = keys.integer_or("topk_group", 1, experts.groups, 1);
  experts.shared_width = experts.width * keys.integer_or("n_shared_experts", 0, 64, 0);
  return experts;
}

void read_qwen_experts(const ConfigKeys& keys, ModelConfig& config, bool renormalize) {
  ExpertPlan experts = read_experts(keys, "num_experts", "moe_intermediate_size");
  experts.renormalize = renormalize;
  experts.shared_width = keys.integer("shared_expert_intermediate_size", 1, Limits::kWidth);
  experts.shared_gate = true;
  plan_qwen_experts(keys, config, experts);
}

FamilyReader hugging_face_expert_family(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (family.name == model_type) return family.read;
  }
  return nullptr;
}

}  // namespace talon
