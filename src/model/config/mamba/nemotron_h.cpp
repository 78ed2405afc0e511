#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "model/config/family_helpers.h"
#include "model/config/mamba/mamba_keys.h"

// Nemotron-H: layers of Mamba-2, of attention without rotation, or of a network or experts without
// gates alone, each with one norm.
namespace talon {
namespace {

using Limits = ConfigLimits;
enum class LayerKind { mamba, attention, network, experts };

LayerKind kind_of_letter(const ConfigKeys& keys, std::string_view key, char letter) {
  if (letter == 'M') return LayerKind::mamba;
  if (letter == '*') return LayerKind::attention;
  if (letter == 'E') return LayerKind::experts;
  if (letter != '-') keys.refuse(key, "M, *, - or E for each layer");
  return LayerKind::network;
}

LayerKind kind_of_name(const ConfigKeys& keys, std::string_view key, std::string_view name) {
  if (name == "mamba" || name == "linear_attention") return LayerKind::mamba;
  if (name == "attention" || name == "full_attention") return LayerKind::attention;
  if (name == "moe") return LayerKind::experts;
  if (name != "mlp") keys.refuse(key, "mamba, attention, mlp or moe");
  return LayerKind::network;
}

/// Listed by their names or, in the first folders, in a text of letters.
std::vector<LayerKind> kinds_of_layers(const ConfigKeys& keys, std::size_t layers) {
  constexpr std::string_view kPattern = "hybrid_override_pattern";
  std::vector<LayerKind> kinds;
  for (const char* list : {"layers_block_type", "layer_types"}) {
    for (const std::string& name : keys.texts(list, layers)) {
      kinds.push_back(kind_of_name(keys, list, name));
    }
    if (!kinds.empty()) return kinds;
  }
  const std::string letters = keys.text(kPattern);
  if (letters.size() != layers) keys.refuse(kPattern, fmt::format("{} letters", layers));
  for (const char letter : letters) kinds.push_back(kind_of_letter(keys, kPattern, letter));
  return kinds;
}

RecurrentPlan read_nemotron_mamba(const ConfigKeys& keys) {
  RecurrentPlan plan;
  plan.rule = StateRule::mamba2;
  plan.key_heads = keys.integer_or("n_groups", 1, Limits::kHeads, 8);
  plan.value_heads = keys.integer_or("mamba_num_heads", 1, Limits::kHeads, 128);
  plan.key_dim = keys.integer_or("ssm_state_size", 1, Limits::kHeadDim, 128);
  plan.value_dim = keys.integer_or("mamba_head_dim", 1, Limits::kHeadDim, 64);
  plan.kernel = keys.integer_or("conv_kernel", 2, kLongestKernel, 4);
  plan.filter_bias = keys.flag_or("use_conv_bias", true);
  plan.steps = read_step_limits(keys);
  return plan;
}

bool has_experts(const std::vector<LayerKind>& kinds) {
  return std::find(kinds.begin(), kinds.end(), LayerKind::experts) != kinds.end();
}

ExpertPlan read_nemotron_experts(const ConfigKeys& keys) {
  constexpr std::string_view kLatents = "moe_latent_size";
  if (keys.has(kLatents)) keys.refuse(kLatents, "nothing: experts that read the hidden size");
  ExpertPlan experts = read_sigmoid_experts(keys);
  experts.shared_width =
      keys.integer_or("moe_shared_expert_intermediate_size", 1, Limits::kWidth, 7688);
  return experts;
}

/// Without a width of experts that of the network is theirs together.
ExpertPlan read_gguf_nemotron_experts(const ConfigKeys& keys, const ModelConfig& config) {
  const auto key = [&](std::string_view name) { return gguf_key(config, name); };
  const std::string latents = key("moe_latent_size");
  if (keys.integer_or(latents, 0, Limits::kWidth, 0) > 0) keys.refuse(latents, "0");
  ExpertPlan experts = read_gguf_experts(keys, config);
  if (!keys.has(key("expert_feed_forward_length"))) {
    experts.width = std::max(1, config.intermediate / experts.used);
  }
  experts.score = RouteArgs::Score::sigmoid;
  experts.choice_bias = experts.group_by_two = true;
  experts.renormalize = keys.flag_or(key("expert_weights_norm"), false);
  experts.scale = static_cast<float>(keys.number_or(key("expert_weights_scale"), 1e-6, 1e6, 1));
  experts.groups = keys.integer_or(key("expert_group_count"), 1, experts.count, 1);
  experts.groups_used =
      keys.integer_or(key("expert_group_used_count"), 1, experts.groups, experts.groups);
  experts.shared_width = keys.integer(key("expert_shared_feed_forward_length"), 1, Limits::kWidth);
  return experts;
}

void plan_kinds(ModelConfig& config, const std::vector<LayerKind>& kinds,
                const RecurrentPlan& mamba, const ExpertPlan& experts) {
  int next = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    LayerPlan& plan = config.plans[i];
    plan.activation = InputTransform::relu_squared;
    plan.rope = LayerPlan::Rope::none;
    if (kinds[i] != LayerKind::network) plan.intermediate = 0;
    if (kinds[i] != LayerKind::attention) stop_attending(plan);
    if (kinds[i] == LayerKind::experts) plan.experts = experts;
    if (kinds[i] != LayerKind::mamba) continue;
    plan.recurrent = mamba;
    plan.recurrent.layer = next++;
  }
  number_cache_layers(config);
}

}  // namespace

