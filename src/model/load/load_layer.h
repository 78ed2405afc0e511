#pragma once

#include <optional>
#include <string_view>

#include "model/config/tensor_names.h"
#include "model/load/tensor_loader.h"

namespace talon {

/// The number of the layer whose tensor it is; none: of no layer.
std::optional<int> layer_of(std::string_view tensor, const TensorNames& names);
/// Whether a tensor of a layer need not be read: layers that read the keys and values of another
/// one hold weights for their own all the same, and older files of latents the matrix that the two
/// others were made of.
bool is_passed_over(std::string_view tensor, int layer, const TensorNames& names,
                    const ModelConfig& config);

/// The numbers of a layer's xIELU as files hold them: of Xielu, `positive` and what `negative` is
/// more than `beta` come behind a softplus.
struct StoredXielu {
  static constexpr double kLargest = 1e6;  // of GGUF files
  float alpha_p = 0, alpha_n = 0;
  float beta = 0.5F, epsilon = -1e-6F;
};

/// Loads the weights of one layer after the other as the plans call for them.
class LayerLoader {
 public:
  LayerLoader(TensorLoader& tensors, const ModelConfig& config);
  const TensorNames& names() const { return names_; }

  LayerWeights load(int layer);
  /// A norm's weights, with 1 added where the family's files lack it.
  Buffer norm(const std::string& name, int size);
  /// Of a layer whose activation that is.
  StoredXielu stored_xielu(int layer);
  /// For whoever has loaded all layers and what belongs to none. Throws Error naming a tensor of
  /// the text that nobody asked for: without it the text would be another, and nobody would know.
  void expect_no_others() const;

 private:
  void load_layer_input(int layer, const LayerPlan& plan, LayerWeights& weights);
  void load_latents(int layer, const LayerPlan& plan, LayerWeights& weights);
  void load_latent_ups(int layer, const LayerPlan& plan, LatentWeights& weights);
  void load_recurrent(int layer, const LayerPlan& plan, LayerWeights& weights);
  void load_recurrent_inputs(int layer, const RecurrentPlan& plan, RecurrentWeights& weights);
  void load_mamba_inputs(int layer, const RecurrentPlan& plan, RecurrentWeights& weights);
  void load_convolution(int layer, const RecurrentPlan& plan, LayerWeights& weights);
  void load_filter(int layer, const RecurrentPlan& plan, RecurrentWeights& weights);
  /// A number for each value head. name: whole.
  std::vector<float> values_of_value_heads(const std::string& name, const RecurrentPlan& plan);
  void load_attention(int layer, const LayerPlan& plan, LayerWeights& weights);
  /// Whether one matrix holds the layer's queries, keys and values.
  bool is_fused(int layer) const;
  void load_projections(int layer, const LayerPlan& plan, LayerWeights& weights);
  void load_head_norms(int layer, const LayerPlan& plan, LayerWeights& weights);
  void load_layer_norms_of_heads(int layer, const LayerPlan& plan, LayerWeights& weights);
  void load_feed_forward(int layer, const LayerPlan& plan, LayerWeights& weights);
  Buffer ones(int size);

  TensorLoader& tensors_;
  const ModelConfig& config_;
  TensorNames names_;
};

}  // namespace talon
