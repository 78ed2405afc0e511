#include <algorithm>
#include <array>
#include <string>

#include "core/error.h"
#include "io/json_text.h"
#include "model/config/config_keys.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

using Limits = ConfigLimits;

constexpr std::array<std::string_view, 4> kArchitectures = {"llama", "mistral", "qwen2", "qwen3"};

/// The scaling part of config.json: `rope_parameters` (transformers 5), `rope_scaling` (before), or
/// nothing.
std::optional<ConfigKeys> scaling_keys(const ConfigKeys& keys) {
  auto parameters = keys.object("rope_parameters");
  return parameters ? parameters : keys.object("rope_scaling");
}

/// YaRN's multiplier of cos and sin (arXiv:2309.00071 section 3.4), with DeepSeek's refinement by
/// two exponents.
double read_attention_factor(const ConfigKeys& scaling, double factor) {
  if (scaling.has("attention_factor")) return scaling.number("attention_factor", 1e-3, 1e3);
  const double mscale = scaling.number_or("mscale", 0, 1e3, 0);
  const double all = scaling.number_or("mscale_all_dim", 0, 1e3, 0);
  if (mscale == 0 || all == 0) return yarn_attention_factor(factor);
  return yarn_attention_factor(factor, mscale) / yarn_attention_factor(factor, all);
}

void read_scaling(const ConfigKeys& scaling, int context, RopeConfig& rope) {
  const std::string_view key = scaling.has("rope_type") ? "rope_type" : "type";
  const std::string type = scaling.text_or(key, "default");
  if (type == "default") return;
  const bool known = type == "linear" || type == "llama3" || type == "yarn";
  if (!known) scaling.refuse(key, "default, linear, llama3 or yarn");
  rope.factor = scaling.number("factor", 1e-3, 1e6);
  if (type == "linear") {
    rope.scaling = RopeConfig::Scaling::linear;
    return;
  }
  const std::string_view original = "original_max_position_embeddings";
  if (type == "llama3") {
    rope.scaling = RopeConfig::Scaling::llama3;
    rope.original_context = scaling.number(original, 1, 1e9);
    rope.low_frequency_factor = scaling.number("low_freq_factor", 1e-3, 1e6);
    rope.high_frequency_factor = scaling.number("high_freq_factor", 1e-3, 1e6);
    if (rope.high_frequency_factor <= rope.low_frequency_factor) {
      scaling.refuse("high_freq_factor", "more than low_freq_factor");
    }
    return;
  }
  rope.scaling = RopeConfig::Scaling::yarn;
  rope.original_context = scaling.number_or(original, 1, 1e9, context);
  rope.beta_fast = scaling.number_or("beta_fast", 1e-3, 1e6, 32);
  rope.beta_slow = scaling.number_or("beta_slow", 1e-3, 1e6, 1);
  rope.attention_factor = read_attention_factor(scaling, rope.factor);
  if (!scaling.flag_or("truncate", true)) scaling.refuse("truncate", "true");
}

/// One window for all layers, or none. Qwen2 windows the layers from max_window_layers on, and only
/// when told to.
int read_window(const ConfigKeys& keys, const ModelConfig& config) {
  const int window = keys.integer_or("sliding_window", 0, INT32_MAX, 0);
  if (window == 0 || !keys.flag_or("use_sliding_window", config.architecture == "mistral")) {
    return 0;
  }
  if (const Json* types = keys.find("layer_types"); types && types->is_array()) {
    const auto sliding = std::count(types->begin(), types->end(), "sliding_attention");
    if (sliding == 0) return 0;
    if (sliding == static_cast<std::ptrdiff_t>(types->size())) return window;
    keys.refuse("layer_types", "the same attention in all layers");
  }
  if (config.architecture == "mistral") return window;
  const int first = keys.integer_or("max_window_layers", 0, INT32_MAX, 28);
  if (first >= config.layers) return 0;
  if (first > 0) keys.refuse("max_window_layers", "0 or all layers: a mixture is not supported");
  return window;
}

/// The end tokens of generation_config.json, which for chat models lists more than config.json.
std::vector<TokenId> generation_end_tokens(const Checkpoint& checkpoint, int vocabulary) {
  const auto file = checkpoint.path / "generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return {};
  const MappedFile mapped(file);
  const auto* text = reinterpret_cast<const char*>(mapped.bytes().data());
  const Json json =
      parse_json({text, mapped.bytes().size()}, fmt::format("read {}", file.string()));
  return ConfigKeys(json, file.string()).tokens("eos_token_id", vocabulary);
}

