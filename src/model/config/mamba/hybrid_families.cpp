#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "model/config/family_helpers.h"
#include "model/config/mamba/mamba_keys.h"

// Families with layers of Mamba-2 among those with attention: Granite 4, which has one network for
// every row and experts beside it where there are any, and Bamba.
namespace talon {
namespace {

using Limits = ConfigLimits;

/// The layers of Mamba-2. Without a list all are, as the class has it.
std::vector<bool> mamba_layers(const ConfigKeys& keys, std::size_t layers) {
  constexpr std::string_view kTypes = "layer_types";
  std::vector<bool> keeps;
  for (const std::string& type : keys.texts(kTypes, layers)) {
    const bool attends = type == "attention" || type == "full_attention";
    const bool is_mamba = type == "mamba" || type == "linear_attention";
    if (!attends && !is_mamba) keys.refuse(kTypes, "attention or mamba");
    keeps.push_back(is_mamba);
  }
  if (keeps.empty()) keeps.assign(layers, true);
  return keeps;
}

void read_networks(const ConfigKeys& keys, ModelConfig& config) {
  const int width = keys.integer_or("shared_intermediate_size", 1, Limits::kWidth, 1024);
  const int count = keys.integer_or("num_local_experts", 0, Limits::kExperts, 8);
  if (count == 0) {
    config.intermediate = width;
    config.forms.fused_gate_up = true;
    return each_plan(config, [&](LayerPlan& plan) { plan.intermediate = width; });
  }
  ExpertPlan experts;
  experts.count = count;
  experts.used = keys.integer_or("num_experts_per_tok", 1, count, 2);
  experts.width = config.intermediate;
  experts.renormalize = true;
  experts.shared_width = width;
  plan_experts(config, experts, [](int) { return true; });
}

bool has_mamba(const std::vector<bool>& keeps) {
  return std::find(keeps.begin(), keeps.end(), true) != keeps.end();
}

}  // namespace

void read_granitemoehybrid(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::string_view kTurns = "position_embedding_type";
  const std::vector<bool> keeps = mamba_layers(keys, config.plans.size());
  read_granite(keys, config);
  const std::string turns = keys.text_or(kTurns, "nope");
  if (turns != "rope" && turns != "nope") keys.refuse(kTurns, "rope or nope");
  if (turns == "nope") {
    each_plan(config, [](LayerPlan& plan) { plan.rope = LayerPlan::Rope::none; });
  }
  read_networks(keys, config);
  if (has_mamba(keeps)) keep_states(config, read_mamba(keys, config), keeps);
}

/// Layers that attend are listed. The class has the names of norms and networks, and a part of
/// heads that turns, for itself.
void read_bamba(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::string_view kAttend = "attn_layer_indices";
  only_activation(keys, "silu");
  std::vector<bool> keeps(config.plans.size(), true);
  const Json* listed = keys.find(kAttend);
  if (!listed || !listed->is_array()) keys.refuse(kAttend, "a list of layers that attend");
  for (const int layer : keys.integers(kAttend, 0, config.layers - 1, listed->size())) {
    keeps[static_cast<std::size_t>(layer)] = false;
  }
  config.forms.ffn_norm = "pre_ff_layernorm";
  if (has_mamba(keeps)) keep_states(config, read_mamba(keys, config), keeps);
}

/// Layers without key-value heads are Mamba's. A model without such layers converters call granite
/// or granitemoe, too.
void read_granitehybrid(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config) {
  const auto key = [&](std::string_view name) { return gguf_key(config, name); };
  const bool experts = keys.integer_or(key("expert_count"), 0, Limits::kExperts, 0) > 0;
  experts ? read_gguf_granitemoe(keys, checkpoint, config)
          : read_gguf_granite(keys, checkpoint, config);
  const std::vector<bool> keeps = gguf_layers_without_keys(keys, config);
  if (!has_mamba(keeps)) return;
  config.forms.still_rows_paired = true;  // as the converter has it
  RecurrentPlan plan = read_gguf_mamba(keys, checkpoint, config, keeps);
  plan.norm = true;
  keep_states(config, plan, keeps);
}

}  // namespace talon
