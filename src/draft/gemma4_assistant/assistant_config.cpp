#include "draft/gemma4_assistant/assistant_config.h"

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "draft/head/head_parts.h"
#include "io/quote.h"
#include "model/config/config_keys.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

using Limits = ConfigLimits;

constexpr std::string_view kAssistantType = "gemma4_assistant",
                           kUnifiedAssistantType = "gemma4_unified_assistant";
constexpr std::string_view kGgufPrefix = "gemma4-assistant.";  // its keys begin so
constexpr const char* kSharedLayers = "num_kv_shared_layers";

std::string keys_file(const Checkpoint& file) {
  const bool is_folder = file.format == CheckpointFormat::hugging_face;
  return (is_folder ? file.path / "config.json" : file.path).string();
}

/// What the files would be as a model whose layers have keys and values of their own, which readers
/// of models know. Borrows from `file`.
Checkpoint as_model(const Checkpoint& file, Json keys) {
  return {.format = file.format,
          .path = file.path,
          .metadata = std::move(keys),
          .tensors = file.tensors,
          .files = {},
          .owned = {},
          .by_name = file.by_name};
}

ModelConfig read_folder(const Checkpoint& file, Gemma4AssistantConfig& config) {
  const ConfigKeys top(file.metadata, keys_file(file));
  const auto text = top.object("text_config");
  if (!text) top.refuse("text_config", "the keys of the assistant's layers");
  const int layers = text->integer("num_hidden_layers", 1, Limits::kLayers);
  const int shared = text->integer_or(kSharedLayers, 0, layers, layers);
  if (shared != 0 && shared != layers) text->refuse(kSharedLayers, fmt::format("{}", layers));
  if (text->flag_or("use_double_wide_mlp", false)) text->refuse("use_double_wide_mlp", "false");
  if (!top.flag_or("tie_word_embeddings", true)) top.refuse("tie_word_embeddings", "true");
  config.target_hidden = top.integer("backbone_hidden_size", 1, Limits::kWidth);
  Json keys = file.metadata;
  Json& layer_keys = keys["text_config"];
  layer_keys[kSharedLayers] = 0;
  if (!text->has("model_type")) {
    const bool unified = keys["model_type"] == std::string(kUnifiedAssistantType);
    layer_keys["model_type"] = unified ? "gemma4_unified_text" : "gemma4_text";
  }
  ModelConfig model = read_model_config(as_model(file, std::move(keys)));
  if (model.per_layer_input != 0) text->refuse("hidden_size_per_layer_input", "0");
  if (model.has_experts()) text->refuse("enable_moe_block", "false");
  if (!top.flag_or("use_ordered_embeddings", false)) return model;
  config.clusters = top.integer_or("num_centroids", 1, Limits::kVocabulary, 2048);
  if (model.vocabulary % config.clusters != 0) {
    top.refuse("num_centroids",
               fmt::format("clusters of equal size of {} tokens (vocab_size)", model.vocabulary));
  }
  config.clusters_read = top.integer_or("centroid_intermediate_top_k", 1, config.clusters, 32);
  return model;
}

/// llama.cpp's converter leaves the clusters out.
ModelConfig read_gguf_file(const Checkpoint& file, Gemma4AssistantConfig& config) {
  const ConfigKeys own(file.metadata, keys_file(file));
  const std::string prefix(kGgufPrefix);
  config.target_hidden = own.integer(prefix + "embedding_length_out", 1, Limits::kWidth);
  Json keys = Json::object();
  for (const auto& [key, value] : file.metadata.items()) {
    keys[key.starts_with(kGgufPrefix) ? "gemma4." + key.substr(kGgufPrefix.size()) : key] = value;
  }
  keys["general.architecture"] = "gemma4";
  keys["gemma4.attention.shared_kv_layers"] = 0;
  keys.erase("gemma4.nextn_predict_layers");  // all of them
  ModelConfig model = read_model_config(as_model(file, std::move(keys)));
  const auto refuse = [&](const char* key) { own.refuse(prefix + key, "0"); };
  if (model.per_layer_input != 0) refuse("embedding_length_per_layer_input");
  if (model.has_experts()) refuse("expert_count");
  return model;
}

std::string_view layer_type(const LayerPlan& plan) {
  return plan.window > 0 ? "sliding_attention" : "full_attention";
}

/// The last layer of the target of the same kind that has keys and values of its own.
const LayerPlan* layer_read_by(const LayerPlan& plan, const ModelConfig& target) {
  const auto is_read = [&](const LayerPlan& layer) {
    return layer.writes_cache && layer_type(layer) == layer_type(plan);
  };
  const auto found = std::find_if(target.plans.rbegin(), target.plans.rend(), is_read);
  return found == target.plans.rend() ? nullptr : &*found;
}

