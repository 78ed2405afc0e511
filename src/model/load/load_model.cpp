#include "model/load/load_model.h"

#include <algorithm>

#include "core/error.h"
#include "core/machine/available_memory.h"
#include "model/load/load_layer.h"
#include "model/load/load_pictures.h"
#include "model/load/needed_memory.h"
#include "model/model.h"
#include "model/rope.h"

namespace talon {
namespace {

/// Of a model that does not fit the system would end this process while it is loaded.
void require_room(const Checkpoint& checkpoint, const Backend& backend, const ModelConfig& config,
                  WeightLayout layout) {
  if (backend.traits().memory_bytes > 0) return;
  require_available(least_weight_bytes(checkpoint, config, layout),
                    fmt::format("load {}: weights", checkpoint.path.string()));
}

}  // namespace

Model load_model(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options) {
  require_room(checkpoint, backend, read_model_config(checkpoint), options.layout);
  TensorLoader tensors(checkpoint, backend, options);
  return load_by(tensors, backend, options.context);
}

Model load_by(TensorLoader& tensors, Backend& backend, int context) {
  const Checkpoint& checkpoint = tensors.checkpoint();
  Model model;
  model.backend = &backend;
  model.source = checkpoint.path;
  model.config = read_model_config(checkpoint);
  ModelConfig& config = model.config;
  if (context > 0) config.context = std::min(config.context, context);
  choose_divisors(config.rope, config.context);
  LayerLoader layers(tensors, config);
  const TensorNames& names = layers.names();
  if (config.image) {
    load_picture_tables(tensors, names, model);
  } else {
    model.embedding = tensors.matrix(names.embedding, config.vocabulary, config.hidden);
    if (!config.tied_output) {
      tensors.forget_weight_bytes(0);  // one row of the table is read, not all of it
      model.output = tensors.matrix(names.output, config.vocabulary, config.hidden);
    }
    if (config.output_matrix_bias) {
      model.output_bias = tensors.vector(names.output_bias(), config.vocabulary);
    }
  }
  if (config.per_layer_input > 0) {
    const int width = config.layers * config.per_layer_input;
    const std::size_t read = tensors.weight_bytes();
    model.layer_embedding = tensors.matrix(names.layer_embedding, config.vocabulary, width);
    tensors.forget_weight_bytes(read);
    model.layer_projection = tensors.matrix(names.layer_projection, width, config.hidden);
    model.layer_projection_norm =
        tensors.vector(names.layer_projection_norm, config.per_layer_input);
  }
  model.final_norm = layers.norm(names.final_norm + ".weight", config.hidden);
  if (config.final_norm_bias) {
    model.final_norm_bias = tensors.vector(names.final_norm + ".bias", config.hidden);
  }
  for (int layer = 0; layer < config.layers; ++layer) model.layers.push_back(layers.load(layer));
  layers.expect_no_others();
  model.weight_bytes = tensors.weight_bytes();
  tensors.report_end();
  checkpoint.check_whole();
  return model;
}

}  // namespace talon
