#include <cmath>

#include "core/error.h"
#include "model/config/family_helpers.h"

namespace talon {
namespace {

using Limits = ConfigLimits;

float number_or(const ConfigKeys& keys, const ModelConfig& config, std::string_view name,
                double otherwise) {
  return static_cast<float>(keys.number_or(gguf_key(config, name), 1e-6, 1e9, otherwise));
}

/// How many values a list has: one of each layer at least.
std::size_t listed_layers(const ConfigKeys& keys, const std::string& key, std::size_t layers) {
  const Json* listed = keys.find(key);
  if (!listed || !listed->is_array()) return layers;
  if (listed->size() < layers) keys.refuse(key, fmt::format("{} values", layers));
  return listed->size();
}

}  // namespace

std::string gguf_key(const ModelConfig& config, std::string_view name) {
  return fmt::format("{}.{}", config.architecture, name);
}

std::vector<bool> gguf_flags(const ConfigKeys& keys, const std::string& key, std::size_t layers) {
  return keys.flags(key, listed_layers(keys, key, layers));
}

std::vector<int> gguf_integers(const ConfigKeys& keys, const std::string& key, int high,
                               std::size_t layers) {
  return keys.integers(key, 1, high, listed_layers(keys, key, layers));
}

void gguf_window_by_pattern(const ConfigKeys& keys, ModelConfig& config, int pattern,
                            int otherwise) {
  const std::string name = gguf_key(config, "attention.sliding_window_pattern");
  const Json* listed = keys.find(name);
  std::vector<bool> slides;
  if (listed && listed->is_array()) {
    slides = gguf_flags(keys, name, config.plans.size());
  } else {
    pattern = keys.integer_or(name, 1, Limits::kLayers, pattern);
  }
  const int window =
      keys.integer_or(gguf_key(config, "attention.sliding_window"), 0, INT32_MAX, otherwise);
  window_layers(config, window, [&](int i) {
    return slides.empty() ? (i + 1) % pattern != 0 : slides[static_cast<std::size_t>(i)];
  });
}

double gguf_local_base(const ConfigKeys& keys, const ModelConfig& config, double otherwise) {
  return keys.number_or(gguf_key(config, "rope.freq_base_swa"), 1, 1e12, otherwise);
}

void read_gguf_granite(const ConfigKeys& keys, const Checkpoint&, ModelConfig& config) {
  config.interleaved_rope = true;
  config.embedding_scale = number_or(keys, config, "embedding_scale", 1);
  config.logit_scale = 1.0F / number_or(keys, config, "logit_scale", 1);
  const float score_scale = number_or(keys, config, "attention.scale", 0);
  const float residual_scale = number_or(keys, config, "residual_scale", 1);
  const bool turns = keys.flag_or(gguf_key(config, "rope.scaling.finetuned"), true);
  each_plan(config, [&](LayerPlan& plan) {
    plan.score_scale = score_scale;
    plan.residual_scale = residual_scale;
    if (!turns) plan.rope = LayerPlan::Rope::none;
  });
}

void read_gguf_gemma(const ConfigKeys& keys, ModelConfig& config, double logit_cap) {
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  config.logit_cap = number_or(keys, config, "final_logit_softcapping", logit_cap);
  each_plan(config, [&](LayerPlan& plan) {
    plan.post_norms = true;
    plan.activation = InputTransform::gelu_tanh_gate;
  });
}

}  // namespace talon
