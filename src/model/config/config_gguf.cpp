#include <algorithm>
#include <array>
#include <string>

#include "core/error.h"
#include "model/config/config_keys.h"
#include "model/config/config_readers.h"
#include "model/config/family_helpers.h"

namespace talon {
namespace {

using Limits = ConfigLimits;

/// Tokens that end an answer in the chat formats of these families, besides the ones a file names
/// by key.
constexpr std::array<std::string_view, 18> kEndTexts = {
    "<|im_end|>",      "<|endoftext|>", "<|eot_id|>", "<|eom_id|>",
    "<|end_of_text|>", "<end_of_turn>", "<turn|>",    "<|return|>",
    "<|call|>",        "<|user|>",      "</s>",       "<|END_OF_TURN_TOKEN|>",
    "<|observation|>", "<|eot|>",       "<|eom|>",    "<|flush|>",
    "<|calls|>",       "[e~["};

/// YaRN's multiplier of cos and sin. Converters write in its place the `attn_factor` that some
/// folders have and transformers passes over. That takes back what the usual multiplier adds, so it
/// is less than 1; where Talon writes such a multiplier, its files have `attn_factor`, too.
double read_attention_factor(const ConfigKeys& keys, const std::string& prefix, double factor) {
  const std::string own = prefix + "scaling.attn_factor";
  const double usual = keys.number_or(own, 1e-3, 1e3, 1) * yarn_attention_factor(factor);
  const double stated = keys.number_or(prefix + "scaling.yarn_attn_factor", 1e-3, 1e3, usual);
  return stated < 1 && !keys.has(own) ? usual : stated;
}

/// context: the original one where YaRN names none.
RopeConfig read_rope(const ConfigKeys& keys, const std::string& prefix, int context) {
  RopeConfig rope;
  rope.base = keys.number_or(prefix + "freq_base", 1, 1e12, 10000);
  // A factor alone is linear, as llama.cpp has it.
  const char* usual = keys.has(prefix + "scaling.factor") ? "linear" : "none";
  const std::string scaling = keys.text_or(prefix + "scaling.type", usual);
  if (scaling == "linear" || scaling == "yarn") {
    rope.factor = keys.number_or(prefix + "scaling.factor", 1e-3, 1e6, 1);
  }
  if (scaling == "linear") {
    rope.scaling = RopeConfig::Scaling::linear;
  } else if (scaling == "yarn") {
    rope.scaling = RopeConfig::Scaling::yarn;
    if (rope.base == 1) keys.refuse(prefix + "freq_base", "more than 1 beside YaRN");
    rope.original_context =
        keys.number_or(prefix + "scaling.original_context_length", 1, 1e9, context);
    rope.beta_fast = keys.number_or(prefix + "scaling.yarn_beta_fast", 1e-3, 1e6, 32);
    rope.beta_slow = keys.number_or(prefix + "scaling.yarn_beta_slow", 1e-3, 1e6, 1);
    rope.attention_factor = read_attention_factor(keys, prefix, rope.factor);
  } else if (scaling != "none" && scaling != "longrope") {
    keys.refuse(prefix + "scaling.type", "none, linear, yarn or longrope");
  } else if (keys.has(prefix + "scale_linear")) {
    rope.factor = keys.number(prefix + "scale_linear", 1e-3, 1e6);
    if (rope.factor != 1) rope.scaling = RopeConfig::Scaling::linear;
  }
  return rope;
}

/// What each frequency is divided by: Llama 3's scaling as converters write it, Phi's factors, and
/// Gemma 4's frequencies that do not turn.
std::vector<float> read_divisors(const Checkpoint& checkpoint, const char* name) {
  constexpr float kLargest = 1e31F;
  const StoredTensor* tensor = checkpoint.find(name);
  if (!tensor) return {};
  const bool fits = tensor->type == StorageType::f32 && tensor->shape.size() == 1 &&
                    tensor->shape[0] <= Limits::kHeadDim;
  if (!fits) {
    fail("load {}: \"{}\": expected f32 [head size / 2], found {} with {} axes",
         checkpoint.path.string(), name, name_of(tensor->type), tensor->shape.size());
  }
  std::vector<float> divisors(static_cast<std::size_t>(tensor->shape[0]));
  dequantize(tensor->type, tensor->bytes, divisors);
  for (const float divisor : divisors) {
    if (!(divisor > 0 && divisor < kLargest)) {
      fail("load {}: \"{}\": expected positive values, found {}", checkpoint.path.string(), name,
           divisor);
    }
  }
  return divisors;
}

/// context: the original one of files that name none, as MiniCPM's.
void read_longrope(const ConfigKeys& keys, const std::string& prefix, const Checkpoint& checkpoint,
                   int context, RopeConfig& rope) {
  rope.short_divisors = read_divisors(checkpoint, "rope_factors_short.weight");
  rope.long_divisors = read_divisors(checkpoint, "rope_factors_long.weight");
  if (rope.short_divisors.empty() != rope.long_divisors.empty()) {
    fail("load {}: expected both of rope_factors_short and rope_factors_long, found one",
         checkpoint.path.string());
  }
  if (rope.long_divisors.empty()) return;
  rope.scaling = RopeConfig::Scaling::longrope;
  rope.original_context =
      keys.number_or(prefix + "scaling.original_context_length", 1, 1e9, context);
  rope.attention_factor = keys.number_or(prefix + "scaling.attn_factor", 1e-3, 1e3, 1);
}

int read_vocabulary(const Checkpoint& checkpoint) {
  const StoredTensor& table = checkpoint.require("token_embd.weight");
  if (table.shape.size() != 2 || table.shape[0] < 1 || table.shape[0] > Limits::kVocabulary) {
    fail("load {}: \"token_embd.weight\": expected [vocabulary, hidden] with at most {} rows",
         checkpoint.path.string(), Limits::kVocabulary);
  }
  return static_cast<int>(table.shape[0]);
}

/// Whether a token is one of the marks between texts.
bool is_control(const Json* types, std::size_t id) {
  constexpr int kControl = 3;  // tokenizer.ggml.token_type
  if (!types || !types->is_array()) return true;
  return id < types->size() && (*types)[id] == kControl;
}

/// A mark "<|end|>" is one of them (Phi), but where there is "<|return|>" (gpt-oss) or "<|flush|>"
/// (Solar Open): there it ends a message.
std::vector<TokenId> read_end_tokens(const ConfigKeys& keys, int vocabulary) {
  std::vector<TokenId> ids;
  const auto add = [&](TokenId id) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  };
  for (const std::string_view name : {"eos", "eot", "eom"}) {
    for (const TokenId id :
         keys.tokens(fmt::format("tokenizer.ggml.{}_token_id", name), vocabulary)) {
      add(id);
    }
  }
  const Json* texts = keys.find("tokenizer.ggml.tokens");
  if (!texts || !texts->is_array()) return ids;
  const Json* types = keys.find("tokenizer.ggml.token_type");
  const auto count = std::min(texts->size(), static_cast<std::size_t>(vocabulary));
  std::optional<TokenId> message_end;
  bool returns = false;
  for (std::size_t id = 0; id < count; ++id) {
    const auto* text = (*texts)[id].get_ptr<const std::string*>();
    if (!text) continue;
    if (*text == "</s>" && !is_control(types, id)) continue;  // Gemma's ends a struck-out text
    returns |= *text == "<|return|>" || *text == "<|flush|>";
    if (*text == "<|end|>") message_end = static_cast<TokenId>(id);
    if (std::ranges::find(kEndTexts, *text) != kEndTexts.end()) add(static_cast<TokenId>(id));
  }
  if (message_end && returns) std::erase(ids, *message_end);
  if (message_end && !returns) add(*message_end);
  return ids;
}

/// The first value that is not 0 of a key that may list one for each layer; 0: none.
int first_of(const ConfigKeys& keys, const std::string& key, int high) {
  const Json* value = keys.find(key);
  if (!value || !value->is_array()) return keys.integer_or(key, 0, high, 0);
  const auto all = keys.integers(key, 0, high, value->size());
  const auto found = std::ranges::find_if(all, [](int one) { return one > 0; });
  return found == all.end() ? 0 : *found;
}

/// Where each layer has its own those of the first, or the most of them in a family whose layers
/// with a state have none.
int read_kv_heads(const ConfigKeys& keys, const std::string& key, const ModelConfig& config) {
  const Json* listed = keys.find(key);
  if (!listed || !listed->is_array()) {
    return keys.integer_or(key, 1, Limits::kHeads, config.heads);
  }
  const auto all = keys.integers(key, 0, Limits::kHeads, listed->size());
  if (all.empty()) return config.heads;
  const bool has_states = gguf_recurrent_family(config.architecture) != nullptr;
  if (!has_states && std::ranges::find(all, 0) != all.end()) {
    keys.refuse(key, "key-value heads in each layer");
  }
  const int heads = has_states ? std::ranges::max(all) : all[0];
  if (heads < 1) keys.refuse(key, "key-value heads in a layer");
  return heads;
}

/// Of RMSNorm or LayerNorm: converters write both where a folder says both. Ollama's files of Gemma
/// 3 may lack it.
double read_epsilon(const ConfigKeys& keys, const std::string& attention,
                    std::string_view architecture) {
  const std::string rms = attention + "layer_norm_rms_epsilon";
  constexpr std::string_view kLayerNorms[] = {"cohere2",  "command-r", "starcoder2", "stablelm",
                                              "nemotron", "phi2",      "gptneox"};
  const bool has_layer_norms =
      std::ranges::find(kLayerNorms, architecture) != std::end(kLayerNorms);
  if (has_layer_norms || !keys.has(rms)) {
    const double epsilon = keys.number_or(attention + "layer_norm_epsilon", 0, 1, -1);
    if (epsilon >= 0) return epsilon;
  }
  return architecture == "gemma3" ? keys.number_or(rms, 0, 1, 1e-6) : keys.number(rms, 0, 1);
}

void read_sizes(const ConfigKeys& keys, const std::string& prefix, ModelConfig& config) {
  const std::string attention = prefix + "attention.";
  config.layers = keys.integer(prefix + "block_count", 1, Limits::kLayers);
  const int predicting = keys.integer_or(prefix + "nextn_predict_layers", 0, Limits::kLayers, 0);
  if (predicting >= config.layers) {
    keys.refuse(prefix + "nextn_predict_layers", fmt::format("fewer than {}", config.layers));
  }
  config.layers -= predicting;
  config.hidden = keys.integer(prefix + "embedding_length", 1, Limits::kWidth);
  const std::string width = prefix + "feed_forward_length";
  config.intermediate = first_of(keys, width, Limits::kWidth);
  if (config.intermediate == 0) {
    config.intermediate =
        keys.integer_or(prefix + "expert_feed_forward_length", 1, Limits::kWidth, 0);
  }
  if (config.intermediate < 1)
    keys.refuse(width, fmt::format("an integer in 1..{}", Limits::kWidth));
  config.context = keys.integer(prefix + "context_length", 1, Limits::kContext);
  config.heads = keys.integer(attention + "head_count", 1, Limits::kHeads);
  config.kv_heads = read_kv_heads(keys, attention + "head_count_kv", config);
  if (!keys.has(attention + "key_length") && config.hidden % config.heads != 0) {
    keys.refuse(prefix + "embedding_length", fmt::format("a multiple of {} heads", config.heads));
  }
  config.head_dim =
      keys.integer_or(attention + "key_length", 1, Limits::kHeadDim, config.hidden / config.heads);
  config.norm_epsilon = static_cast<float>(read_epsilon(keys, attention, config.architecture));
}

/// Heads whose values are as wide as their keys, but of families that read other values themselves.
void check_heads(const ConfigKeys& keys, const std::string& prefix, const ModelConfig& config) {
  if (keys.has(prefix + "attention.kv_lora_rank") || config.architecture == "mimo2") return;
  const std::string values = prefix + "attention.value_length";
  if (keys.integer_or(values, 0, Limits::kHeadDim, config.head_dim) != config.head_dim) {
    keys.refuse(values, fmt::format("the head size {}", config.head_dim));
  }
}

}  // namespace

