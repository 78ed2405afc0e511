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

// Functions over rows of pictures [pictures * rows, width].

/// Attention in which a row sees those before it and itself. qkv: queries, keys and values side by
/// side, [pictures * rows, 3 * heads * head_dim]; queries and keys are turned by the angles of
/// their row, pairs (i, i + head_dim / 2): cosine and sine [rows, head_dim / 2], float (double for
/// double). [pictures * rows, heads * head_dim] in the type of qkv.
torch::Tensor attend_pictures(const torch::Tensor& qkv, const torch::Tensor& cosine,
                              const torch::Tensor& sine, std::int64_t head_dim);

/// x (float or double) with a share of its numbers left out, the others scaled so that the mean
/// stays. Which ones depends on the seed alone.
torch::Tensor drop(const torch::Tensor& x, double share, std::uint64_t seed);

}  // namespace talon
