#pragma once

#include <torch/types.h>

#include <optional>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "model/config/config.h"
#include "model/config/quantization.h"
#include "model/config/tensor_names.h"

namespace talon {

/// Tensors of a target's files as float32, put together where they are stored in parts and times
/// the factors beside them. Borrows the checkpoint.
class TargetTensors {
 public:
  explicit TargetTensors(const Checkpoint& target);
  /// Nothing where there is none of that name and shape.
  std::optional<torch::Tensor> find(const std::string& name,
                                    const std::vector<std::int64_t>& shape) const;
  /// Throws Error naming the tensor where find() has nothing.
  torch::Tensor require(const std::string& name, const std::vector<std::int64_t>& shape) const;

 private:
  const Checkpoint& target_;
  std::optional<Quantization> quantization_;  // of a folder that says so
};

/// What a head's layer can take over of one of its target's layers. Borrows all.
class TargetLayer {
 public:
  struct Attention {
    torch::Tensor q, kv;  // [rows of heads, hidden], half-split rotary rows
    torch::Tensor o;      // [hidden, heads * head_dim]
  };
  struct Mlp {
    torch::Tensor gate, up;  // [neurons, hidden]
    torch::Tensor down;      // [hidden, neurons]
  };

  TargetLayer(const TargetTensors& tensors, const TensorNames& names, const ModelConfig& config,
              int layer);
  /// Nothing where it is not like a head's: of other sizes, with gates, latents or a state.
  std::optional<Attention> attention() const;
  /// The strongest of its neurons, so many, times their factors. Nothing where there are fewer, as
  /// in layers of experts, or none with gates.
  std::optional<Mlp> mlp(std::int64_t neurons) const;
  /// Ones where the layer has none.
  torch::Tensor attention_norm() const { return norm(layer_tensor(names_.attention_norm, layer_)); }
  torch::Tensor ffn_norm() const { return norm(names_.ffn_norm_of(layer_)); }
  torch::Tensor final_norm() const { return norm(names_.final_norm + ".weight"); }

 private:
  torch::Tensor norm(const std::string& name) const;
  std::optional<torch::Tensor> matrix(std::string_view name, std::int64_t rows,
                                      std::int64_t cols) const;
  std::optional<torch::Tensor> heads_of(std::string_view name, std::int64_t first_head,
                                        std::int64_t heads) const;
  torch::Tensor half_split(const torch::Tensor& stored, std::int64_t heads) const;

  const TargetTensors& tensors_;
  const TensorNames& names_;
  const ModelConfig& config_;
  const LayerPlan& plan_;
  int layer_;
};

}  // namespace talon
