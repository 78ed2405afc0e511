#pragma once

#include "model/config/quantization.h"
#include "model/load/quantized/matrix_parts.h"
#include "model/load/quantized/quantized_tensors.h"

namespace talon {

/// MLX's groups (`mx.quantize`, mode "affine"): "weight", words of codes one behind the other, each
/// from its lowest bit on, [rows, cols * bits / 32]; "scales" and "biases" [rows, cols / inputs of
/// a group]. A value is scale * code + bias. Of a stack all have its number of matrices in front.
/// q4_1 up to 4 bits and q5_1 with 5 where scales and biases are binary16 numbers, else f32,
/// rounded once. Throws what MatrixParts throws.
MadeMatrix read_groups_of_codes(const MatrixParts& parts, const Quantization::Groups& groups,
                                const StackedMatrix& place);
/// The smallest type that such codes may become.
StorageType smallest_type_of_codes(int bits);

}  // namespace talon
