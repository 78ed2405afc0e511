#pragma once

#include <vector>

#include "train/head/head_model.h"

namespace talon {

/// Parameters of a head of several layers: those of layer i are called `i.q` and so on. `dflash`:
/// fc, norms and all layers. `peagle`: layers behind the first, and the features of masks
/// (docs/methods.md 2.6). `draft`: all layers and the last norm.
std::vector<ParameterStore::Shape> layered_parameter_shapes(const HeadShape& shape);

/// The forward pass of heads of several layers. Of block drafters: of each place, what is guessed
/// there behind each query of a batch with anchors, [queries, hidden]; of a draft model: what its
/// last norm reads at each query, one place. tap_factor: [taps * hidden], of block drafters.
/// Borrows all.
class LayeredModel {
 public:
  LayeredModel(const HeadShape& shape, const ParameterStore& parameters, const TargetTables& target,
               torch::Tensor tap_factor);
  std::vector<torch::Tensor> forward(const Batch& batch, int places) const;

 private:
  struct Rows {
    torch::Tensor x;         // the residual stream, wide
    torch::Tensor position;  // [rows]
  };
  std::vector<torch::Tensor> dflash(const Batch& batch, int places) const;
  std::vector<torch::Tensor> peagle(const Batch& batch, int places) const;
  torch::Tensor draft(const Batch& batch) const;
  torch::Tensor norm(const torch::Tensor& x, const std::string& name) const;
  /// Norm of each head where the head has one, then the rotation.
  torch::Tensor placed(const torch::Tensor& x, const std::string& head_norm,
                       const torch::Tensor& position) const;
  torch::Tensor add_halves(const torch::Tensor& x, const torch::Tensor& attended,
                           const std::string& layer) const;

  const HeadShape& shape_;
  const ParameterStore& p_;
  const TargetTables& target_;
  torch::Tensor tap_factor_;
  torch::ScalarType low_;
};

}  // namespace talon
