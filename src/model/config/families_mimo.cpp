#include "core/error.h"
#include "model/config/family_helpers.h"

// MiMo-V2-Flash: layers with a window have key-value heads, a rotary base and sinks of their own;
// values are smaller than keys and scaled; DeepSeek-V3's routing without a shared expert.
namespace talon {
namespace {

using Limits = ConfigLimits;

/// Listed by the name that transformers has for each, or by the makers' ones and zeros.
std::vector<bool> windowed_layers(const ConfigKeys& keys, std::size_t count) {
  auto windowed = layers_called(keys, "layer_types", count, "sliding_attention", "full_attention");
  if (windowed.empty()) windowed = keys.flags("hybrid_layer_pattern", count);
  for (std::size_t i = windowed.size(); i < count; ++i) {
    windowed.push_back(i != 0 && (i + 1) % 6 != 0);
  }
  return windowed;
}

std::vector<bool> layers_with_experts(const ConfigKeys& keys, std::size_t count) {
  auto mixed = layers_called(keys, "mlp_layer_types", count, "sparse", "dense");
  if (mixed.empty()) mixed = keys.flags("moe_layer_freq", count);
  for (std::size_t i = mixed.size(); i < count; ++i) mixed.push_back(i != 0);
  return mixed;
}

/// The makers count the positions before a row's own, transformers that one, too.
int window_with_itself(const ConfigKeys& keys) {
  constexpr std::string_view kBefore = "sliding_window_size";
  return keys.has(kBefore) ? keys.integer(kBefore, 1, INT32_MAX - 1) + 1
                           : keys.integer("sliding_window", 1, INT32_MAX);
}

RopeConfig windowed_rope(const ConfigKeys& keys, const ModelConfig& config, int head_dim) {
  RopeConfig rope = read_rope_of(keys, config.context, head_dim, "sliding_attention");
  if (!keys.has("rope_parameters")) rope.base = keys.number_or("swa_rope_theta", 1, 1e12, 1e4);
  return rope;
}

void plan_attention(const ConfigKeys& keys, ModelConfig& config) {
  const auto windowed = windowed_layers(keys, config.plans.size());
  const bool sinks = keys.flag_or("add_swa_attention_sink_bias", true);
  const bool full_sinks = keys.flag_or("add_full_attention_sink_bias", false);
  const int value_dim = keys.integer("v_head_dim", 1, Limits::kHeadDim);
  const auto scale = static_cast<float>(keys.number_or("attention_value_scale", 1e-6, 1e6, 1));
  LayerPlan local;
  local.heads = keys.integer_or("swa_num_attention_heads", 1, Limits::kHeads, config.heads);
  local.kv_heads =
      keys.integer_or("swa_num_key_value_heads", 1, Limits::kHeads, 2 * config.kv_heads);
  local.head_dim = keys.integer_or("swa_head_dim", 2, Limits::kHeadDim, config.head_dim);
  local.value_dim = keys.integer_or("swa_v_head_dim", 1, Limits::kHeadDim, value_dim);
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    LayerPlan& plan = config.plans[i];
    plan.value_dim = value_dim;
    plan.value_scale = scale;
    plan.sinks = windowed[i] ? sinks : full_sinks;
    if (!windowed[i]) continue;
    plan.heads = local.heads;
    plan.kv_heads = local.kv_heads;
    plan.head_dim = local.head_dim;
    plan.value_dim = local.value_dim;
  }
  window_layers(config, window_with_itself(keys),
                [&](int i) { return windowed[static_cast<std::size_t>(i)]; });
  local_rope_where_windowed(config, windowed_rope(keys, config, local.head_dim));
}

}  // namespace

void read_mimo(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  constexpr std::string_view kScore = "scoring_func";
  if (keys.text_or(kScore, "sigmoid") != "sigmoid") keys.refuse(kScore, "sigmoid");
  config.output_bias = false;
  each_plan(config, [](LayerPlan& plan) { plan.output_bias = false; });
  plan_attention(keys, config);
  const auto mixed = layers_with_experts(keys, config.plans.size());
  plan_experts(config, read_sigmoid_experts(keys),
               [&](int i) { return mixed[static_cast<std::size_t>(i)]; });
}

/// What the file does not list is told by its tensors.
void read_gguf_mimo2(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config) {
  const auto key = [&](std::string_view name) { return gguf_key(config, name); };
  const auto has = [&](int layer, std::string_view tensor) {
    return checkpoint.find(fmt::format("blk.{}.{}", layer, tensor)) != nullptr;
  };
  gguf_window_by_pattern(keys, config, 6);
  const std::string heads = key("attention.head_count_kv");
  const auto kv_heads = gguf_integers(keys, heads, Limits::kHeads, config.plans.size());
  const int value_dim =
      keys.integer_or(key("attention.value_length"), 1, Limits::kHeadDim, config.head_dim);
  const double scale = keys.number_or(key("attention.value_scale"), 0, 1e6, 0);
  for (int i = 0; i < config.layers; ++i) {
    LayerPlan& plan = config.plans[static_cast<std::size_t>(i)];
    plan.value_dim = value_dim;
    plan.value_scale = scale == 0 ? 1 : static_cast<float>(scale);
    plan.sinks = has(i, "attn_sinks.weight");
    if (!kv_heads.empty()) plan.kv_heads = kv_heads[static_cast<std::size_t>(i)];
  }
  RopeConfig local = config.rope;
  local.base = gguf_local_base(keys, config, local.base);
  local_rope_where_windowed(config, local);
  ExpertPlan experts = read_gguf_experts(keys, config);
  experts.score = RouteArgs::Score::sigmoid;
  experts.choice_bias = experts.group_by_two = experts.renormalize = true;
  experts.scale = static_cast<float>(keys.number_or(key("expert_weights_scale"), 1e-6, 1e6, 1));
  plan_experts(config, experts, [&](int i) { return has(i, "ffn_gate_inp.weight"); });
}

}  // namespace talon
