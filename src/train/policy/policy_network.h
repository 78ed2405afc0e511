#pragma once

#include <torch/types.h>

#include <vector>

#include "train/head/math/parameters.h"

namespace talon {

// The networks of LengthPredictor and RadarNetwork (src/tree/policies), differentiable. Parameters
// have the names of the files' tensors.

struct LengthShape {
  std::int64_t inputs = 0, width = 0, outputs = 0;
};
std::vector<ParameterStore::Shape> parameter_shapes(const LengthShape& shape);
/// x: [rows, inputs]; [rows, outputs].
torch::Tensor predict_length(const ParameterStore& parameters, const torch::Tensor& x);

std::vector<ParameterStore::Shape> radar_parameter_shapes(std::int64_t width);
/// states: [rows, steps, 10]. The log of the odds of stopping after each, [rows, steps]. dropout:
/// share of the middle layer that is dropped, 0 but in training.
torch::Tensor radar_stop_logit(const ParameterStore& parameters, const torch::Tensor& states,
                               double dropout);

/// Uniform in +-1 / sqrt(inputs), as PyTorch's layers begin; biases likewise. The generator is
/// torch's own.
void set_random_values(ParameterStore& parameters);

}  // namespace talon
