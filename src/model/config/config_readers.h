#pragma once

#include "model/config/config.h"
#include "model/config/config_keys.h"

namespace talon {

/// The largest values that a file may claim. They bound what is allocated before a tensor has been
/// seen.
struct ConfigLimits {
  static constexpr int kLayers = 1024;
  static constexpr int kWidth = 1 << 17;  // hidden and feed-forward columns
  static constexpr int kHeads = 4096;
  static constexpr int kHeadDim = 1024;
  static constexpr int kVocabulary = 1 << 22;
  static constexpr int kContext = 1 << 24;
  static constexpr int kExperts = 4096;
};

/// YaRN's multiplier of cos and sin for a context stretched by `factor`: 0.1 * exponent *
/// ln(factor) + 1.
double yarn_attention_factor(double factor, double exponent = 1);

/// What config.json says of the rotary embedding: `rope_parameters` (transformers 5), else
/// `rope_scaling` (before), else nothing.
std::optional<ConfigKeys> rope_keys_of(const ConfigKeys& keys);
/// The rotary embedding of config.json: rope_theta (10000 when absent), its scaling, and which part
/// of a head of `head_dim` columns turns. `context` is the original one where YaRN names none.
/// `kind` names the layers whose part of `rope_parameters` is read where it has one for each kind.
RopeConfig read_rope_of(const ConfigKeys& keys, int context, int head_dim, std::string_view kind);
/// The rotary embedding of a GGUF file: its keys below `prefix` ("llama.") and its tensors of
/// factors.
RopeConfig read_gguf_rope(const Checkpoint& checkpoint, const std::string& prefix, int context,
                          int head_dim);
/// Throws Error unless factors of frequencies, where there are some, are one for each pair of
/// columns that turn. `doing`: for the message.
void check_divisors(const RopeConfig& rope, int head_dim, const std::string& doing);

ModelConfig read_gguf_config(const Checkpoint& checkpoint);
ModelConfig read_hugging_face_config(const Checkpoint& checkpoint);
ModelConfig read_llama2c_config(const Checkpoint& checkpoint);
/// Whether it holds a model of LlamaGen's kind: their .pt file, its tensors in safetensors, a
/// folder that `talon train image model` writes, or one of LANTERN's.
bool is_llamagen(const Checkpoint& checkpoint);
ModelConfig read_llamagen_config(const Checkpoint& checkpoint);

/// How many codes a picture model of a Hugging Face folder has, where only its tensors tell.
void count_codes(const Checkpoint& checkpoint, ModelConfig& config);

/// What a family adds to the configuration that all have in common.
using FamilyReader = void (*)(const ConfigKeys& keys, ModelConfig& config);
/// Null for a name that is not known; `names` lists those that are.
FamilyReader hugging_face_family(std::string_view model_type);
std::string hugging_face_families();

/// GGUF: keys below the architecture's prefix.
struct GgufFamily {
  std::string_view name;
  void (*read)(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config);
};
const GgufFamily* gguf_family(std::string_view architecture);
std::string gguf_families();

/// Gives every layer the plan that the global values make.
void plan_alike(ModelConfig& config);
/// Windows of the layers for which windowed(i) holds.
template <typename Windowed>
void window_layers(ModelConfig& config, int window, const Windowed& windowed) {
  if (window == 0) return;
  for (std::size_t i = 0; i < config.plans.size(); ++i) {
    if (!windowed(static_cast<int>(i))) continue;
    config.plans[i].window = config.sliding_window = window;
  }
}

}  // namespace talon
