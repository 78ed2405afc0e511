#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "model/config/family_helpers.h"

// LFM2: layers that attend, with norms of heads, and short convolutions over all columns.
namespace talon {
namespace {

using Limits = ConfigLimits;

void plan_convolutions(ModelConfig& config, int kernel, const std::vector<bool>& convolves) {
  RecurrentPlan plan;
  plan.rule = StateRule::short_convolution;
  plan.key_heads = plan.value_heads = 1;
  plan.value_dim = config.hidden;
  plan.kernel = kernel;
  norm_each_head(config);
  keep_states(config, plan, convolves);
}

/// Listed by their kinds or, in the first folders, as those that attend. Without a list all do.
std::vector<bool> convolving_layers(const ConfigKeys& keys, std::size_t layers) {
  constexpr std::string_view kAttend = "full_attn_idxs";
  std::vector<bool> convolves =
      layers_called(keys, "layer_types", layers, "conv", "full_attention");
  if (!convolves.empty()) return convolves;
  const Json* listed = keys.find(kAttend);
  convolves.assign(layers, listed != nullptr);
  if (!listed) return convolves;
  if (!listed->is_array()) keys.refuse(kAttend, "a list of layers that attend");
  for (const int layer : keys.integers(kAttend, 0, static_cast<int>(layers) - 1, listed->size())) {
    convolves[static_cast<std::size_t>(layer)] = false;
  }
  return convolves;
}

void read_convolutions(const ConfigKeys& keys, ModelConfig& config) {
  expect_flag(keys, "conv_bias", false);
  plan_convolutions(config, keys.integer_or("conv_L_cache", 2, kLongestKernel, 3),
                    convolving_layers(keys, config.plans.size()));
}

/// Of the dense network. The file states another width, from which its class computes this one.
int adjusted_width(const ConfigKeys& keys, int stated) {
  constexpr std::string_view kFactor = "block_ffn_dim_multiplier";
  if (!keys.flag_or("block_auto_adjust_ff_dim", true)) return stated;
  const double factor = keys.number_or(kFactor, 1e-3, 1e3, 1);
  const int multiple = keys.integer_or("block_multiple_of", 1, Limits::kWidth, 256);
  const int least = static_cast<int>(factor * (2 * stated / 3));
  const int width = (least + multiple - 1) / multiple * multiple;
  if (width < 1 || width > Limits::kWidth) {
    keys.refuse(kFactor, fmt::format("a network of 1 to {} columns", int{Limits::kWidth}));
  }
  return width;
}

ExpertPlan sigmoid_experts_of(const ConfigKeys& keys) {
  ExpertPlan experts;
  experts.count = keys.integer_or("num_experts", 1, Limits::kExperts, 32);
  experts.used = keys.integer_or("num_experts_per_tok", 1, experts.count, 4);
  experts.width = keys.integer_or("moe_intermediate_size", 1, Limits::kWidth, 1792);
  experts.score = RouteArgs::Score::sigmoid;
  experts.choice_bias = keys.flag_or("use_expert_bias", true);
  experts.renormalize = keys.flag_or("norm_topk_prob", true);
  experts.scale = static_cast<float>(keys.number_or("routed_scaling_factor", 1e-6, 1e6, 1));
  return experts;
}

}  // namespace

void read_lfm2(const ConfigKeys& keys, ModelConfig& config) {
  const int width = adjusted_width(keys, config.intermediate);
  config.intermediate = width;
  each_plan(config, [&](LayerPlan& plan) { plan.intermediate = width; });
  read_convolutions(keys, config);
}

void read_lfm2_moe(const ConfigKeys& keys, ModelConfig& config) {
  const int dense = keys.integer_or("num_dense_layers", 0, Limits::kLayers, 2);
  plan_experts(config, sigmoid_experts_of(keys), [&](int layer) { return layer >= dense; });
  read_convolutions(keys, config);
}

/// Some models have a window of attention. Ollama's files have the usual name of the last norm.
void read_gguf_lfm2(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config) {
  config.forms.usual_final_norm = checkpoint.find("output_norm.weight") != nullptr;
  const int kernel = keys.integer(gguf_key(config, "shortconv.l_cache"), 2, kLongestKernel);
  const std::vector<bool> convolves = gguf_layers_without_keys(keys, config);
  const int window = keys.integer_or(gguf_key(config, "attention.sliding_window"), 0, INT32_MAX, 0);
  window_layers(config, window,
                [&](int layer) { return !convolves[static_cast<std::size_t>(layer)]; });
  plan_convolutions(config, kernel, convolves);
}

/// The files hold a bias of the choice always.
void read_gguf_lfm2moe(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config) {
  const auto key = [&](std::string_view name) { return gguf_key(config, name); };
  constexpr int kSigmoid = 2;
  ExpertPlan experts = read_gguf_experts(keys, config);
  if (keys.integer_or(key("expert_gating_func"), 1, kSigmoid, kSigmoid) == kSigmoid) {
    experts.score = RouteArgs::Score::sigmoid;
  }
  experts.choice_bias = true;
  experts.renormalize = keys.flag_or(key("expert_weights_norm"), true);
  experts.scale = static_cast<float>(keys.number_or(key("expert_weights_scale"), 1e-6, 1e6, 1));
  const int dense = keys.integer_or(key("leading_dense_block_count"), 0, Limits::kLayers, 0);
  plan_experts(config, experts, [&](int layer) { return layer >= dense; });
  read_gguf_lfm2(keys, checkpoint, config);
}

}  // namespace talon
