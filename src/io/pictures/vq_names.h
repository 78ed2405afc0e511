#pragma once

#include <string>
#include <string_view>

#include "io/checkpoint.h"

namespace talon {

// What VQ tokenizers of pictures call their tensors, where that tells them apart.

inline constexpr std::string_view kVqCodebook = "quantize.embedding.weight";  // [codes, width]

// Before the names where they lie among those of a model.
inline constexpr std::string_view kJanusVq = "gen_vision_model.", kChameleonVq = "model.vqmodel.";

/// What stands before the names of a tokenizer's tensors.
inline std::string vq_prefix(const Checkpoint& file) {
  for (const std::string_view one : {kJanusVq, kChameleonVq}) {
    const std::string prefix(one);
    if (file.find(prefix + std::string(kVqCodebook))) return prefix;
  }
  return "";
}

/// Whether it is Chameleon's, of which a model's folder may have the encoder and the codebook
/// alone. Its codes are used as they are stored, those of all others divided by their norms.
inline bool is_chameleon_vq(const Checkpoint& file) {
  const std::string prefix = vq_prefix(file);
  return prefix == kChameleonVq || file.find(prefix + "decoder.up.0.block.0.norm1.weight") ||
         file.find(prefix + "encoder.down.0.block.0.norm1.weight");
}

/// Whether it makes pixels of codes.
inline bool has_vq_decoder(const Checkpoint& file) {
  return file.find(vq_prefix(file) + "decoder.conv_in.weight") != nullptr;
}

}  // namespace talon
