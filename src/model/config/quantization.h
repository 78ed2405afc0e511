#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

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
    mlx,
  };
  /// Of MLX's codes. Whole numbers have a scale and a bias for each group of inputs; small floats a
  /// scale: a power of two in one byte, or of nvfp4 an eight-bit float.
  struct Groups {
    enum class Codes { affine, mxfp4, nvfp4, mxfp8 };
    int bits = 4;
    int inputs = 64;
    Codes codes = Codes::affine;
  };
  Method method = Method::mxfp4;
  int bits = 4;
  int group = 0;          // inputs that share a scale; 0: all
  bool symmetric = true;  // codes have no zero points
  bool zeros_less_1 = false;
  int block_rows = 0, block_cols = 0;  // of floats; 0: a scale for each output or for a matrix
  Groups groups;                       // of MLX's matrices
  std::map<std::string, Groups, std::less<>> own_groups;  // ... of those that have others, by names

  /// Of the matrix "NAME.weight".
  const Groups& groups_of(std::string_view matrix) const;
};

/// Nothing without a quantization_config, which may stand below text_config, without MLX's
/// "quantization" and without ModelOpt's hf_quant_config (as read_hugging_face reads it). Throws
/// Error for one that is not known.
std::optional<Quantization> read_quantization(const ConfigKeys& keys);

}  // namespace talon
