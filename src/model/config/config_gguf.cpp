#include <algorithm>
#include <array>
#include <string>

#include "core/error.h"
#include "model/config/config_keys.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

using Limits = ConfigLimits;

constexpr std::array<std::string_view, 4> kArchitectures = {"llama", "mistral", "qwen2", "qwen3"};

/// Tokens that end an answer in the chat formats of these families, besides the ones a file names
/// by key.
constexpr std::array<std::string_view, 6> kEndTexts = {
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "</s>"};

std::string architecture_of(const ConfigKeys& keys) {
  const std::string name = keys.text("general.architecture");
  if (std::find(kArchitectures.begin(), kArchitectures.end(), name) == kArchitectures.end()) {
    keys.refuse("general.architecture", "llama, mistral, qwen2 or qwen3");
  }
  if (keys.integer_or(name + ".expert_count", 0, 1 << 16, 0) > 0) {
    keys.refuse(name + ".expert_count", "0: mixtures of experts are not supported");
  }
  return name;
}

RopeConfig read_rope(const ConfigKeys& keys, const std::string& prefix) {
  RopeConfig rope;
  rope.base = keys.number_or(prefix + "freq_base", 1, 1e12, 10000);
  const std::string scaling = keys.text_or(prefix + "scaling.type", "none");
  if (scaling == "linear" || scaling == "yarn") {
    rope.factor = keys.number_or(prefix + "scaling.factor", 1e-3, 1e6, 1);
  }
  if (scaling == "linear") {
    rope.scaling = RopeConfig::Scaling::linear;
  } else if (scaling == "yarn") {
    rope.scaling = RopeConfig::Scaling::yarn;
    if (rope.base == 1) keys.refuse(prefix + "freq_base", "more than 1 beside YaRN");
    rope.original_context = keys.number(prefix + "scaling.original_context_length", 1, 1e9);
    rope.beta_fast = keys.number_or(prefix + "scaling.yarn_beta_fast", 1e-3, 1e6, 32);
    rope.beta_slow = keys.number_or(prefix + "scaling.yarn_beta_slow", 1e-3, 1e6, 1);
    const double factor = keys.number_or(prefix + "scaling.attn_factor", 1e-3, 1e3, 1);
    rope.attention_factor = factor * yarn_attention_factor(rope.factor);
  } else if (scaling != "none") {
    keys.refuse(prefix + "scaling.type", "none, linear or yarn");
  } else if (keys.has(prefix + "scale_linear")) {
    rope.factor = keys.number(prefix + "scale_linear", 1e-3, 1e6);
    if (rope.factor != 1) rope.scaling = RopeConfig::Scaling::linear;
  }
  return rope;
}

/// Llama 3's scaling as converters write it: what each frequency is divided by.
std::vector<float> read_frequency_divisors(const Checkpoint& checkpoint) {
  const StoredTensor* tensor = checkpoint.find("rope_freqs.weight");
  if (!tensor) return {};
  const bool fits = tensor->type == StorageType::f32 && tensor->shape.size() == 1 &&
                    tensor->shape[0] <= Limits::kHeadDim;
  if (!fits) {
    fail("load {}: \"rope_freqs.weight\": expected f32 [head size / 2], found {} with {} axes",
         checkpoint.path.string(), name_of(tensor->type), tensor->shape.size());
  }
  std::vector<float> divisors(static_cast<std::size_t>(tensor->shape[0]));
  dequantize(tensor->type, tensor->bytes, divisors);
  for (const float divisor : divisors) {
    if (!(divisor > 0 && divisor < 1e9F)) {
      fail("load {}: \"rope_freqs.weight\": expected positive values, found {}",
           checkpoint.path.string(), divisor);
    }
  }
  return divisors;
}

int read_vocabulary(const Checkpoint& checkpoint) {
  const StoredTensor& table = checkpoint.require("token_embd.weight");
  if (table.shape.size() != 2 || table.shape[0] < 1 || table.shape[0] > Limits::kVocabulary) {
    fail("load {}: \"token_embd.weight\": expected [vocabulary, hidden] with at most {} rows",
         checkpoint.path.string(), Limits::kVocabulary);
  }
  return static_cast<int>(table.shape[0]);
}

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
  const auto count = std::min(texts->size(), static_cast<std::size_t>(vocabulary));
  for (std::size_t id = 0; id < count; ++id) {
    const auto* text = (*texts)[id].get_ptr<const std::string*>();
    if (text && std::find(kEndTexts.begin(), kEndTexts.end(), *text) != kEndTexts.end()) {
      add(static_cast<TokenId>(id));
    }
  }
  return ids;
}

}  // namespace

ModelConfig read_gguf_config(const Checkpoint& checkpoint) {
  const ConfigKeys keys(checkpoint.metadata, checkpoint.path.string());
  ModelConfig config;
  config.architecture = architecture_of(keys);
  const std::string prefix = config.architecture + ".";
  const std::string attention = prefix + "attention.";
  const bool qwen = config.architecture.starts_with("qwen");

  config.layers = keys.integer(prefix + "block_count", 1, Limits::kLayers);
  config.hidden = keys.integer(prefix + "embedding_length", 1, Limits::kWidth);
  config.intermediate = keys.integer(prefix + "feed_forward_length", 1, Limits::kWidth);
  config.context = keys.integer(prefix + "context_length", 1, Limits::kContext);
  config.heads = keys.integer(attention + "head_count", 1, Limits::kHeads);
  config.kv_heads = keys.integer_or(attention + "head_count_kv", 1, Limits::kHeads, config.heads);
  if (!keys.has(attention + "key_length") && config.hidden % config.heads != 0) {
    keys.refuse(prefix + "embedding_length", fmt::format("a multiple of {} heads", config.heads));
  }
  config.head_dim =
      keys.integer_or(attention + "key_length", 1, Limits::kHeadDim, config.hidden / config.heads);
  const auto only_head_dim = [&](const std::string& key) {
    if (keys.integer_or(key, 0, Limits::kHeadDim, config.head_dim) != config.head_dim) {
      keys.refuse(key, fmt::format("the head size {}", config.head_dim));
    }
  };
  only_head_dim(attention + "value_length");
  only_head_dim(prefix + "rope.dimension_count");
  config.norm_epsilon = static_cast<float>(keys.number(attention + "layer_norm_rms_epsilon", 0, 1));
  config.sliding_window = keys.integer_or(attention + "sliding_window", 0, INT32_MAX, 0);

  config.rope = read_rope(keys, prefix + "rope.");
  config.rope.frequency_divisors = read_frequency_divisors(checkpoint);
  config.interleaved_rope = !qwen;
  config.vocabulary = read_vocabulary(checkpoint);
  config.tied_output = checkpoint.find("output.weight") == nullptr;
  config.qkv_bias = checkpoint.find("blk.0.attn_q.bias") != nullptr;
  config.output_bias = checkpoint.find("blk.0.attn_output.bias") != nullptr;
  config.qk_norm = config.architecture == "qwen3";
  config.end_tokens = read_end_tokens(keys, config.vocabulary);
  const auto start = keys.tokens("tokenizer.ggml.bos_token_id", config.vocabulary);
  if (!start.empty()) config.start_token = start[0];
  return config;
}

}  // namespace talon