void refuse_unsupported(const ConfigKeys& keys) {
  const std::string type = keys.text("model_type");
  if (std::find(kArchitectures.begin(), kArchitectures.end(), type) == kArchitectures.end()) {
    keys.refuse("model_type", "llama, mistral, qwen2 or qwen3");
  }
  if (keys.text_or("hidden_act", "silu") != "silu") keys.refuse("hidden_act", "silu");
  if (keys.flag_or("mlp_bias", false)) keys.refuse("mlp_bias", "false");
  if (keys.has("quantization_config")) keys.refuse("quantization_config", "no quantisation");
  if (keys.number_or("partial_rotary_factor", 0, 1, 1) != 1) {
    keys.refuse("partial_rotary_factor", "1");
  }
}

}  // namespace

RopeConfig read_hugging_face_rope(const ConfigKeys& keys, int context) {
  RopeConfig rope;
  rope.base = keys.number_or("rope_theta", 1, 1e12, 10000);
  if (const auto scaling = scaling_keys(keys)) {
    rope.base = scaling->number_or("rope_theta", 1, 1e12, rope.base);
    if (scaling->number_or("partial_rotary_factor", 0, 1, 1) != 1) {
      scaling->refuse("partial_rotary_factor", "1");
    }
    read_scaling(*scaling, context, rope);
    if (rope.scaling == RopeConfig::Scaling::yarn && rope.base == 1) {
      (scaling->has("rope_theta") ? *scaling : keys)
          .refuse("rope_theta", "more than 1 beside YaRN");
    }
  }
  return rope;
}

ModelConfig read_hugging_face_config(const Checkpoint& checkpoint) {
  const ConfigKeys keys(checkpoint.metadata, (checkpoint.path / "config.json").string());
  refuse_unsupported(keys);
  ModelConfig config;
  config.architecture = keys.text("model_type");
  config.layers = keys.integer("num_hidden_layers", 1, Limits::kLayers);
  config.hidden = keys.integer("hidden_size", 1, Limits::kWidth);
  config.intermediate = keys.integer("intermediate_size", 1, Limits::kWidth);
  config.context = keys.integer("max_position_embeddings", 1, Limits::kContext);
  config.vocabulary = keys.integer("vocab_size", 1, Limits::kVocabulary);
  config.heads = keys.integer("num_attention_heads", 1, Limits::kHeads);
  config.kv_heads = keys.integer_or("num_key_value_heads", 1, Limits::kHeads, config.heads);
  if (!keys.has("head_dim") && config.hidden % config.heads != 0) {
    keys.refuse("hidden_size", fmt::format("a multiple of {} heads", config.heads));
  }
  config.head_dim = keys.integer_or("head_dim", 1, Limits::kHeadDim, config.hidden / config.heads);
  config.norm_epsilon = static_cast<float>(keys.number_or("rms_norm_eps", 0, 1, 1e-6));

  config.rope = read_hugging_face_rope(keys, config.context);
  if (config.rope.scaling == RopeConfig::Scaling::yarn) {
    const double stretched = config.rope.original_context * config.rope.factor;
    config.context =
        std::max(config.context, static_cast<int>(std::min<double>(stretched, Limits::kContext)));
  }
  config.sliding_window = read_window(keys, config);
  const bool attention_bias = keys.flag_or("attention_bias", false);
  config.qkv_bias = attention_bias || config.architecture == "qwen2";
  config.output_bias = attention_bias && config.architecture != "qwen2";
  config.qk_norm = config.architecture == "qwen3";
  config.tied_output = keys.flag_or("tie_word_embeddings", false);
  config.end_tokens = keys.tokens("eos_token_id", config.vocabulary);
  for (const TokenId id : generation_end_tokens(checkpoint, config.vocabulary)) {
    const auto& known = config.end_tokens;
    if (std::find(known.begin(), known.end(), id) == known.end()) config.end_tokens.push_back(id);
  }
  const auto start = keys.tokens("bos_token_id", config.vocabulary);
  if (!start.empty()) config.start_token = start[0];
  return config;
}

}  // namespace talon
