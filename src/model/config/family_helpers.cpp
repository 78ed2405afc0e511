#include "model/config/family_helpers.h"

#include <cmath>

#include "core/error.h"

namespace talon {
namespace {

/// layer_types, which wins over the pattern that older files have: layers whose type is `kind`.
/// Without a list, all but every `pattern`-th.
std::vector<bool> layers_of_kind(const ConfigKeys& keys, const ModelConfig& config,
                                 std::string_view kind, int pattern) {
  const auto count = static_cast<std::size_t>(config.layers);
  std::vector<bool> result;
  for (const std::string& type : keys.texts("layer_types", count)) {
    const bool known = type == "full_attention" || type == "attention" || type == kind;
    if (!known) keys.refuse("layer_types", fmt::format("full_attention or {}", kind));
    result.push_back(type == kind);
  }
  for (std::size_t i = 0; result.size() < count; ++i) {
    result.push_back(pattern > 0 && (static_cast<int>(i) + 1) % pattern != 0);
  }
  return result;
}

/// Which layers have EXAONE 4's windows.
std::vector<bool> exaone_windows(const ConfigKeys& keys, std::size_t count) {
  constexpr std::string_view kPattern = "sliding_window_pattern";
  auto windowed = layers_called(keys, "layer_types", count, "sliding_attention", "full_attention");
  if (!windowed.empty()) return windowed;
  const Json* pattern = keys.find(kPattern);
  if (!pattern || !pattern->is_string()) {
    const int every = keys.integer_or(kPattern, 1, ConfigLimits::kLayers, 4);
    for (int i = 0; i < static_cast<int>(count); ++i) windowed.push_back((i + 1) % every != 0);
    return windowed;
  }
  const std::string letters = keys.text(kPattern);
  if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos) {
    keys.refuse(kPattern, "a number, or letters L and G");
  }
  for (std::size_t i = 0; i < count; ++i) {
    windowed.push_back(letters[i % letters.size()] == 'L');
  }
  return windowed;
}

float cap_of(const ConfigKeys& keys, const char* key) {
  return static_cast<float>(keys.number_or(key, 1e-3, 1e9, 0));
}

}  // namespace

void only_activation(const ConfigKeys& keys, std::string_view name) {
  // Where there are both, the models read the second.
  const char* key = keys.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  const std::string found = keys.text_or(key, name);
  const bool same = found == name || (found == "swish" && name == "silu");
  if (!same) keys.refuse(key, name);
}

void expect_word(const ConfigKeys& keys, std::string_view key, std::string_view word) {
  if (keys.text_or(key, word) != word) keys.refuse(key, word);
}

void expect_flag(const ConfigKeys& keys, std::string_view key, bool value) {
  if (keys.flag_or(key, value) != value) keys.refuse(key, value ? "true" : "false");
}

void norm_each_head(ModelConfig& config) {
  config.qk_norm = true;
  each_plan(config, [](LayerPlan& plan) { plan.head_norm = LayerPlan::HeadNorm::per_head; });
}

void still_full_layers(ModelConfig& config) {
  each_plan(config, [](LayerPlan& plan) {
    if (plan.window == 0) plan.rope = LayerPlan::Rope::none;
  });
}

std::vector<bool> layers_called(const ConfigKeys& keys, std::string_view key, std::size_t count,
                                std::string_view yes, std::string_view no) {
  std::vector<bool> result;
  for (const std::string& name : keys.texts(key, count)) {
    if (name != yes && name != no) keys.refuse(key, fmt::format("{} or {}", yes, no));
    result.push_back(name == yes);
  }
  return result;
}

std::vector<bool> flags_of_layers(const ConfigKeys& keys, std::string_view key,
                                  std::size_t layers) {
  const Json* listed = keys.find(key);
  const bool goes_on = listed && listed->is_array() && listed->size() > layers;
  std::vector<bool> flags = keys.flags(key, goes_on ? listed->size() : layers);
  if (goes_on) flags.resize(layers);
  return flags;
}

int window_of(const ConfigKeys& keys) { return keys.integer_or("sliding_window", 0, INT32_MAX, 0); }

