#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "io/json.h"
#include "train/head/math/parameters.h"

namespace talon {

/// Sizes of an autoregressive image model in LlamaGen's layout (arXiv:2406.06525), whose prompt is
/// a few rows of a table of words.
struct ImageModelShape {
  int hidden = 256;
  int layers = 8;
  int head_dim = 64;
  int intermediate = 768;
  int codes = 1024;
  int grid = 16;
  int prefix = 6;
  int prompt_rows = 0;  // of the table: words, styles and the null word, which is the last
  double norm_epsilon = 1e-5;
  double rope_base = 10000;

  int heads() const { return hidden / head_dim; }
  int cells() const { return grid * grid; }
  int null_word() const { return prompt_rows - 1; }
  /// Rows of a forward: the last token is not read.
  int rows() const { return prefix + cells() - 1; }
};

/// LlamaGen's: 8/3 of the width, up to a multiple of 256.
int usual_intermediate(int hidden);

std::vector<ParameterStore::Shape> parameter_shapes(const ImageModelShape& shape);
void set_initial_values(ParameterStore& parameters, const ImageModelShape& shape,
                        std::uint64_t seed);

/// Pictures of a step: prompts [batch, prefix] and codes [batch, cells], int64.
struct ImageBatch {
  torch::Tensor prompts, codes;
};

/// The forward pass, differentiable. Rows of the prefix turn by nothing (cosine 1, sine 0), those
/// of cells by row and column.
class ImageModel {
 public:
  /// Borrows the parameters.
  ImageModel(ImageModelShape shape, const ParameterStore& parameters);

  /// The logits of each cell's code, [batch * cells, codes] in the type of the values.
  torch::Tensor forward(const ImageBatch& batch) const;
  /// With a share of the numbers of the embeddings and of each branch left out.
  struct Dropout {
    double share = 0;
    std::uint64_t seed = 0;
  };
  torch::Tensor forward(const ImageBatch& batch, Dropout dropout) const;

 private:
  torch::Tensor layer(int index, const torch::Tensor& x, Dropout dropout) const;

  ImageModelShape shape_;
  const ParameterStore& parameters_;
  torch::Tensor cosine_, sine_;  // [rows, head_dim / 2], float (double in tests)
};

/// What LlamaGen's checkpoints call the table whose rows are a prompt.
inline constexpr const char* kPromptTable = "cls_embedding.embedding_table.weight";

/// The tensors as LlamaGen's checkpoints name and order them: the pairs that turn together lie
/// beside each other.
std::vector<std::pair<std::string, torch::Tensor>> llamagen_tensors(
    const ParameterStore& parameters, const ImageModelShape& shape);

}  // namespace talon
