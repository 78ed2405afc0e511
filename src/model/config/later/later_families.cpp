#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "model/config/family_helpers.h"

// config.json of families of 2025 and later: mixtures whose blocks other families have, too, and
// Apertus, whose network has an activation of its own.
namespace talon {

const std::string_view kLaterModelTypes =
    "apertus, internlm3, iquestcoder, minimax_m2, hunyuan_v1_moe, hy_v3, exaone_moe, dots1, "
    "afmoe, solar_open, mellum, bailing_moe, bailing_moe_v2";

namespace {

/// Apertus. The numbers of its activation are tensors.
void read_apertus(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "xielu");
  expect_flag(keys, "qk_norm", true);
  expect_flag(keys, "post_norm", false);
  norm_each_head(config);
  config.forms.ffn_norm = "feedforward_layernorm";
  each_plan(config, [](LayerPlan& plan) { plan.activation = InputTransform::xielu; });
}

/// Llama with other names for its biases.
void read_internlm3(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  config.qkv_bias = keys.flag_or("qkv_bias", config.qkv_bias);
  config.output_bias = keys.flag_or("bias", config.output_bias);
  each_plan(config, [&](LayerPlan& plan) {
    plan.qkv_bias = config.qkv_bias;
    plan.output_bias = config.output_bias;
    plan.mlp_bias = keys.flag_or("bias", plan.mlp_bias);
  });
}

/// IQuest-Coder: Llama. What its makers' code has beside it no model of theirs uses.
void read_iquestcoder(const ConfigKeys& keys, ModelConfig&) {
  only_activation(keys, "silu");
  if (keys.has("clip_qkv")) keys.refuse("clip_qkv", "null");
  expect_flag(keys, "use_sliding_window", false);
}

/// `count`: the key of how many there are, which folders saved again may call otherwise.
ExpertPlan counted_experts(const ConfigKeys& keys, std::string_view count, std::string_view width) {
  const std::string_view key = keys.has(count) ? count : "num_local_experts";
  ExpertPlan experts;
  experts.count = keys.integer(keys.has(key) ? key : count, 1, ConfigLimits::kExperts);
  experts.used = keys.integer("num_experts_per_tok", 1, experts.count);
  experts.width = keys.integer(width, 1, ConfigLimits::kWidth);
  return experts;
}

/// Chosen by a sigmoid with a bias, as DeepSeek-V3's are.
ExpertPlan biased_experts(const ConfigKeys& keys, std::string_view count, std::string_view width) {
  ExpertPlan experts = counted_experts(keys, count, width);
  experts.score = RouteArgs::Score::sigmoid;
  experts.choice_bias = experts.group_by_two = experts.renormalize = true;
  return experts;
}

/// DeepSeek-V3's routing, where the numbers of experts have other names.
ExpertPlan grouped_experts(const ConfigKeys& keys) {
  ExpertPlan experts = biased_experts(keys, "num_experts", "moe_intermediate_size");
  experts.renormalize = keys.flag_or("norm_topk_prob", true);
  experts.scale = static_cast<float>(keys.number_or("routed_scaling_factor", 1e-6, 1e6, 1));
  experts.groups = keys.integer_or("n_group", 1, experts.count, 1);
  experts.groups_used = keys.integer_or("topk_group", 1, experts.groups, 1);
  experts.shared_width = experts.width * keys.integer_or("num_shared_experts", 0, 64, 1);
  return experts;
}

/// The part of a head that turns, which the makers give in columns.
void read_rotary_dim(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::string_view kColumns = "rotary_dim";
  if (!keys.has(kColumns)) return;
  const int rotary = keys.integer(kColumns, 2, config.head_dim);
  if (rotary % 2 != 0) keys.refuse(kColumns, "an even number");
  config.rope.rotary = rotary == config.head_dim ? 0 : rotary;
}

/// MiniMax M2, M2.1 and M2.5.
void read_minimax_m2(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::string_view kKinds = "attn_type_list", kShared = "shared_intermediate_size";
  only_activation(keys, "silu");
  expect_word(keys, "scoring_func", "sigmoid");
  expect_word(keys, "qk_norm_type", "per_layer");
  expect_flag(keys, "use_qk_norm", true);
  expect_flag(keys, "use_routing_bias", true);
  for (const int kind : keys.integers(kKinds, 0, 1, config.plans.size())) {
    if (kind == 0) keys.refuse(kKinds, "ones: attention to all positions");
  }
  if (keys.integer_or(kShared, 0, ConfigLimits::kWidth, 0) != 0) keys.refuse(kShared, "0");
  read_rotary_dim(keys, config);
  each_plan(config, [](LayerPlan& plan) { plan.head_norm = LayerPlan::HeadNorm::per_row; });
  plan_experts(config, biased_experts(keys, "num_local_experts", "intermediate_size"),
               [](int) { return true; });
}

/// A number, or a list of each layer's, which are all the same.
int number_of_layers(const ConfigKeys& keys, std::string_view key, int high, std::size_t layers) {
  const auto all = keys.integers(key, 1, high, layers);
  const auto differs = [&](int one) { return one != all[0]; };
  if (all.empty() || std::ranges::any_of(all, differs)) {
    keys.refuse(key, fmt::format("a number in 1..{}, the same in all layers", high));
  }
  return all[0];
}

/// Hunyuan's class has experts as wide as the shared one; its makers name their width.
ExpertPlan read_hunyuan_experts(const ConfigKeys& keys, const ModelConfig& config) {
  constexpr std::string_view kWidth = "moe_intermediate_size", kShared = "num_shared_expert";
  const std::size_t layers = config.plans.size();
  const std::string_view used = keys.has("moe_topk") ? "moe_topk" : "num_experts_per_tok";
  ExpertPlan experts;
  experts.count = number_of_layers(keys, "num_experts", ConfigLimits::kExperts, layers);
  experts.used = number_of_layers(keys, used, experts.count, layers);
  experts.width = keys.has(kWidth) ? number_of_layers(keys, kWidth, ConfigLimits::kWidth, layers)
                                   : config.intermediate;
  experts.renormalize = true;
  if (keys.has(kShared) && number_of_layers(keys, kShared, 64, layers) != 1) {
    keys.refuse(kShared, "1");
  }
  experts.shared_width = config.intermediate;
  return experts;
}

void read_hunyuan_moe(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  expect_flag(keys, "use_qk_norm", true);
  expect_flag(keys, "use_cla", false);
  config.rope.base = hunyuan_base(keys, config);
  each_plan(config, [](LayerPlan& plan) {
    plan.head_norm = LayerPlan::HeadNorm::after_rope;
    plan.head_norm_weights = true;
  });
  plan_experts(config, read_hunyuan_experts(keys, config), [](int) { return true; });
}

/// K-EXAONE's and Hy3's layers with experts: called sparse, or flagged, or all but the first ones.
std::vector<bool> sparse_layers(const ConfigKeys& keys, std::size_t count) {
  auto sparse = layers_called(keys, "mlp_layer_types", count, "sparse", "dense");
  if (sparse.empty()) sparse = keys.flags("is_moe_layer", count);
  const int before = keys.integer_or("first_last_k_dense_replace", 0, ConfigLimits::kLayers, 1);
  const int dense = keys.integer_or("first_k_dense_replace", 0, ConfigLimits::kLayers, before);
  for (int i = 0; sparse.size() < count; ++i) sparse.push_back(i >= dense);
  return sparse;
}

/// Hy3: a sigmoid and one shared expert.
void read_hy_v3(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  expect_flag(keys, "route_norm", true);
  expect_flag(keys, "moe_router_enable_expert_bias", true);
  norm_each_head(config);
  ExpertPlan experts = biased_experts(keys, "num_experts", "moe_intermediate_size");
  experts.scale = static_cast<float>(keys.number_or("router_scaling_factor", 1e-6, 1e6, 2.826));
  experts.shared_width = experts.width * keys.integer_or("num_shared_experts", 0, 64, 1);
  const auto sparse = sparse_layers(keys, config.plans.size());
  plan_experts(config, experts, [&](int i) { return sparse[static_cast<std::size_t>(i)]; });
}

/// EXAONE 4's attention behind norms before both halves.
void read_exaone_moe(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  expect_word(keys, "scoring_func", "sigmoid");
  norm_each_head(config);
  window_exaone(keys, config);
  const auto sparse = sparse_layers(keys, config.plans.size());
  plan_experts(config, grouped_experts(keys),
               [&](int i) { return sparse[static_cast<std::size_t>(i)]; });
}

/// dots.llm1: windows are those of Qwen 2.
void read_dots1(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  norm_each_head(config);
  if (keys.has("layer_types")) {
    window_by_types(keys, config, 0);
  } else {
    const int first = keys.integer_or("max_window_layers", 0, INT32_MAX, 62);
    window_layers(config, window_of(keys), [&](int i) { return i >= first; });
  }
  const int dense = keys.integer_or("first_k_dense_replace", 0, ConfigLimits::kLayers, 0);
  plan_experts(config, read_sigmoid_experts(keys), [&](int i) { return i >= dense; });
}

/// Arcee's Trinity: gated attention, four norms, full layers that do not turn.
void read_afmoe(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  expect_word(keys, "score_func", "sigmoid");
  expect_flag(keys, "route_norm", true);
  if (window_of(keys) == 0) keys.refuse("sliding_window", "a window");
  norm_each_head(config);
  if (keys.flag_or("mup_enabled", false)) {
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  }
  config.forms.gate_apart = true;
  window_by_types(keys, config,
                  keys.integer_or("global_attn_every_n_layers", 1, ConfigLimits::kLayers, 4));
  still_full_layers(config);
  each_plan(config, [](LayerPlan& plan) { plan.post_norms = plan.output_gate = true; });
  ExpertPlan experts = biased_experts(keys, "num_experts", "moe_intermediate_size");
  experts.scale = static_cast<float>(keys.number_or("route_scale", 1e-6, 1e6, 1));
  experts.shared_width = experts.width * keys.integer_or("num_shared_experts", 0, 64, 2);
  const int dense = keys.integer_or("num_dense_layers", 0, ConfigLimits::kLayers, 1);
  plan_experts(config, experts, [&](int i) { return i >= dense; });
}

/// Solar Open: GLM-4.5 without norms of heads, whose heads turn whole.
void read_solar_open(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::string_view kDense = "first_k_dense_replace";
  only_activation(keys, "silu");
  expect_flag(keys, "use_qk_norm", false);
  if (keys.integer_or(kDense, 0, ConfigLimits::kLayers, 0) != 0) keys.refuse(kDense, "0");
  config.output_bias = false;
  each_plan(config, [](LayerPlan& plan) { plan.output_bias = false; });
  plan_experts(config, read_sigmoid_experts(keys), [](int) { return true; });
}

/// Mellum 2: Qwen 3's experts, and windowed layers that turn otherwise.
void read_mellum(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  norm_each_head(config);
  window_by_types(keys, config, 0);
  if (config.sliding_window > 0) {
    local_rope_where_windowed(
        config, read_rope_of(keys, config.context, config.head_dim, "sliding_attention"));
  }
  ExpertPlan experts = counted_experts(keys, "num_experts", "moe_intermediate_size");
  experts.renormalize = keys.flag_or("norm_topk_prob", true);
  const auto sparse =
      layers_called(keys, "mlp_layer_types", config.plans.size(), "sparse", "dense");
  plan_experts(config, experts,
               [&](int i) { return sparse.empty() || sparse[static_cast<std::size_t>(i)]; });
}

/// Ling and Ring 2.0. The first ones have the same name and a softmax.
void read_bailing_moe(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::string_view kScore = "score_function", kNorms = "use_qk_norm";
  only_activation(keys, "silu");
  if (keys.text_or(kScore, "softmax") != "sigmoid") keys.refuse(kScore, "sigmoid");
  if (!keys.flag_or(kNorms, false)) keys.refuse(kNorms, "true");
  expect_flag(keys, "moe_router_enable_expert_bias", true);
  norm_each_head(config);
  config.forms.fused_qkv = true;
  config.qkv_bias = keys.flag_or("use_qkv_bias", false);
  config.output_bias = keys.flag_or("use_bias", false);
  each_plan(config, [&](LayerPlan& plan) {
    plan.qkv_bias = config.qkv_bias;
    plan.output_bias = config.output_bias;
  });
  const int dense = keys.integer_or("first_k_dense_replace", 0, ConfigLimits::kLayers, 0);
  plan_experts(config, grouped_experts(keys), [&](int i) { return i >= dense; });
}

struct LaterFamily {
  std::string_view name;
  FamilyReader read;
};
constexpr LaterFamily kLaterFamilies[] = {
    {"apertus", read_apertus},
    {"internlm3", read_internlm3},
    {"iquestcoder", read_iquestcoder},
    {"minimax_m2", read_minimax_m2},
    {"hunyuan_v1_moe", read_hunyuan_moe},
    {"hy_v3", read_hy_v3},
    {"exaone_moe", read_exaone_moe},
    {"dots1", read_dots1},
    {"afmoe", read_afmoe},
    {"solar_open", read_solar_open},
    {"mellum", read_mellum},
    {"bailing_moe", read_bailing_moe},
    {"bailing_moe_v2", read_bailing_moe},
};

}  // namespace

FamilyReader hugging_face_later_family(std::string_view model_type) {
  for (const LaterFamily& family : kLaterFamilies) {
    if (family.name == model_type) return family.read;
  }
  return nullptr;
}

}  // namespace talon
