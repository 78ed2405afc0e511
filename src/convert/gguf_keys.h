#pragma once

#include <string>
#include <string_view>

#include "io/formats/write_gguf.h"
#include "model/config/config.h"

namespace talon {

/// The GGUF architecture of a model whose configuration a Hugging Face folder or a llama2.c
/// checkpoint has; empty: GGUF has none.
std::string_view gguf_architecture(const ModelConfig& config);

/// The key-values that say a configuration under the architecture, without the tokenizer's: the
/// inverse of read_gguf_config. What an architecture cannot say is left out; whoever reads the keys
/// again finds the difference. `predicts`: with a prediction layer behind the others.
GgufMetadata gguf_keys_of(const ModelConfig& config, std::string_view architecture, bool predicts);
/// Whether files of the architecture have a place for a prediction layer.
bool has_prediction_layer(std::string_view architecture);

/// A tensor of float32 that is part of the configuration: divisors of rotary frequencies.
struct GgufVector {
  std::string name;
  std::vector<float> values;
};
std::vector<GgufVector> gguf_vectors_of(const ModelConfig& config);

}  // namespace talon
