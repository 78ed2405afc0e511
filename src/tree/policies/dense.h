#pragma once

#include <span>
#include <string>
#include <vector>

#include "io/checkpoint.h"

namespace talon {

/// out = weight * in + bias, on the processor that asks: for predictors so small that a call of the
/// backend would cost more.
struct Dense {
  int outputs = 0;
  int inputs = 0;
  std::vector<float> weight;  // [outputs, inputs]
  std::vector<float> bias;    // [outputs]

  /// in: [inputs], out: [outputs]; they do not overlap.
  void apply(std::span<const float> in, std::span<float> out) const;
};

/// Reads a matrix and a vector of plain floating-point type. -1: any size. Throws Error naming the
/// file, the tensor, what was expected and what was found.
Dense read_dense(const Checkpoint& file, const std::string& weight, const std::string& bias,
                 int outputs, int inputs);

}  // namespace talon
