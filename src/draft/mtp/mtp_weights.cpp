#include "draft/mtp/mtp_weights.h"

#include "core/error.h"
#include "io/quote.h"
#include "model/load/load_layer.h"
#include "model/load/prediction_layer.h"

namespace talon {
namespace {

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
  const auto found = find_prediction_layer(file, target.config);
  if (!found) {
    fail("load mtp {}: expected a prediction layer ({}), found none", quote(file.path.string()),
         gguf_prediction_layer(target.config).fc);
  }
  const PredictionLayer& place = *found;
  const ModelConfig config = prediction_config(target.config, place);
  const LoadOptions options{.layout = layout, .context = 0, .progress = {}};
  TensorLoader tensors(file, *target.backend, options);
  LayerLoader layers(tensors, config);
  const int hidden = config.hidden;
  HeadWeights head;
  head.source = file.path;
  head.plan = config.plans.back();
  head.config = head_config(target.config, *head.plan);
  head.taps = {FeatureTap{FeatureTap::kFinalNorm}};
  head.backend = target.backend;
  head.embedding = target.embedding.get();
  head.output = &target.output_weight();
  head.logit_form = LogitForm::of(target.config);
  head.fc = tensors.matrix(place.fc, hidden, 2 * hidden);
  head.embedding_norm = layers.norm(place.embedding_norm, hidden);
  head.feature_norm = layers.norm(place.feature_norm, hidden);
  head.output_norm = layers.norm(place.output_norm, hidden);
  head.layer = layers.load(place.layer);
  head.pass_bytes = tensors.weight_bytes() + head.output->bytes;
  return head;
}

}  // namespace talon
