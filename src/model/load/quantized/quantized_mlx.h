#pragma once

#include "model/config/quantization.h"
#include "model/load/quantized/matrix_parts.h"
#include "model/load/quantized/quantized_tensors.h"

namespace talon {

/// MLX's groups (`mx.quantize`): "weight", words of codes one behind the other, each from its
/// lowest bit on, [rows, cols * bits / 32]; "scales" and, in the mode "affine", "biases" [rows,
/// cols / inputs of a group]. Of a stack all have its number of matrices in front. Throws what
/// MatrixParts throws.
///
/// - affine: a value is scale * code + bias. q4_1 up to 4 bits and q5_1 with 5 where scales and
///   biases are binary16 numbers, else f32, rounded once.
/// - mxfp4, mxfp8: codes of e2m1 or e4m3 times 2^(scale - 127), a byte. The first is kept as it is,
///   the second as bf16, which holds all products where no scale is below 2^-124, else as f32.
/// - nvfp4: codes of e2m1 times a scale of e4m3, in a byte, without a factor of the matrix. Kept as
///   it is where rows are whole blocks of 64 and no scale is negative, else as bf16.
MadeMatrix read_groups_of_codes(const MatrixParts& parts, const Quantization::Groups& groups,
                                const StackedMatrix& place);
/// The smallest type that such codes may become, in a row of `inputs`.
StorageType smallest_type_of_codes(const Quantization::Groups& groups, std::uint64_t inputs);

}  // namespace talon
