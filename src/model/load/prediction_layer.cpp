#include "model/load/prediction_layer.h"

#include <algorithm>

#include "core/error.h"
#include "io/quote.h"
#include "io/tensor_layout.h"

namespace talon {
namespace {

bool is_mimo(const ModelConfig& target) { return target.architecture.starts_with("mimo"); }

/// K-EXAONE's has no experts, so it is like none of the layers that have them; Nemotron-H's layers
/// have one part each.
bool predicts_otherwise(const ModelConfig& target) {
  const std::string& name = target.architecture;
  return name == "exaone_moe" || name == "exaone-moe" || name.starts_with("nemotron_h");
}

/// The first of MiMo's layers, behind which others predict further tokens.
std::optional<PredictionLayer> find_mimo_layer(const Checkpoint& file, const ModelConfig& target) {
  const std::string part = target.forms.prefix + "mtp.", layer = part + "layers.0.";
  PredictionLayer place{layer + "eh_proj.weight",
                        layer + "enorm.weight",
                        layer + "hnorm.weight",
                        layer + "final_layernorm.weight",
                        "",
                        "",
                        part,
                        0};
  if (!file.find(place.fc)) return std::nullopt;
  const std::string norm = "pre_mlp_layernorm";
  if (file.find(layer + norm + ".weight")) place.ffn_norm = norm;
  return place;
}

LayerPlan plan_like(const ModelConfig& target) {
  const auto like = [&](const LayerPlan& plan) {
    return plan.writes_cache && (!is_mimo(target) || plan.window > 0);
  };
  auto last = std::find_if(target.plans.rbegin(), target.plans.rend(), like);
  if (last == target.plans.rend()) {
    last = std::find_if(target.plans.rbegin(), target.plans.rend(),
                        [](const LayerPlan& plan) { return plan.writes_cache; });
  }
  expects(last != target.plans.rend(), "a target has a layer with attention");
  LayerPlan plan = *last;
  if (!is_mimo(target)) return plan;
  plan.experts = {};
  plan.intermediate = target.intermediate;
  return plan;
}

}  // namespace

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

/// Qwen's and MiMo's folders have a part of their own for it; those of DeepSeek, GLM, Ling and Hy3
/// hold it behind the last layer, as all GGUF files do.
std::optional<PredictionLayer> find_prediction_layer(const Checkpoint& file,
                                                     const ModelConfig& target) {
  if (predicts_otherwise(target)) return std::nullopt;
  PredictionLayer place = gguf_prediction_layer(target);
  place.fused_qkv = file.find(fmt::format("blk.{}.attn_qkv.weight", target.layers)) != nullptr;
  // As GGUF files of MiMo and Ling, and folders of Ling and Hy3, call the last norm.
  std::string other_norm = fmt::format("blk.{}.layer_output_norm.weight", target.layers);
  if (file.format == CheckpointFormat::hugging_face) {
    if (is_mimo(target)) return find_mimo_layer(file, target);
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
    other_norm = layer + "final_layernorm.weight";
    place.fused_qkv = target.forms.fused_qkv;
  }
  if (!file.find(place.fc)) return std::nullopt;
  if (!file.find(place.output_norm) && file.find(other_norm)) place.output_norm = other_norm;
  return place;
}

std::string prediction_problem(const Checkpoint& file, const ModelConfig& target) {
  if (target.image) return "expected a target that writes text, found one that draws";
  const std::optional<PredictionLayer> place = find_prediction_layer(file, target);
  if (!place) {
    return fmt::format("expected a prediction layer ({}), found none",
                       gguf_prediction_layer(target).fc);
  }
  const StoredTensor& fc = file.require(place->fc);
  const std::vector<std::int64_t> shape = {target.hidden, std::int64_t{2} * target.hidden};
  if (fc.shape != shape) {
    return fmt::format("{}: expected {}, found {}", quote(fc.name), show_shape(shape),
                       show_shape(fc.shape));
  }
  for (const std::string& norm : {place->embedding_norm, place->feature_norm, place->output_norm}) {
    if (!file.find(norm)) return fmt::format("expected {}, found none", quote(norm));
  }
  return "";
}

bool is_prediction_layer_alone(const Checkpoint& file) {
  if (file.format != CheckpointFormat::gguf) return false;
  const auto predicts = [](const StoredTensor& tensor) {
    return tensor.name.starts_with("blk.") && tensor.name.ends_with(".nextn.eh_proj.weight");
  };
  const auto is_of_first_layer = [](const StoredTensor& tensor) {
    return tensor.name.starts_with("blk.0.");
  };
  return std::ranges::any_of(file.tensors, predicts) &&
         std::ranges::none_of(file.tensors, is_of_first_layer);
}

ModelConfig prediction_config(const ModelConfig& target, const PredictionLayer& place) {
  ModelConfig config = target;
  LayerPlan plan = plan_like(target);
  plan.cache_layer = 0;
  plan.rough = true;
  config.forms.prefix = place.prefix;
  config.forms.ffn_norm = place.ffn_norm;
  config.forms.fused_qkv = place.fused_qkv;
  config.layers = place.layer + 1;
  config.plans.assign(static_cast<std::size_t>(config.layers), plan);
  return config;
}

}  // namespace talon
