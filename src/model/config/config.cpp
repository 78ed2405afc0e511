#include "model/config/config.h"

#include "core/error.h"
#include "model/config/config_keys.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

/// Relations between values that were each in range.
void check_config(const ModelConfig& config, const std::string& where) {
  if (config.heads % config.kv_heads != 0) {
    fail(
        "read {}: expected a number of heads that is a multiple of the {} key-value heads, found "
        "{}",
        where, config.kv_heads, config.heads);
  }
  if (config.head_dim % 2 != 0) {
    fail("read {}: expected an even head size, found {}", where, config.head_dim);
  }
  const auto divisors = config.rope.frequency_divisors.size();
  if (divisors != 0 && divisors != static_cast<std::size_t>(config.head_dim) / 2) {
    fail("read {}: \"rope_freqs.weight\": expected {} values, found {}", where, config.head_dim / 2,
         divisors);
  }
}

}  // namespace

ModelConfig read_model_config(const Checkpoint& checkpoint) {
  ModelConfig config;
  switch (checkpoint.format) {
    case CheckpointFormat::gguf:
      config = read_gguf_config(checkpoint);
      break;
    case CheckpointFormat::hugging_face:
      config = read_hugging_face_config(checkpoint);
      break;
    case CheckpointFormat::llama2c:
      config = read_llama2c_config(checkpoint);
      break;
    default:
      fail(
          "read {}: expected a GGUF file, a Hugging Face folder or a llama2.c checkpoint, found {}",
          checkpoint.path.string(), name_of(checkpoint.format));
  }
  check_config(config, checkpoint.path.string());
  return config;
}

ModelConfig read_llama2c_config(const Checkpoint& checkpoint) {
  using Limits = ConfigLimits;
  const ConfigKeys keys(checkpoint.metadata, checkpoint.path.string());
  ModelConfig config;
  config.architecture = "llama";
  config.layers = keys.integer("n_layers", 1, Limits::kLayers);
  config.hidden = keys.integer("dim", 1, Limits::kWidth);
  config.intermediate = keys.integer("hidden_dim", 1, Limits::kWidth);
  config.heads = keys.integer("n_heads", 1, Limits::kHeads);
  config.kv_heads = keys.integer("n_kv_heads", 1, Limits::kHeads);
  config.vocabulary = keys.integer("vocab_size", 1, Limits::kVocabulary);
  config.context = keys.integer("seq_len", 1, Limits::kContext);
  if (config.hidden % config.heads != 0) {
    keys.refuse("dim", fmt::format("a multiple of the {} heads", config.heads));
  }
  config.head_dim = config.hidden / config.heads;
  config.norm_epsilon = 1e-5F;
  config.interleaved_rope = true;
  config.tied_output = checkpoint.find("output.weight") == nullptr;
  config.start_token = 1;
  // A story ends where the next one would start; Llama's own end token never occurs in the training
  // data, but ends too.
  config.end_tokens = {1, 2};
  return config;
}

}  // namespace talon
