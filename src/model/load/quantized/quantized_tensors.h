#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint.h"
#include "model/config/quantization.h"

namespace talon {

/// A matrix put together from the tensors of a quantised folder, [rows, cols]: q4_0, q8_0, q4_1,
/// q5_1, mxfp4, nvfp4 or, of small floats, bf16 where that changes no value, else f32; bf16 or f16
/// where the format rounds its values to that.
struct MadeMatrix {
  StorageType type = StorageType::f32;
  std::vector<std::byte> bytes;
};

/// One matrix of a stack [count, rows, cols], as it is stored.
struct StackedMatrix {
  int count = 0;  // of matrices; 0: no stack but one matrix
  int index = 0;
  int rows = 0, cols = 0;
  bool inputs_first = false;  // a row holds what one input gives to each output
};

/// Nothing where the folder holds `name` (ending in ".weight") as plain numbers. Throws Error
/// naming a tensor of another type or shape, or with a scale that is not finite.
std::optional<MadeMatrix> make_quantized(const Checkpoint& folder, const Quantization& quantization,
                                         const std::string& name, int rows, int cols);

/// The same of a matrix of the stack `name`, [rows, cols] as it is stored. Stacks are read in MLX's
/// groups, and in fp8, with scales in a tensor whose name begins with theirs: for each block or
/// output of a matrix, for each matrix, or one for all.
std::optional<MadeMatrix> make_quantized_of_stack(const Checkpoint& folder,
                                                  const Quantization& quantization,
                                                  const std::string& name,
                                                  const StackedMatrix& place);

/// The "NAME.scale" that the matrix "NAME.weight" of a GGUF file is to be multiplied by: one value,
/// or one for each matrix of a stack. Null: there is none. Gemma 4 calls vectors of its own so.
const StoredTensor* factor_beside(const Checkpoint& file, std::string_view name);

}  // namespace talon
