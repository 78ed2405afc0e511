#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint.h"
#include "model/config/quantization.h"

namespace talon {

/// A matrix put together from the tensors of a quantised folder, [rows, cols]: q4_0 or q8_0 where
/// that changes no value, else f32.
struct MadeMatrix {
  StorageType type = StorageType::f32;
  std::vector<std::byte> bytes;
};

/// Nothing where the folder holds `name` (ending in ".weight") as plain numbers. Throws Error
/// naming a tensor of another type or shape, or with a scale that is not finite.
std::optional<MadeMatrix> make_quantized(const Checkpoint& folder, const Quantization& quantization,
                                         const std::string& name, int rows, int cols);

/// The "NAME.scale" that the matrix "NAME.weight" of a GGUF file is to be multiplied by: one value,
/// or one for each matrix of a stack. Null: there is none. Gemma 4 calls vectors of its own so.
const StoredTensor* factor_beside(const Checkpoint& file, std::string_view name);

}  // namespace talon
