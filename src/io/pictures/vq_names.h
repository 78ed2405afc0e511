#pragma once

#include <string>
#include <string_view>

#include "io/checkpoint.h"

namespace talon {

// What VQ tokenizers of pictures call their tensors, where that tells them apart.

inline constexpr std::string_view kVqCodebook = "quantize.embedding.weight";  // [codes, width]

/// What stands before the names of a tokenizer's tensors: Janus has them among those of its model.
inline std::string vq_prefix(const Checkpoint& file) {
  const std::string of_janus = "gen_vision_model.";
  return file.find(of_janus + std::string(kVqCodebook)) ? of_janus : "";
}

/// Whether it has Chameleon's decoder. Its codes are used as they are stored, those of all others
/// divided by their norms.
inline bool is_chameleon_vq(const Checkpoint& file) {
  return file.find(vq_prefix(file) + "decoder.up.0.block.0.norm1.weight") != nullptr;
}

}  // namespace talon