/// Its rows have no keys of their own: of a window they see what the target's row at the same place
/// sees before itself.
void fit_layer(LayerPlan& plan, std::size_t layer, const ModelConfig& target,
               const std::string& doing) {
  const auto expect = [&](std::string_view field, int expected, int found) {
    if (expected == found) return;
    refuse_target(doing, "layer {}, {}: \"{}\": expected {}, found {}", layer, layer_type(plan),
                  field, expected, found);
  };
  const LayerPlan* read = layer_read_by(plan, target);
  if (!read) {
    refuse_target(doing, "layer {}: \"layer_types\": expected a kind of the target's, found {}",
                  layer, layer_type(plan));
  }
  const bool slides = plan.window > 0;
  expect(slides ? "head_dim" : "global_head_dim", read->head_dim, plan.head_dim);
  expect(slides ? "num_key_value_heads" : "num_global_key_value_heads", read->kv_heads,
         plan.kv_heads);
  expect("sliding_window", read->window, plan.window);
  if (plan.window == 1) {
    refuse_target(doing, "layer {}: \"sliding_window\": expected more than the row itself, found 1",
                  layer);
  }
  plan.cache_layer = read->cache_layer;
  if (slides) --plan.window;
}

}  // namespace

bool is_gemma4_assistant(const Checkpoint& checkpoint) {
  if (!checkpoint.metadata.is_object()) return false;
  const bool is_gguf = checkpoint.format == CheckpointFormat::gguf;
  const Json name =
      checkpoint.metadata.value(is_gguf ? "general.architecture" : "model_type", Json());
  if (!name.is_string()) return false;
  const auto& text = name.get_ref<const std::string&>();
  return is_gguf ? text + "." == kGgufPrefix
                 : text == kAssistantType || text == kUnifiedAssistantType;
}

Gemma4AssistantConfig read_gemma4_assistant_config(const Checkpoint& checkpoint) {
  Gemma4AssistantConfig config;
  const bool is_gguf = checkpoint.format == CheckpointFormat::gguf;
  config.text = is_gguf ? read_gguf_file(checkpoint, config) : read_folder(checkpoint, config);
  for (LayerPlan& plan : config.text.plans) {
    plan.writes_cache = plan.keys_are_values = false;
    plan.rough = true;
  }
  return config;
}

void fit_to_target(Gemma4AssistantConfig& config, const ModelConfig& target,
                   const std::string& doing) {
  if (!target.architecture.starts_with("gemma4")) {
    refuse_target(doing, "expected a Gemma 4, found {}", quote(target.architecture));
  }
  if (config.target_hidden != target.hidden) {
    refuse_target(doing, "\"backbone_hidden_size\": expected {}, found {}", target.hidden,
                  config.target_hidden);
  }
  if (config.text.vocabulary != target.vocabulary) {
    refuse_target(doing, "\"vocab_size\": expected {}, found {}", target.vocabulary,
                  config.text.vocabulary);
  }
  const auto check_rope = [&](const RopeConfig& own, const RopeConfig& its, std::string_view kind) {
    if (own.base == its.base) return;
    refuse_target(doing, "\"rope_theta\" of {}: expected {}, found {}", kind, its.base, own.base);
  };
  check_rope(config.text.rope, target.rope, "full_attention");
  if (config.text.local_rope && target.local_rope)
    check_rope(*config.text.local_rope, *target.local_rope, "sliding_attention");
  for (std::size_t layer = 0; layer < config.text.plans.size(); ++layer)
    fit_layer(config.text.plans[layer], layer, target, doing);
}

void check_gemma4_assistant_fits(const Checkpoint& assistant, const ModelConfig& target) {
  Gemma4AssistantConfig config = read_gemma4_assistant_config(assistant);
  fit_to_target(config, target, fmt::format("load head {}", quote(assistant.path.string())));
}

Json describe_gemma4_assistant(const Checkpoint& checkpoint) {
  const Gemma4AssistantConfig config = read_gemma4_assistant_config(checkpoint);
  return {{"architecture", "draft head"},
          {"variant", "Gemma 4's assistant (mtp)"},
          {"target_hidden", config.target_hidden},
          {"layers", config.text.layers},
          {"hidden", config.text.hidden},
          {"intermediate", config.text.intermediate},
          {"heads", config.text.heads},
          {"vocabulary", config.text.vocabulary},
          {"clusters", config.clusters},
          {"clusters_read", config.clusters_read}};
}

}  // namespace talon
