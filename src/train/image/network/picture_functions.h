#pragma once

#include <torch/types.h>

#include "train/head/math/functions.h"

namespace talon {

// Differentiable functions over pictures [batch, channels, height, width], beside those of
// train/head/math. x and results have the type of `low` tensors.

/// A convolution with a bias; the kernel's side is that of its weight [out, in, side, side].
torch::Tensor convolve(const torch::Tensor& x, const Parameter& weight, const Parameter& bias,
                       std::int64_t stride, std::int64_t padding);

/// Group normalisation with an affine map, and silu of it if wanted.
struct GroupNorm {
  const Parameter& weight;
  const Parameter& bias;
  std::int64_t groups = 32;
  double epsilon = 1e-6;
  bool silu = true;
};
torch::Tensor group_norm(const torch::Tensor& x, const GroupNorm& norm);

/// Each cell becomes two by two.
torch::Tensor double_size(const torch::Tensor& x);

}  // namespace talon