void window_by_types(const ConfigKeys& keys, ModelConfig& config, int pattern) {
  const std::vector<bool> slides = layers_of_kind(keys, config, "sliding_attention", pattern);
  window_layers(config, window_of(keys),
                [&](int i) { return slides[static_cast<std::size_t>(i)]; });
}

void window_exaone(const ConfigKeys& keys, ModelConfig& config) {
  const int window = window_of(keys);
  if (window == 0) return;
  const auto windowed = exaone_windows(keys, config.plans.size());
  window_layers(config, window, [&](int i) { return windowed[static_cast<std::size_t>(i)]; });
  still_full_layers(config);
}

void plan_near_experts(ModelConfig& config, ExpertPlan experts, double jitter) {
  experts.score = RouteArgs::Score::near_best;
  experts.jitter = static_cast<float>(jitter);
  plan_experts(config, experts, [](int) { return true; });
}

void local_rope_where_windowed(ModelConfig& config, const RopeConfig& rope) {
  config.local_rope = rope;
  for (LayerPlan& plan : config.plans) {
    if (plan.window > 0) plan.rope = LayerPlan::Rope::local;
  }
}

RopeConfig plain_rope(double base) {
  RopeConfig rope;
  rope.base = base;
  return rope;
}

void scale_queries(ModelConfig& config, double beta, double floor) {
  config.query_scaling.beta = beta;
  config.query_scaling.floor = floor;
  each_plan(config, [](LayerPlan& plan) { plan.scales_queries = true; });
}

void read_query_scaling(const ConfigKeys& keys, ModelConfig& config) {
  const auto rope = rope_keys_of(keys);
  const double beta = rope ? rope->number_or("llama_4_scaling_beta", 0, 1e3, 0) : 0;
  if (beta == 0) return;
  scale_queries(config, beta, rope->number("original_max_position_embeddings", 1, 1e9));
}

double hunyuan_base(const ConfigKeys& keys, const ModelConfig& config) {
  const auto rope = rope_keys_of(keys);
  const double base = config.rope.base;
  if (!rope || rope->text_or("rope_type", rope->text_or("type", "")) != "dynamic") return base;
  const double alpha = rope->number_or("alpha", 0, 1e6, 0);
  if (alpha == 0 || config.head_dim <= 2) return base;
  const double dim = config.head_dim;
  return static_cast<float>(base * std::pow(alpha, dim / (dim - 2)));  // as GGUF files keep it
}

void read_ernie4_5(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  if (keys.flag_or("use_bias", false)) keys.refuse("use_bias", "false");
  config.interleaved_rope = true;
}

void read_granite(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  const auto multiplier = [&](const char* key) {
    return static_cast<float>(keys.number_or(key, 1e-6, 1e6, 1));
  };
  config.embedding_scale = multiplier("embedding_multiplier");
  config.logit_scale = 1.0F / multiplier("logits_scaling");
  const float score_scale = multiplier("attention_multiplier");
  const float residual_scale = multiplier("residual_multiplier");
  each_plan(config, [&](LayerPlan& plan) {
    plan.score_scale = score_scale;
    plan.residual_scale = residual_scale;
  });
}

void read_gemma(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "gelu_pytorch_tanh");
  config.tied_output = true;
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  config.logit_cap = cap_of(keys, "final_logit_softcapping");
  each_plan(config, [&](LayerPlan& plan) {
    plan.post_norms = true;
    plan.activation = InputTransform::gelu_tanh_gate;
  });
}

void number_cache_layers(ModelConfig& config) {
  int next = 0;
  for (LayerPlan& plan : config.plans) {
    if (plan.writes_cache) plan.cache_layer = next++;
  }
}

void share_last_layers(ModelConfig& config, int shared) {
  const int first = config.layers - shared;
  for (int i = first; i < config.layers; ++i)
    config.plans[static_cast<std::size_t>(i)].writes_cache = false;
  number_cache_layers(config);
  for (int i = first; i < config.layers; ++i) {
    LayerPlan& plan = config.plans[static_cast<std::size_t>(i)];
    plan.cache_layer = -1;
    for (int j = 0; j < first; ++j) {
      const LayerPlan& earlier = config.plans[static_cast<std::size_t>(j)];
      if ((earlier.window > 0) == (plan.window > 0)) plan.cache_layer = earlier.cache_layer;
    }
  }
}

}  // namespace talon
