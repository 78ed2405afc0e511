#include <fmt/ranges.h>

#include <cmath>

#include "core/error.h"
#include "model/config/family_helpers.h"

namespace talon {
namespace {

using Limits = ConfigLimits;
using HeadNorm = LayerPlan::HeadNorm;

std::string key(const ModelConfig& config, std::string_view name) { return gguf_key(config, name); }

int window_of(const ConfigKeys& keys, const ModelConfig& config) {
  return keys.integer_or(key(config, "attention.sliding_window"), 0, INT32_MAX, 0);
}

float number_or(const ConfigKeys& keys, const ModelConfig& config, std::string_view name,
                double otherwise) {
  return static_cast<float>(keys.number_or(key(config, name), 1e-6, 1e9, otherwise));
}

void window_all(const ConfigKeys& keys, ModelConfig& config) {
  window_layers(config, window_of(keys, config), [](int) { return true; });
}

/// Biases of the feed-forward network, which its tensors tell: Granite's first models of code,
/// which are called Llama's, have them.
void add_mlp_biases_if_found(const Checkpoint& checkpoint, ModelConfig& config) {
  const bool gated = is_gate(config.plans[0].activation);
  const bool found = (!gated || checkpoint.find("blk.0.ffn_gate.bias")) &&
                     checkpoint.find("blk.0.ffn_up.bias") && checkpoint.find("blk.0.ffn_down.bias");
  each_plan(config, [&](LayerPlan& plan) { plan.mlp_bias = found; });
}

/// Llama, Mistral, and Mixtral where the file has experts.
void read_llama(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config) {
  config.interleaved_rope = true;
  window_all(keys, config);
  add_mlp_biases_if_found(checkpoint, config);
  ExpertPlan experts;
  experts.count = keys.integer_or(key(config, "expert_count"), 0, Limits::kExperts, 0);
  if (experts.count == 0) return;
  experts.used = keys.integer(key(config, "expert_used_count"), 1, experts.count);
  experts.width = config.intermediate;
  experts.renormalize = true;
  each_plan(config, [&](LayerPlan& plan) {
    plan.experts = experts;
    plan.intermediate = 0;
  });
}

void read_qwen2(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  window_all(keys, config);
}

void read_qwen3(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  norm_each_head(config);
  window_all(keys, config);
}

/// Files of the first days name no window: the makers' models of 4096 positions have one. Later
/// ones of models without a window say 0.
void read_phi3(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  constexpr int kFirstContext = 4096, kFirstWindow = 2047;
  config.forms.fused_qkv = config.forms.fused_gate_up = true;
  window_all(keys, config);
  const bool is_of_first = config.context == kFirstContext &&
                           (config.layers == 32 || config.layers == 40);  // mini, medium
  if (!is_of_first || keys.has(key(config, "attention.sliding_window"))) return;
  window_layers(config, kFirstWindow, [](int) { return true; });
}

/// The files name mscale_all_dim alone, since mscale is 1. With 0 the amplitude is YaRN's own.
void read_mistral3_amplitude(const ConfigKeys& keys, ModelConfig& config) {
  const double all = keys.number_or(key(config, "rope.scaling.yarn_log_multiplier"), 0, 1e3, 0);
  RopeConfig& rope = config.rope;
  if (rope.scaling != RopeConfig::Scaling::yarn || all == 0) return;
  rope.attention_factor =
      yarn_attention_factor(rope.factor) / yarn_attention_factor(rope.factor, all);
}

void read_mistral3(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config) {
  read_llama(keys, checkpoint, config);
  read_mistral3_amplitude(keys, config);
  const double beta = keys.number_or(key(config, "attention.temperature_scale"), 0, 1e9, 0);
  if (beta == 0) return;
  scale_queries(config, beta,
                keys.number(key(config, "rope.scaling.original_context_length"), 1, 1e9));
}

void read_smollm3(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config) {
  read_llama(keys, checkpoint, config);
  constexpr std::size_t kEvery = 4;  // the files do not say
  for (std::size_t i = kEvery - 1; i < config.plans.size(); i += kEvery) {
    config.plans[i].rope = LayerPlan::Rope::none;
  }
}

/// OLMo 2 and 3, which has windows.
void read_olmo2(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  each_plan(config, [](LayerPlan& plan) {
    plan.pre_norms = false;
    plan.post_norms = true;
    plan.head_norm = HeadNorm::per_row;
  });
  gguf_window_by_pattern(keys, config, 4);
  if (config.sliding_window == 0) return;
  local_rope_where_windowed(config, plain_rope(gguf_local_base(keys, config, config.rope.base)));
}

void read_exaone4(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  config.qk_norm = true;
  gguf_window_by_pattern(keys, config, 4);
  each_plan(config, [&](LayerPlan& plan) {
    plan.pre_norms = false;
    plan.post_norms = true;
    plan.head_norm = HeadNorm::per_head;
    if (config.sliding_window > 0 && plan.window == 0) plan.rope = LayerPlan::Rope::none;
  });
}

void read_ernie4_5(const ConfigKeys&, const Checkpoint&, ModelConfig& config) {
  config.interleaved_rope = true;
}

/// Whether pairs turn by several positions of a token, as llama.cpp tells it: in models that see.
bool has_rope_sections(const ConfigKeys& keys, const ModelConfig& config) {
  const auto sections =
      keys.integers(key(config, "rope.dimension_sections"), 0, Limits::kHeadDim, 4);
  return !sections.empty() && sections[0] > 0 && sections[1] > 0;
}

/// Files of the first days have no multipliers: those of the makers' first models.
void read_minicpm(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  constexpr double kEmbedding = 12, kDepth = 1.4, kBaseWidth = 256;
  config.interleaved_rope = true;
  config.embedding_scale = number_or(keys, config, "embedding_scale", kEmbedding);
  config.logit_scale = 1.0F / number_or(keys, config, "logit_scale", config.hidden / kBaseWidth);
  const double depth = kDepth / std::sqrt(static_cast<double>(config.layers));
  const float residual_scale = number_or(keys, config, "residual_scale", depth);
  each_plan(config, [&](LayerPlan& plan) { plan.residual_scale = residual_scale; });
}

void read_hunyuan(const ConfigKeys&, const Checkpoint&, ModelConfig& config) {
  each_plan(config, [](LayerPlan& plan) {
    plan.head_norm = HeadNorm::after_rope;
    plan.head_norm_weights = true;
  });
}

void read_chatglm(const ConfigKeys&, const Checkpoint&, ModelConfig& config) {
  config.interleaved_rope = true;
  config.forms.fused_gate_up = true;
}

void read_arcee(const ConfigKeys&, const Checkpoint& checkpoint, ModelConfig& config) {
  config.interleaved_rope = true;
  each_plan(config, [](LayerPlan& plan) { plan.activation = InputTransform::relu_squared; });
  add_mlp_biases_if_found(checkpoint, config);
}

/// Converters bring the rows of models that see into half-split order.
void read_glm4(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  config.interleaved_rope = !has_rope_sections(keys, config);
  config.forms.fused_gate_up = true;
  each_plan(config, [](LayerPlan& plan) { plan.post_norms = true; });
}

/// LayerNorms of heads, without biases, which their tensors tell.
void norm_heads_if_found(const Checkpoint& checkpoint, ModelConfig& config) {
  config.qk_norm = checkpoint.find("blk.0.attn_q_norm.weight") != nullptr;
  if (!config.qk_norm) return;
  each_plan(config, [](LayerPlan& plan) { plan.head_norm = HeadNorm::layer_per_head; });
}

/// Of both Command R and Command R+, which has norms of heads.
void read_command_r(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config) {
  norm_heads_if_found(checkpoint, config);
  config.interleaved_rope = true;
  config.logit_scale = number_or(keys, config, "logit_scale", 1);
  config.final_norm = LayerPlan::Norm::layer;
  each_plan(config, [](LayerPlan& plan) {
    plan.norm = LayerPlan::Norm::layer;
    plan.parallel = true;
  });
}

void read_cohere2(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config) {
  read_command_r(keys, checkpoint, config);
  gguf_window_by_pattern(keys, config, 4);
  still_full_layers(config);
}

void plan_layer_norms(ModelConfig& config, InputTransform activation) {
  config.final_norm = LayerPlan::Norm::layer;
  config.final_norm_bias = true;
  each_plan(config, [&](LayerPlan& plan) {
    plan.norm = LayerPlan::Norm::layer;
    plan.norm_bias = plan.mlp_bias = true;
    plan.activation = activation;
  });
}

/// Most files name no window, llama.cpp takes none.
void read_starcoder2(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  plan_layer_norms(config, InputTransform::gelu_tanh);
  window_all(keys, config);
}

/// That of 12B has norms of heads and no second norm, which its tensors tell: the file's key of
/// parallel halves may say so of the others, too.
void read_stablelm(const ConfigKeys&, const Checkpoint& checkpoint, ModelConfig& config) {
  plan_layer_norms(config, InputTransform::silu_gate);
  norm_heads_if_found(checkpoint, config);
  const bool parallel = checkpoint.find("blk.0.ffn_norm.weight") == nullptr;
  each_plan(config, [&](LayerPlan& plan) {
    plan.mlp_bias = false;
    plan.parallel = parallel;
  });
}

/// The files hold norms with the 1 that folders lack.
void read_nemotron(const ConfigKeys&, const Checkpoint& checkpoint, ModelConfig& config) {
  plan_layer_norms(config, InputTransform::relu_squared);
  add_mlp_biases_if_found(checkpoint, config);
}

void read_phi2(const ConfigKeys&, const Checkpoint&, ModelConfig& config) {
  plan_layer_norms(config, InputTransform::gelu_tanh);
  config.output_matrix_bias = true;
  each_plan(config, [](LayerPlan& plan) { plan.parallel = true; });
}

/// The files do not name the router's jitter.
void read_phimoe(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  plan_layer_norms(config, InputTransform::silu_gate);
  each_plan(config, [](LayerPlan& plan) { plan.mlp_bias = false; });
  config.output_matrix_bias = true;
  const ExpertPlan experts = read_gguf_experts(keys, config);
  if (experts.used != 2) keys.refuse(key(config, "expert_used_count"), "2");
  plan_near_experts(config, experts, 0.01);
  window_all(keys, config);
}

void read_gptneox(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  const bool approximates = config.layers == 44;  // the 20B model: the files do not say so
  plan_layer_norms(config, approximates ? InputTransform::gelu_tanh : InputTransform::gelu_erf);
  config.forms.fused_qkv = true;
  const bool parallel = keys.flag_or(key(config, "use_parallel_residual"), true);
  each_plan(config, [&](LayerPlan& plan) { plan.parallel = parallel; });
}

/// The files do not say how scores are scaled: by the key's size, but in the largest model of each.
void scale_scores(ModelConfig& config, int layers_of_largest) {
  if (config.layers != layers_of_largest) return;
  const double scalar = static_cast<double>(config.hidden) / config.heads;
  each_plan(config, [&](LayerPlan& plan) {
    plan.score_scale = static_cast<float>(1.0 / std::sqrt(scalar));
  });
}

void read_gemma1(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  read_gguf_gemma(keys, config);
  each_plan(config, [](LayerPlan& plan) { plan.post_norms = false; });
}

/// Files of the first days have neither caps nor a window: all models of the makers have these.
void read_gemma2(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  read_gguf_gemma(keys, config, 30);
  scale_scores(config, 46);
  const float cap = number_or(keys, config, "attn_logit_softcapping", 50);
  each_plan(config, [&](LayerPlan& plan) { plan.soft_cap = cap; });
  gguf_window_by_pattern(keys, config, 2, 4096);
}

/// Ollama's own files give the base another name or leave it out. That of 1B has a cap of logits
/// which the model has not, those of the models that see lack the epsilon of norms and the scaling.
void read_gemma3_of_ollama(const ConfigKeys& keys, ModelConfig& config) {
  constexpr int kScaledContext = 131072;
  if (keys.has(key(config, "rope.freq_base"))) return;
  config.rope.base = keys.number_or(key(config, "rope.global.freq_base"), 1, 1e12, 1e6);
  config.logit_cap = 0;
  const bool sees = !keys.has(key(config, "attention.layer_norm_rms_epsilon"));
  if (!sees || config.context < kScaledContext || keys.has(key(config, "rope.scaling.factor"))) {
    return;
  }
  config.rope.scaling = RopeConfig::Scaling::linear;
  config.rope.factor = 8;
}

void read_gemma3(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  read_gguf_gemma(keys, config);
  read_gemma3_of_ollama(keys, config);
  scale_scores(config, 62);
  each_plan(config, [&](LayerPlan& plan) { plan.head_norm = HeadNorm::per_head; });
  gguf_window_by_pattern(keys, config, 6);
  const double local = keys.number_or(key(config, "rope.local.freq_base"), 1, 1e12, 10000);
  local_rope_where_windowed(config, plain_rope(gguf_local_base(keys, config, local)));
}

constexpr GgufFamily kFamilies[] = {
    {"llama", read_llama},         {"mistral", read_llama},         {"mistral3", read_mistral3},
    {"qwen2", read_qwen2},         {"qwen3", read_qwen3},           {"phi3", read_phi3},
    {"smollm3", read_smollm3},     {"olmo2", read_olmo2},           {"granite", read_gguf_granite},
    {"glm4", read_glm4},           {"cohere2", read_cohere2},       {"starcoder2", read_starcoder2},
    {"gptneox", read_gptneox},     {"gemma2", read_gemma2},         {"gemma3", read_gemma3},
    {"exaone4", read_exaone4},     {"seed_oss", read_qwen2},        {"ernie4_5", read_ernie4_5},
    {"qwen2vl", read_qwen2},       {"qwen3vl", read_qwen3},         {"gemma", read_gemma1},
    {"minicpm", read_minicpm},     {"chatglm", read_chatglm},       {"stablelm", read_stablelm},
    {"command-r", read_command_r}, {"hunyuan-dense", read_hunyuan}, {"exaone", read_qwen2},
    {"internlm2", read_ernie4_5},  {"arcee", read_arcee},           {"nemotron", read_nemotron},
    {"phi2", read_phi2},           {"phimoe", read_phimoe},
};

}  // namespace

const GgufFamily* gguf_family(std::string_view architecture) {
  for (const GgufFamily& family : kFamilies) {
    if (family.name == architecture) return &family;
  }
  for (const auto find : {gguf_expert_family, gguf_recurrent_family}) {
    if (const GgufFamily* found = find(architecture)) return found;
  }
  return gguf_later_family(architecture);
}

std::string gguf_families() {
  std::vector<std::string_view> names;
  for (const GgufFamily& family : kFamilies) names.push_back(family.name);
  return fmt::format("one of {}, {}, {}, {}", fmt::join(names, ", "), kExpertArchitectures,
                     kRecurrentArchitectures, kLaterArchitectures);
}

}  // namespace talon
