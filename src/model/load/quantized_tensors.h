#pragma once

#include <optional>
#include <string>
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

}  // namespace talon
