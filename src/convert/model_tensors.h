#pragma once

#include <functional>
#include <string>

#include "convert/gguf_keys.h"
#include "convert/gguf_tensor.h"
#include "io/checkpoint.h"
#include "model/config/config.h"
#include "model/load/load_layer.h"
#include "model/load/prediction_layer.h"

namespace talon {

/// A model of another format, as the keys and tensors of a GGUF.
class ModelTensors {
 public:
  using Visit = std::function<void(const GgufTensor&)>;

  /// Throws Error, naming it, for what GGUF cannot say of the model.
  explicit ModelTensors(const Checkpoint& model);

  const std::string& architecture() const { return architecture_; }
  const ModelConfig& config() const { return config_; }
  const GgufMetadata& keys() const { return keys_; }
  /// Whether the model has a prediction layer that files of the architecture have no place for.
  bool leaves_prediction_out() const { return leaves_prediction_out_; }

  /// Shows every tensor in the order of the file; what a tensor borrows lives for the call. Each
  /// time in the same order, and alike.
  void for_each(const Visit& visit) const;

 private:
  ModelConfig read_target(const std::string& doing) const;
  Checkpoint outline() const;
  void show_tables(TensorLoader& tensors, LayerLoader& layers, Backend& backend,
                   const Visit& visit) const;
  void show_layer(int layer, TensorLoader& tensors, LayerLoader& layers, Backend& backend,
                  const Visit& visit) const;
  void show_prediction(TensorLoader& tensors, Backend& backend, const Visit& visit) const;

  const Checkpoint& model_;
  ModelConfig config_;                         // as the model's files say it
  std::string architecture_;                   // of the GGUF
  ModelConfig said_;                           // what its keys are to say
  std::optional<PredictionLayer> prediction_;  // that the GGUF gets
  bool leaves_prediction_out_ = false;
  GgufMetadata keys_;
  std::vector<GgufVector> vectors_;
  ModelConfig target_;  // as the GGUF says it
  TensorNames names_;   // of the GGUF
};

}  // namespace talon
