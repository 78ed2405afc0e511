#pragma once

#include "model/config/tensor_names.h"
#include "model/load/tensor_loader.h"

namespace talon {

/// Loads the experts of one layer after the other, whichever way the file holds them: each by
/// itself, stacked, gate and up in one matrix, inputs first, in fp8, or in MXFP4 blocks.
class ExpertLoader {
 public:
  ExpertLoader(TensorLoader& tensors, const ModelConfig& config, const TensorNames& names);

  ExpertLayerWeights load(int layer, const LayerPlan& plan);

 private:
  struct Part;  // gate, up or down of a layer
  void load_router(int layer, const LayerPlan& plan, ExpertLayerWeights& weights);
  void load_biases(int layer, const LayerPlan& plan, ExpertLayerWeights& weights);
  void load_shared(int layer, const LayerPlan& plan, ExpertLayerWeights& weights);
  void load_norms(int layer, ExpertLayerWeights& weights);
  std::unique_ptr<Weight> load_part(const Part& part, int expert);
  std::unique_ptr<Weight> load_inputs_first(const Part& part, const std::string& name, int expert);
  std::unique_ptr<Weight> load_mxfp4(const Part& part, const std::string& name, int expert);

  TensorLoader& tensors_;
  const ModelConfig& config_;
  const TensorNames& names_;
  bool gguf_;
};

}  // namespace talon
