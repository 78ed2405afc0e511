#pragma once

#include <optional>
#include <string>

#include "io/checkpoint.h"
#include "model/config/config.h"

namespace talon {

/// Where a file holds the prediction layer that a model was trained with (docs/methods.md 2.5).
struct PredictionLayer {
  std::string fc, embedding_norm, feature_norm, output_norm;  // whole names
  // Copies of the target's tables, which files may have.
  std::string embedding, output;
  std::string prefix;  // of the layer's other tensors, TensorForms::prefix; of folders alone
  int layer = 0;
  std::string ffn_norm = {};  // TensorForms::ffn_norm
  bool fused_qkv = false;     // TensorForms::fused_qkv
};

/// Nothing where the file has none, or one that is not read.
std::optional<PredictionLayer> find_prediction_layer(const Checkpoint& file,
                                                     const ModelConfig& target);
/// The names of a GGUF, whether it has one or not.
PredictionLayer gguf_prediction_layer(const ModelConfig& target);

/// Why the drafter `mtp` cannot draft for the target with the layer in `file`, beside its other
/// tensors or alone; empty: it can.
std::string prediction_problem(const Checkpoint& file, const ModelConfig& target);
/// A GGUF with prediction layers and none of the model's own, as llama.cpp's converter writes
/// mtp-NAME.gguf; it may hold copies of the model's tables.
bool is_prediction_layer_alone(const Checkpoint& file);

/// The target with the layer in its place: one like the target's last layer with attention, MiMo's
/// with a window and without experts.
ModelConfig prediction_config(const ModelConfig& target, const PredictionLayer& place);

}  // namespace talon