/// The class takes `time_step_min` for the least step; its makers' kernels and llama.cpp do not.
void read_nemotron_h(const ConfigKeys& keys, ModelConfig& config) {
  for (const char* bias : {"use_bias", "mamba_proj_bias", "attention_bias"}) {
    expect_flag(keys, bias, false);
  }
  expect_word(keys, "mlp_hidden_act", "relu2");
  expect_word(keys, "mamba_hidden_act", "silu");
  config.forms.prefix = "backbone.";
  const std::vector<LayerKind> kinds = kinds_of_layers(keys, config.plans.size());
  plan_kinds(config, kinds, read_nemotron_mamba(keys),
             has_experts(kinds) ? read_nemotron_experts(keys) : ExpertPlan{});
}

/// Layers with neither a network nor key-value heads are Mamba's. All networks are experts, or
/// none.
void read_gguf_nemotron_h(const ConfigKeys& keys, const Checkpoint& checkpoint,
                          ModelConfig& config) {
  const std::size_t layers = config.plans.size();
  constexpr std::string_view kWidth = "feed_forward_length";
  const std::vector<int> widths = gguf_counts_of_layers(keys, config, kWidth, Limits::kWidth);
  if (widths.empty()) keys.refuse(gguf_key(config, kWidth), "a number for each layer");
  const bool mixture =
      keys.integer_or(gguf_key(config, "expert_count"), 0, Limits::kExperts, 0) > 0;
  const std::vector<bool> without = gguf_layers_without_keys(keys, config);
  std::vector<LayerKind> kinds;
  std::vector<bool> keeps;
  for (std::size_t i = 0; i < layers; ++i) {
    config.plans[i].intermediate = widths[i];
    const LayerKind mixer = without[i] ? LayerKind::mamba : LayerKind::attention;
    const LayerKind network = mixture ? LayerKind::experts : LayerKind::network;
    kinds.push_back(widths[i] > 0 ? network : mixer);
    keeps.push_back(kinds.back() == LayerKind::mamba);
  }
  // As the converter has it, which pairs rows of whole heads.
  config.interleaved_rope = config.forms.still_rows_paired = true;
  config.rope.rotary = 0;
  RecurrentPlan mamba = read_gguf_mamba(keys, checkpoint, config, keeps);
  mamba.norm = true;
  plan_kinds(config, kinds, mamba,
             mixture ? read_gguf_nemotron_experts(keys, config) : ExpertPlan{});
}

}  // namespace talon
