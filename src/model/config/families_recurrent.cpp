#include "model/config/family_helpers.h"

// Families with layers that keep a state: Qwen3-Next, Qwen3.5, and the names of those with Mamba-2
// or short convolutions.
namespace talon {

const std::string_view kRecurrentModelTypes =
    "bamba, falcon_h1, granitemoehybrid, lfm2, lfm2_moe, nemotron_h, qwen3_next, qwen3_5, "
    "qwen3_5_text, qwen3_5_moe or qwen3_5_moe_text";
const std::string_view kRecurrentArchitectures =
    "falcon-h1, granitehybrid, lfm2, lfm2moe, nemotron_h, nemotron_h_moe, qwen3next, qwen35 or "
    "qwen35moe";

namespace {

using Limits = ConfigLimits;
constexpr int kInterval = 4;  // every so many layers has attention

template <typename Keeps>
void plan_states(ModelConfig& config, const RecurrentPlan& recurrent, const Keeps& keeps_state) {
  config.qk_norm = true;
  std::vector<bool> keeps;
  for (std::size_t i = 0; i < config.plans.size(); ++i) keeps.push_back(keeps_state(i));
  keep_states(config, recurrent, keeps);
  for (std::size_t i = 0; i < config.plans.size(); ++i) {
    if (keeps[i]) continue;
    config.plans[i].head_norm = LayerPlan::HeadNorm::per_head;
    config.plans[i].output_gate = true;
  }
}

RecurrentPlan read_sizes(const ConfigKeys& keys) {
  RecurrentPlan plan;
  plan.key_heads = keys.integer("linear_num_key_heads", 1, Limits::kHeads);
  plan.value_heads = keys.integer("linear_num_value_heads", 1, Limits::kHeads);
  plan.key_dim = keys.integer("linear_key_head_dim", 1, Limits::kHeadDim);
  plan.value_dim = keys.integer("linear_value_head_dim", 1, Limits::kHeadDim);
  plan.kernel = keys.integer("linear_conv_kernel_dim", 2, kLongestKernel);
  return plan;
}

void read_states(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  if (keys.flag_or("attention_bias", false)) keys.refuse("attention_bias", "false");
  config.forms.norm_plus_one = true;
  const auto keeps = layers_called(keys, "layer_types", static_cast<std::size_t>(config.layers),
                                   "linear_attention", "full_attention");
  const auto interval = static_cast<std::size_t>(
      keys.integer_or("full_attention_interval", 1, Limits::kLayers, kInterval));
  plan_states(config, read_sizes(keys),
              [&](std::size_t i) { return keeps.empty() ? (i + 1) % interval != 0 : keeps[i]; });
}

void read_qwen3_next(const ConfigKeys& keys, ModelConfig& config) {
  read_states(keys, config);
  config.forms.fused_by_key_head = true;
  read_qwen_experts(keys, config, keys.flag_or("norm_topk_prob", true));
}

void read_qwen3_5(const ConfigKeys& keys, ModelConfig& config) { read_states(keys, config); }

void read_qwen3_5_moe(const ConfigKeys& keys, ModelConfig& config) {
  read_states(keys, config);
  read_qwen_experts(keys, config, true);
}

void read_gguf_states(const ConfigKeys& keys, ModelConfig& config) {
  const auto key = [&](std::string_view name) { return gguf_key(config, name); };
  const RecurrentPlan plan = read_gguf_state_sizes(keys, config);
  const std::string listed = key("attention.recurrent_layers");
  std::vector<bool> keeps;
  if (const Json* list = keys.find(listed); list && list->is_array()) {
    keeps = gguf_flags(keys, listed, config.plans.size());
  }
  const auto interval = static_cast<std::size_t>(
      keys.integer_or(key("full_attention_interval"), 1, Limits::kLayers, kInterval));
  plan_states(config, plan,
              [&](std::size_t i) { return keeps.empty() ? (i + 1) % interval != 0 : keeps[i]; });
}

void read_gguf_qwen3next(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  read_gguf_states(keys, config);
  config.forms.fused_by_key_head = true;
  read_gguf_qwen_experts(keys, config, true);
}

/// The value heads of a key head lie a run of all key heads apart.
void read_gguf_qwen35(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  read_gguf_states(keys, config);
  each_plan(config, [](LayerPlan& plan) { plan.recurrent.tiled_heads = true; });
}

void read_gguf_qwen35moe(const ConfigKeys& keys, const Checkpoint& file, ModelConfig& config) {
  read_gguf_qwen35(keys, file, config);
  read_gguf_qwen_experts(keys, config, true);
}

struct Family {
  std::string_view name;
  FamilyReader read;
};
constexpr Family kFamilies[] = {{"bamba", read_bamba},
                                {"falcon_h1", read_falcon_h1},
                                {"granitemoehybrid", read_granitemoehybrid},
                                {"lfm2", read_lfm2},
                                {"lfm2_moe", read_lfm2_moe},
                                {"nemotron_h", read_nemotron_h},
                                {"qwen3_next", read_qwen3_next},
                                {"qwen3_5", read_qwen3_5},
                                {"qwen3_5_text", read_qwen3_5},
                                {"qwen3_5_moe", read_qwen3_5_moe},
                                {"qwen3_5_moe_text", read_qwen3_5_moe}};
constexpr GgufFamily kGgufFamilies[] = {{"falcon-h1", read_gguf_falcon_h1},
                                        {"granitehybrid", read_granitehybrid},
                                        {"lfm2", read_gguf_lfm2},
                                        {"lfm2moe", read_gguf_lfm2moe},
                                        {"nemotron_h", read_gguf_nemotron_h},
                                        {"nemotron_h_moe", read_gguf_nemotron_h},
                                        {"qwen3next", read_gguf_qwen3next},
                                        {"qwen35", read_gguf_qwen35},
                                        {"qwen35moe", read_gguf_qwen35moe}};

}  // namespace

void keep_states(ModelConfig& config, const RecurrentPlan& plan, const std::vector<bool>& keeps) {
  int next = 0;
  for (std::size_t i = 0; i < config.plans.size(); ++i) {
    if (!keeps[i]) continue;
    LayerPlan& layer = config.plans[i];
    layer.recurrent = plan;
    layer.recurrent.layer = next++;
    stop_attending(layer);
  }
  number_cache_layers(config);
}

void stop_attending(LayerPlan& layer) {
  layer.attends = layer.writes_cache = false;
  layer.rope = LayerPlan::Rope::none;
  layer.cache_layer = 0;
}

std::vector<int> gguf_counts_of_layers(const ConfigKeys& keys, const ModelConfig& config,
                                       std::string_view name, int high) {
  const int predicting =
      keys.integer_or(gguf_key(config, "nextn_predict_layers"), 0, Limits::kLayers, 0);
  const std::size_t layers = config.plans.size();
  std::vector<int> counts =
      keys.integers(gguf_key(config, name), 0, high, layers + static_cast<std::size_t>(predicting));
  if (!counts.empty()) counts.resize(layers);
  return counts;
}

std::vector<bool> gguf_layers_without_keys(const ConfigKeys& keys, const ModelConfig& config) {
  std::vector<bool> without;
  for (const int heads :
       gguf_counts_of_layers(keys, config, "attention.head_count_kv", Limits::kHeads)) {
    without.push_back(heads == 0);
  }
  without.resize(config.plans.size());
  return without;
}

RecurrentPlan read_gguf_state_sizes(const ConfigKeys& keys, const ModelConfig& config) {
  const auto key = [&](std::string_view name) { return gguf_key(config, name); };
  RecurrentPlan plan;
  plan.key_heads = keys.integer(key("ssm.group_count"), 1, Limits::kHeads);
  plan.value_heads = keys.integer(key("ssm.time_step_rank"), 1, Limits::kHeads);
  plan.key_dim = keys.integer(key("ssm.state_size"), 1, Limits::kHeadDim);
  plan.kernel = keys.integer(key("ssm.conv_kernel"), 2, kLongestKernel);
  const std::string inner = key("ssm.inner_size");
  const int width = keys.integer(inner, 1, Limits::kWidth);
  plan.value_dim = width / plan.value_heads;
  if (plan.value_dim < 1 || plan.value_dim > Limits::kHeadDim || width % plan.value_heads != 0) {
    keys.refuse(inner, "a multiple of ssm.time_step_rank");
  }
  return plan;
}

FamilyReader hugging_face_recurrent_family(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (family.name == model_type) return family.read;
  }
  return nullptr;
}

const GgufFamily* gguf_recurrent_family(std::string_view architecture) {
  for (const GgufFamily& family : kGgufFamilies) {
    if (family.name == architecture) return &family;
  }
  return nullptr;
}

}  // namespace talon
