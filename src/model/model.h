#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "io/checkpoint.h"
#include "model/block.h"
#include "model/config/config.h"

namespace talon {

/// All weights of a target on one backend. Immutable after load.
struct Model {
  ModelConfig config;
  Backend* backend = nullptr;  // borrowed; outlives the model
  std::unique_ptr<Weight> embedding;
  std::unique_ptr<Weight> output;  // null: tied, the embedding serves
  // Janus: a layer with gelu before the output matrix, and the biases of both; Phi 2: that of the
  // output matrix. Empty: none.
  std::unique_ptr<Weight> output_inner;
  Buffer output_inner_bias, output_bias;
  std::unique_ptr<Weight> caption_in, caption_out;            // of features of captions, or empty
  Buffer final_norm, final_norm_bias;                         // bias empty: none
  std::unique_ptr<Weight> layer_embedding, layer_projection;  // Gemma's per-layer embeddings
  Buffer layer_projection_norm;
  std::vector<LayerWeights> layers;
  std::filesystem::path source;  // the file or folder it was loaded from
  std::size_t weight_bytes =
      0;  // read by one forward of one row: all but the embedding table, unless tied

  const Weight& output_weight() const { return output ? *output : *embedding; }
};

struct LoadOptions {
  WeightLayout layout = WeightLayout::as_stored;
  int context = 0;  // use fewer positions than the model allows; 0: all
  std::function<void(std::size_t done, std::size_t total)> progress;  // tensors; may be empty
};

/// What stands for the tokens of a prompt that is a caption: two matrices with gelu between, of
/// features [rows, width]. The result is [rows, hidden]. REQUIRES: a model of captions.
std::vector<float> project_caption(const Model& model, std::span<const float> features, int rows);

/// Loads every tensor that the configuration calls for. Throws Error naming the tensor for a
/// missing one, a wrong shape, or a value that is not finite, and before for a model of texts that
/// is larger than the memory that this process can get.
Model load_model(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options = {});

}  // namespace talon
