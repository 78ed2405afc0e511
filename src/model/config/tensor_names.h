#pragma once

#include <string>
#include <string_view>

#include "io/checkpoint.h"

namespace talon {

/// What each tensor of the block is called in a file. Names of a layer hold "{}" for its number and
/// lack ".weight" or ".bias".
struct TensorNames {
  std::string_view embedding, output, final_norm;
  std::string_view attention_norm, q, k, v, o, q_norm, k_norm;
  std::string_view ffn_norm, gate, up, down;

  static const TensorNames& of(CheckpointFormat format);
};

std::string layer_tensor(std::string_view name, int layer, std::string_view part = "weight");

}  // namespace talon
