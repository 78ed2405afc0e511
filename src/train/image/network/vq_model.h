#pragma once

#include <torch/types.h>

#include <string>

#include "train/image/network/vq_shape.h"

namespace talon {

/// The two halves of a VQ tokenizer (VQGAN, arXiv:2012.09841, as LlamaGen has it), differentiable.
class VqModel {
 public:
  /// Borrows the parameters.
  VqModel(VqShape shape, const ParameterStore& parameters)
      : shape_(std::move(shape)), parameters_(parameters) {}

  /// pictures [batch, 3, side, side], from -1 to 1 -> unit vectors [batch * cells, code_width] in
  /// float32 (double in tests), cells row by row.
  torch::Tensor encode(const torch::Tensor& pictures) const;
  /// Vectors as of encode() -> pictures of the low type, not clamped.
  torch::Tensor decode(const torch::Tensor& vectors, std::int64_t batch) const;

 private:
  torch::Tensor conv(const std::string& name, const torch::Tensor& x) const;
  torch::Tensor norm(const std::string& name, const torch::Tensor& x, bool silu) const;
  torch::Tensor block(const std::string& name, const torch::Tensor& x) const;
  torch::Tensor attention(const std::string& name, const torch::Tensor& x) const;
  torch::Tensor middle(const std::string& name, torch::Tensor x) const;
  torch::Tensor blocks(const std::string& name, torch::Tensor x, int count, bool attend) const;
  torch::ScalarType low_type() const { return parameters_["quant_conv.weight"].low.scalar_type(); }

  VqShape shape_;
  const ParameterStore& parameters_;
};

/// x divided by the norms of its rows.
torch::Tensor unit_rows(const torch::Tensor& x);

}  // namespace talon
