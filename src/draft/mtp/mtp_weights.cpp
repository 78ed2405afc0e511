#include "draft/mtp/mtp_weights.h"

#include <algorithm>

#include "core/error.h"
#include "io/quote.h"
#include "model/load/load_layer.h"

namespace talon {
namespace {

/// Where a file holds the layer.
struct Place {
  std::string fc, embedding_norm, feature_norm, output_norm;  // whole names
  std::string prefix;  // of the layer's other tensors, TensorForms::prefix; of folders alone
  int layer = 0;
};

/// Qwen's folders have a part of their own for it; DeepSeek's and GLM's hold it behind the last
/// layer, as all GGUF files do.
Place place_of(const Checkpoint& file, const ModelConfig& target) {
  const std::string number = std::to_string(target.layers);
  std::vector<Place> places;
  if (file.format == CheckpointFormat::hugging_face) {
    const std::string layer = target.forms.prefix + "layers." + number + ".";
    places = {{"mtp.fc.weight", "mtp.pre_fc_norm_embedding.weight", "mtp.pre_fc_norm_hidden.weight",
               "mtp.norm.weight", "mtp.", 0},
              {layer + "eh_proj.weight", layer + "enorm.weight", layer + "hnorm.weight",
               layer + "shared_head.norm.weight", target.forms.prefix, target.layers}};
  } else {
    const std::string layer = "blk." + number + ".nextn.";
    places = {{layer + "eh_proj.weight", layer + "enorm.weight", layer + "hnorm.weight",
               layer + "shared_head_norm.weight", "", target.layers}};
  }
  for (const Place& place : places) {
    if (file.find(place.fc)) return place;
  }
  fail("load mtp {}: expected a prediction layer ({}), found none", quote(file.path.string()),
       places.back().fc);
}

/// The target with the layer in its place: one like the target's last layer with attention.
ModelConfig config_with(const ModelConfig& target, const Place& place) {
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

HeadConfig head_config(const ModelConfig& target, const LayerPlan& plan) {
  HeadConfig config;
  config.generation = HeadGeneration::eagle1;
  config.hidden = config.feature_width = config.target_hidden = target.hidden;
  config.intermediate = plan.intermediate;
  config.heads = plan.heads;
  config.kv_heads = plan.kv_heads;
  config.head_dim = plan.head_dim;
  config.vocabulary = target.vocabulary;
  config.context = target.context;
  config.norm_epsilon = target.norm_epsilon;
  const bool local = plan.rope == LayerPlan::Rope::local && target.local_rope;
  config.rope = local ? *target.local_rope : target.rope;
  config.embedding_norm = config.feature_norm = config.output_norm = config.norm_output = true;
  return config;
}

}  // namespace

HeadWeights load_mtp(const Checkpoint& file, const Model& target, WeightLayout layout) {
  const Place place = place_of(file, target.config);
  const ModelConfig config = config_with(target.config, place);
  const LoadOptions options{.layout = layout, .context = 0, .progress = {}};
  TensorLoader tensors(file, *target.backend, options);
  LayerLoader layers(tensors, config);
  const int hidden = config.hidden;
  HeadWeights head;
  head.plan = config.plans.back();
  head.config = head_config(target.config, *head.plan);
  head.taps = {FeatureTap{FeatureTap::kFinalNorm}};
  head.backend = target.backend;
  head.embedding = target.embedding.get();
  head.output = &target.output_weight();
  head.fc = tensors.matrix(place.fc, hidden, 2 * hidden);
  head.embedding_norm = layers.norm(place.embedding_norm, hidden);
  head.feature_norm = layers.norm(place.feature_norm, hidden);
  head.output_norm = layers.norm(place.output_norm, hidden);
  head.layer = layers.load(place.layer);
  head.pass_bytes = tensors.weight_bytes() + head.output->bytes;
  return head;
}

}  // namespace talon
