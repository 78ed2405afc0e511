#pragma once

#include <torch/types.h>

#include <string_view>

namespace talon {

/// The type of products for "bf16" or "f32".
inline torch::ScalarType low_type(std::string_view precision) {
  return precision == "f32" ? torch::kFloat : torch::kBFloat16;
}

}  // namespace talon