RopeConfig read_gguf_rope(const Checkpoint& checkpoint, const std::string& prefix, int context,
                          int head_dim) {
  const ConfigKeys keys(checkpoint.metadata, checkpoint.path.string());
  RopeConfig rope = read_rope(keys, prefix + "rope.", context);
  rope.frequency_divisors = read_divisors(checkpoint, "rope_freqs.weight");
  read_longrope(keys, prefix + "rope.", checkpoint, context, rope);
  const std::string rotary = prefix + "rope.dimension_count";
  const int columns = keys.integer_or(rotary, 2, head_dim, head_dim);
  if (columns % 2 != 0) keys.refuse(rotary, "an even number");
  if (columns != head_dim) rope.rotary = columns;
  return rope;
}

ModelConfig read_gguf_config(const Checkpoint& checkpoint) {
  const ConfigKeys keys(checkpoint.metadata, checkpoint.path.string());
  ModelConfig config;
  config.architecture = keys.text("general.architecture");
  const GgufFamily* family = gguf_family(config.architecture);
  if (!family) keys.refuse("general.architecture", gguf_families());
  const std::string prefix = config.architecture + ".";
  read_sizes(keys, prefix, config);
  config.rope = read_gguf_rope(checkpoint, prefix, config.context, config.head_dim);
  config.vocabulary = read_vocabulary(checkpoint);
  config.tied_output = checkpoint.find("output.weight") == nullptr;
  config.qkv_bias = checkpoint.find("blk.0.attn_q.bias") || checkpoint.find("blk.0.attn_qkv.bias");
  config.output_bias = checkpoint.find("blk.0.attn_output.bias") != nullptr;
  config.end_tokens = read_end_tokens(keys, config.vocabulary);
  const auto start = keys.tokens("tokenizer.ggml.bos_token_id", config.vocabulary);
  if (!start.empty()) config.start_token = start[0];
  check_heads(keys, prefix, config);
  plan_alike(config);
  family->read(keys, checkpoint, config);
  // As llama.cpp's converter writes any family when it is told to.
  if (config.plans[0].attends && !checkpoint.find("blk.0.attn_q.weight") &&
      checkpoint.find("blk.0.attn_qkv.weight")) {
    config.forms.fused_qkv = true;
  }
  return config;
}

}  // namespace talon
