#pragma once

#include "model/config/quantization.h"
#include "model/load/quantized/matrix_parts.h"
#include "model/load/quantized/quantized_tensors.h"

// The formats whose codes are no whole numbers: eight-bit and four-bit floats, and codes of a
// table. All throw what MatrixParts throws.
namespace talon {

/// Values in f32.
MadeMatrix f32_matrix(const std::vector<float>& values);

/// "weight_scale" or another of that meaning: [rows] or [rows, 1], or one for all outputs.
std::vector<float> scales_of_outputs(const MatrixParts& parts, int rows, std::string_view name);

/// "weight" [rows, cols] in fp8, times its scales: for each block, for each output, or one.
MadeMatrix read_floats(const MatrixParts& parts, const Quantization& quantization, int rows,
                       int cols);
/// One of a stack. The stem of `parts` is the stack's name, `scales` the part that scales it.
/// Blocks lie as the matrix is stored.
MadeMatrix read_floats_of_stack(const MatrixParts& parts, const Quantization& quantization,
                                std::string_view scales, const StackedMatrix& place);

/// NVFP4: codes of e2m1, [rows, cols / 2] bytes whose low nibbles come first, an fp8 scale for each
/// 16 inputs, and a factor for the matrix: compressed-tensors' "weight_packed" with a
/// "weight_global_scale" that divides, or ModelOpt's "weight" with a "weight_scale_2" that
/// multiplies.
MadeMatrix read_nvfp4(const MatrixParts& parts, int rows, int cols);

/// bitsandbytes' nf4 and fp4: "weight" [rows * cols / 2, 1] bytes whose high nibbles come first,
/// codes of the table "weight.quant_map"; "weight.absmax" scales each block of the values in their
/// order, or is itself of codes, a table and scales ("weight.nested_..."). Sizes of blocks and the
/// type that products are rounded to stand in the JSON of "weight.quant_state.bitsandbytes__nf4".
MadeMatrix read_table_codes(const MatrixParts& parts, int rows, int cols);
/// bitsandbytes' LLM.int8(): "weight" [rows, cols] of i8, and in "SCB" what 127 stands for in each
/// output.
MadeMatrix read_scaled_bytes(const MatrixParts& parts, int rows, int cols);

}  // namespace talon
