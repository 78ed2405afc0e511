#pragma once

#include <torch/types.h>

namespace talon {

/// The values of a matrix [rows, columns] as WeightLayout::int4 keeps them: of each 32 of a row
/// sixteen steps from the least to the largest, scale and minimum in f16. The type stays.
torch::Tensor rounded_to_int4(const torch::Tensor& matrix);

}  // namespace talon
