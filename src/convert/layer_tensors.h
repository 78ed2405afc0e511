#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "convert/gguf_tensor.h"
#include "model/block.h"
#include "model/config/tensor_names.h"
#include "model/load/tensor_loader.h"

namespace talon {

/// What was loaded, as tensors of a GGUF: the inverse of LayerLoader for the configuration that is
/// read from that GGUF. Owns the values of vectors; borrows matrices from what was loaded.
class LayerTensors {
 public:
  /// `target`: the configuration as the GGUF says it. REQUIRES: all outlive this, and what was
  /// loaded lies in a keeping backend's memory.
  LayerTensors(Backend& backend, const ModelConfig& target, const TensorNames& names);

  /// factors: of matrices, which the file holds multiplied by them.
  void add_layer(int layer, const LayerWeights& weights, const MatrixFactors& factors = {});
  void add_matrix(std::string name, const Weight* weight, float factor = 1);
  /// None where the buffer is empty.
  void add_vector(std::string name, const Buffer& buffer);
  void add_values(std::string name, std::vector<std::int64_t> shape, std::span<const float> values);

  const std::vector<GgufTensor>& tensors() const { return tensors_; }

 private:
  struct Row;  // of the tables
  using Order = std::vector<std::int32_t>;

  const KeptWeight* keep(const Buffer& buffer);
  void add(std::string name, std::vector<std::int64_t> shape, std::vector<GgufTensor::Part> parts);
  /// Rows of several matrices, which follow each other in one.
  void add_joined(std::string name, std::vector<GgufTensor::Part> parts);
  void add_stack(std::string name, std::vector<const Weight*> weights);

  void add_projections(int layer, const LayerPlan& plan, const LayerWeights& weights);
  void add_layer_norms_of_heads(int layer, const LayerPlan& plan, const LayerWeights& weights);
  void add_gated_queries(int layer, const LayerPlan& plan, const LayerWeights& weights);
  void add_fused_projections(int layer, const LayerPlan& plan, const LayerWeights& weights);
  void add_feed_forward(int layer, const LayerPlan& plan, const LayerWeights& weights);
  void add_experts(int layer, const LayerPlan& plan, const ExpertLayerWeights& weights);
  void add_expert_matrices(int layer, const LayerPlan& plan, const ExpertLayerWeights& weights);
  void add_latents(int layer, const LayerPlan& plan, const LatentWeights& weights);
  void add_recurrent(int layer, const LayerPlan& plan, const LayerWeights& weights);
  void add_mamba(int layer, const RecurrentPlan& plan, const RecurrentWeights& weights);
  void add_convolution(int layer, const RecurrentPlan& plan, const RecurrentWeights& weights);
  void add_state_gates(int layer, const RecurrentPlan& plan, const RecurrentWeights& weights);
  void add_state_vectors(int layer, const RecurrentPlan& plan, const RecurrentWeights& weights);
  void add_filter(int layer, const RecurrentPlan& plan, const RecurrentWeights& weights);
  /// Rows of a head of so many, `rotary` of which turn, in the order of the file.
  Order head_order(int heads, int head_dim, const LayerPlan& plan) const;

  Backend& backend_;
  const ModelConfig& target_;
  const TensorNames& names_;
  MatrixFactors factors_;  // of the layer
  std::deque<std::unique_ptr<KeptWeight>> vectors_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace talon
