#pragma once

#include <string>
#include <string_view>

#include "model/config/config.h"

namespace talon {

/// What each tensor of the block is called in a file. Names of a layer hold "{}" for its number and
/// lack ".weight" or ".bias". Empty: the family has none.
struct TensorNames {
  std::string embedding, output, final_norm;
  std::string attention_norm, q, k, v, qkv, o, q_norm, k_norm, sinks;
  std::string post_attention_norm, post_ffn_norm, layer_scale;
  std::string ffn_norm, gate, up, gate_up, down;

  static TensorNames of(CheckpointFormat format, const ModelConfig& config);
};

std::string layer_tensor(std::string_view name, int layer, std::string_view part = "weight");

}  // namespace talon
