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
  static constexpr int kContext = 1 << 20;
};

/// YaRN's multiplier of cos and sin for a context stretched by `factor`: 0.1 * exponent *
/// ln(factor) + 1.
double yarn_attention_factor(double factor, double exponent = 1);

/// The rotary embedding of config.json: rope_theta (10000 when absent) and its scaling. `context`
/// is the original one where YaRN names none.
RopeConfig read_hugging_face_rope(const ConfigKeys& keys, int context);

ModelConfig read_gguf_config(const Checkpoint& checkpoint);
ModelConfig read_hugging_face_config(const Checkpoint& checkpoint);
ModelConfig read_llama2c_config(const Checkpoint& checkpoint);

}  // namespace talon
