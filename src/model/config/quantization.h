#pragma once

#include <optional>
#include <string>

#include "io/checkpoint.h"
#include "model/config/config_keys.h"

namespace talon {

/// How a Hugging Face folder stores the matrices that its `quantization_config` speaks of. Others
/// (`modules_to_not_convert`, `ignore`) are stored plainly; the tensors tell which are which.
struct Quantization {
  enum class Method {
    gptq,
    awq,
    packed,
    whole_numbers,
    floats,
    float_blocks,
    mxfp4,
    nvfp4,
    bitsandbytes,
  };
  Method method = Method::mxfp4;
  int bits = 4;
  int group = 0;          // inputs that share a scale; 0: all
  bool symmetric = true;  // codes have no zero points
  bool zeros_less_1 = false;
  int block_rows = 0, block_cols = 0;  // of floats; 0: a scale for each output or for a matrix
};

/// Nothing without a quantization_config, which may stand below text_config, and without ModelOpt's
/// hf_quant_config (as read_hugging_face reads it). Throws Error for one that is not known.
std::optional<Quantization> read_quantization(const ConfigKeys& keys);

}  // namespace talon
