#include "model/load/prediction_layer.h"

#include <algorithm>

#include "core/error.h"

namespace talon {

PredictionLayer gguf_prediction_layer(const ModelConfig& target) {
  const std::string layer = "blk." + std::to_string(target.layers) + ".nextn.";
  return {layer + "eh_proj.weight",
          layer + "enorm.weight",
          layer + "hnorm.weight",
          layer + "shared_head_norm.weight",
          layer + "embed_tokens.weight",
          layer + "shared_head_head.weight",
          "",
          target.layers};
}

/// Qwen's folders have a part of their own for it; DeepSeek's and GLM's hold it behind the last
/// layer, as all GGUF files do.
std::optional<PredictionLayer> find_prediction_layer(const Checkpoint& file,
                                                     const ModelConfig& target) {
  PredictionLayer place = gguf_prediction_layer(target);
  if (file.format == CheckpointFormat::hugging_face) {
    const PredictionLayer apart = {"mtp.fc.weight",
                                   "mtp.pre_fc_norm_embedding.weight",
                                   "mtp.pre_fc_norm_hidden.weight",
                                   "mtp.norm.weight",
                                   "",
                                   "",
                                   "mtp.",
                                   0};
    if (file.find(apart.fc)) return apart;
    const std::string layer = target.forms.prefix + "layers." + std::to_string(target.layers) + ".";
    place = {layer + "eh_proj.weight",      layer + "enorm.weight",
             layer + "hnorm.weight",        layer + "shared_head.norm.weight",
             layer + "embed_tokens.weight", layer + "shared_head.head.weight",
             target.forms.prefix,           target.layers};
  }
  if (!file.find(place.fc)) return std::nullopt;
  return place;
}

ModelConfig prediction_config(const ModelConfig& target, const PredictionLayer& place) {
  const auto last = std::find_if(target.plans.rbegin(), target.plans.rend(),
                                 [](const LayerPlan& plan) { return plan.writes_cache; });
  expects(last != target.plans.rend(), "a target has a layer with attention");
  ModelConfig config = target;
  LayerPlan plan = *last;
  plan.cache_layer = 0;
  plan.rough = true;
  config.forms.prefix = place.prefix;
  config.layers = place.layer + 1;
  config.plans.assign(static_cast<std::size_t>(config.layers), plan);
  return config;
}

}  // namespace talon
