#include "draft/model/draft_model.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "io/quote.h"
#include "model/load/fingerprint.h"

namespace talon {
namespace {

std::optional<Tokenizer> tokenizer_of(const Checkpoint& checkpoint) {
  try {
    return Tokenizer::for_checkpoint(checkpoint);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Of the target that a draft model was trained for, as `talon train head --kind draft` notes it.
std::string target_of(const Checkpoint& draft) {
  const auto origin = draft.metadata.find("talon");
  if (origin == draft.metadata.end() || !origin->is_object()) return "";
  const auto target = origin->find("target_fingerprint");
  return target != origin->end() && target->is_string() ? target->get<std::string>() : "";
}

VocabularyMap map_to(const Model& target, const Checkpoint& draft, const Model& model,
                     const std::string& doing) {
  std::error_code problem;
  if (std::filesystem::equivalent(draft.path, target.source, problem)) return {};
  const Checkpoint target_files = open_checkpoint(target.source);
  const int rows = model.config.vocabulary, target_rows = target.config.vocabulary;
  const std::string named = target_of(draft);
  const bool is_its_own = !named.empty() && named == fingerprint_of(target_files, target.config);
  if (is_its_own && rows == target_rows) return {};
  const auto ours = tokenizer_of(draft), theirs = tokenizer_of(target_files);
  if (ours && theirs) return map_vocabularies(*ours, rows, *theirs, target_rows, doing);
  if (!ours && !theirs && rows == target_rows) return {};
  fail("{}: expected a tokenizer beside it to compare with the target's, found none{}", doing,
       ours ? " of the target" : "");
}

void check(const ModelConfig& config, const DraftModelOptions& options, const std::string& doing) {
  if (config.image) fail("{}: expected a model that writes text, found one that draws", doing);
  for (const LayerPlan& plan : config.plans) {
    if (plan.recurrent.value_heads > 0) {
      fail("{}: expected layers without a state, found a {} with some", doing, config.architecture);
    }
    if (options.skipped_layers.empty()) continue;
    if (!plan.writes_cache || plan.per_layer_input > 0) {
      fail("{}: skip: expected layers that do not need one another, found a {}", doing,
           config.architecture);
    }
  }
  for (const int layer : options.skipped_layers) {
    if (layer >= config.layers) {
      fail("{}: skip: expected layers below {}, found {}", doing, config.layers, layer);
    }
  }
}

/// Leaves layers out: the residual stream passes them.
void skip_layers(Model& model, const std::vector<int>& skipped) {
  std::vector<LayerWeights> layers;
  std::vector<LayerPlan> plans;
  for (int i = 0; i < model.config.layers; ++i) {
    if (std::find(skipped.begin(), skipped.end(), i) != skipped.end()) continue;
    layers.push_back(std::move(model.layers[static_cast<std::size_t>(i)]));
    plans.push_back(model.config.plans[static_cast<std::size_t>(i)]);
    plans.back().cache_layer = static_cast<int>(plans.size()) - 1;
  }
  const std::size_t all = model.layers.size();
  const std::size_t head = model.output_weight().bytes;
  model.weight_bytes = head + (model.weight_bytes - head) * layers.size() / all;
  model.layers = std::move(layers);
  model.config.plans = std::move(plans);
  model.config.layers = static_cast<int>(model.layers.size());
}

}  // namespace

DraftModel load_draft_model(const std::filesystem::path& path, const Model& target,
                            const DraftModelOptions& options) {
  const std::string doing = fmt::format("load draft model {}", quote(path.string()));
  const Checkpoint checkpoint = open_checkpoint(path);
  check(read_model_config(checkpoint), options, doing);
  LoadOptions load;
  load.layout = options.layout;
  load.context = target.config.context;
  DraftModel draft{load_model(checkpoint, *target.backend, load), {}};
  draft.vocabulary = map_to(target, checkpoint, draft.model, doing);
  if (options.skipped_layers.empty()) return draft;
  skip_layers(draft.model, options.skipped_layers);
  if (draft.model.layers.empty())
    fail("{}: skip: expected a layer that is left, found none", doing);
  return draft;
}

}  // namespace talon
