#include <algorithm>
#include <string>

#include "core/error.h"
#include "io/json_text.h"
#include "model/config/config_keys.h"
#include "model/config/config_readers.h"
#include "model/config/quantization.h"

namespace talon {
namespace {

using Limits = ConfigLimits;

/// The end tokens of generation_config.json, which for chat models lists more than config.json.
std::vector<TokenId> generation_end_tokens(const Checkpoint& checkpoint, int vocabulary) {
  const auto file = checkpoint.path / "generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return {};
  const MappedFile mapped(file);
  const Json json = parse_json(mapped.text(), fmt::format("read {}", file.string()));
  return ConfigKeys(json, file.string()).tokens("eos_token_id", vocabulary);
}

void read_sizes(const ConfigKeys& keys, ModelConfig& config) {
  config.layers = keys.integer("num_hidden_layers", 1, Limits::kLayers);
  config.hidden = keys.integer("hidden_size", 1, Limits::kWidth);
  // Mixtures without a dense layer may lack the width of one.
  config.intermediate = keys.has("moe_intermediate_size")
                            ? keys.integer_or("intermediate_size", 1, Limits::kWidth, 1)
                            : keys.integer("intermediate_size", 1, Limits::kWidth);
  config.context = keys.integer("max_position_embeddings", 1, Limits::kContext);
  config.vocabulary = keys.integer("vocab_size", 1, Limits::kVocabulary);
  config.heads = keys.integer("num_attention_heads", 1, Limits::kHeads);
  config.kv_heads = keys.integer_or("num_key_value_heads", 1, Limits::kHeads, config.heads);
  if (!keys.has("head_dim") && config.hidden % config.heads != 0) {
    keys.refuse("hidden_size", fmt::format("a multiple of {} heads", config.heads));
  }
  config.head_dim = keys.integer_or("head_dim", 1, Limits::kHeadDim, config.hidden / config.heads);
  double epsilon = 1e-6;
  for (const char* key : {"layer_norm_eps", "norm_epsilon", "layer_norm_epsilon", "rms_norm_eps"}) {
    epsilon = keys.number_or(key, 0, 1, epsilon);
  }
  config.norm_epsilon = static_cast<float>(epsilon);
}

void read_tokens(const ConfigKeys& top, const ConfigKeys& keys, const Checkpoint& checkpoint,
                 ModelConfig& config) {
  const auto add = [&](const std::vector<TokenId>& ids) {
    auto& known = config.end_tokens;
    for (const TokenId id : ids) {
      if (std::find(known.begin(), known.end(), id) == known.end()) known.push_back(id);
    }
  };
  add(keys.tokens("eos_token_id", config.vocabulary));
  add(top.tokens("eos_token_id", config.vocabulary));
  add(generation_end_tokens(checkpoint, config.vocabulary));
  const auto start = keys.tokens("bos_token_id", config.vocabulary);
  if (!start.empty()) config.start_token = start[0];
}

/// Where the tensors of the text model lie: published folders put one prefix before it, folders
/// saved again another.
void find_prefix(const Checkpoint& checkpoint, ModelConfig& config) {
  TensorForms& forms = config.forms;
  if (forms.prefix != "model.") return;
  if (checkpoint.find("language_model.model.embed_tokens.weight")) {
    forms.prefix = "language_model.model.";
    forms.output = "language_model.lm_head.";
  } else if (checkpoint.find("model.language_model.embed_tokens.weight")) {
    forms.prefix = "model.language_model.";
  }
}

/// A file that does not say and has no output matrix reads its embeddings as one.
void tie_without_output(const ConfigKeys& top, const ConfigKeys& keys, const Checkpoint& checkpoint,
                        ModelConfig& config) {
  if (top.has("tie_word_embeddings") || keys.has("tie_word_embeddings")) return;
  const auto& tensors = checkpoint.tensors;
  const bool has_output = std::any_of(tensors.begin(), tensors.end(), [&](const auto& tensor) {
    return tensor.name.starts_with(config.forms.output);
  });
  if (!tensors.empty() && !has_output) config.tied_output = true;
}

void add_missing(const Json& defaults, Json& keys) {
  for (const auto& [key, value] : defaults.items()) {
    if (!keys.contains(key)) keys[key] = value;
  }
}

/// What the class of a model takes for keys that are missing, where most families take another:
/// files that transformers wrote leave such keys of a nested model out.
Json class_defaults(const Json& model_type) {
  if (model_type == "gemma3_text")
    return Json::object({{"rope_theta", 1e6}, {"sliding_window", 4096}});
  if (model_type == "mistral" || model_type == "cohere2" || model_type == "olmo3")
    return Json::object({{"sliding_window", 4096}});
  if (model_type == "llama4_text")
    return Json::object({{"rope_theta", 5e5}, {"rms_norm_eps", 1e-5}});
  if (model_type == "gpt_oss") return Json::object({{"rope_theta", 1.5e5}, {"rms_norm_eps", 1e-5}});
  if (model_type == "mixtral") return Json::object({{"rope_theta", 1e6}, {"rms_norm_eps", 1e-5}});
  if (model_type == "glm4" || model_type == "glm4_moe")
    return Json::object({{"partial_rotary_factor", 0.5}});
  if (model_type == "deepseek_v3") return Json::object({{"routed_scaling_factor", 2.5}});
  return Json::object();
}

/// Janus: the part of its Llama, whose keys may lack the defaults of their class, in the name of
/// the whole.
Json janus_model(const Json& config) {
  const auto nested = config.find("language_config");
  Json keys = nested != config.end() && nested->is_object() ? *nested : Json::object();
  keys["model_type"] = config["model_type"];
  if (config.contains("grid")) keys["grid"] = config["grid"];
  add_missing({{"hidden_size", 4096},
               {"intermediate_size", 11008},
               {"num_hidden_layers", 32},
               {"num_attention_heads", 32},
               {"max_position_embeddings", 2048}},
              keys);
  return keys;
}

/// The keys of the text model. Gemma 3's may lack those that equal the defaults of their class.
Json text_model(const Json& config) {
  if (!config.is_object()) return config;
  if (config.value("model_type", Json()) == "multi_modality") return janus_model(config);
  const auto nested = config.find("text_config");
  const bool is_nested = nested != config.end() && nested->is_object();
  Json text = is_nested ? *nested : config;
  const Json type = text.value("model_type", Json());
  add_missing(class_defaults(type), text);
  if (!is_nested || type != "gemma3_text") return text;
  const Json sizes = {{"hidden_size", 2304},         {"intermediate_size", 9216},
                      {"num_hidden_layers", 26},     {"num_attention_heads", 8},
                      {"num_key_value_heads", 4},    {"head_dim", 256},
                      {"vocab_size", 262208},        {"max_position_embeddings", 131072},
                      {"query_pre_attn_scalar", 256}};
  add_missing(sizes, text);
  return text;
}

void refuse_unsupported(const ConfigKeys& keys) {
  if (keys.flag_or("mlp_bias", false)) keys.refuse("mlp_bias", "false");
  read_quantization(keys);
}

}  // namespace

ModelConfig read_hugging_face_config(const Checkpoint& checkpoint) {
  const ConfigKeys top(checkpoint.metadata, (checkpoint.path / "config.json").string());
  refuse_unsupported(top);
  const Json text = text_model(checkpoint.metadata);
  const ConfigKeys keys(text, (checkpoint.path / "config.json").string());
  refuse_unsupported(keys);
  ModelConfig config;
  config.architecture = keys.has("model_type") ? keys.text("model_type") : top.text("model_type");
  const FamilyReader read_family = hugging_face_family(config.architecture);
  if (!read_family) keys.refuse("model_type", hugging_face_families());
  read_sizes(keys, config);
  config.rope = read_rope_of(keys, config.context, config.head_dim, "full_attention");
  if (config.rope.scaling == RopeConfig::Scaling::yarn) {
    const double stretched = config.rope.original_context * config.rope.factor;
    config.context =
        std::max(config.context, static_cast<int>(std::min<double>(stretched, Limits::kContext)));
  }
  const bool attention_bias = keys.flag_or("attention_bias", false);
  config.qkv_bias = config.output_bias = attention_bias;
  config.tied_output =
      keys.flag_or("tie_word_embeddings", top.flag_or("tie_word_embeddings", false));
  read_tokens(top, keys, checkpoint, config);
  plan_alike(config);
  read_family(keys, config);
  find_prefix(checkpoint, config);
  tie_without_output(top, keys, checkpoint, config);
  if (config.image) count_codes(checkpoint, config);
  return config;
}

}  // namespace talon
