#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "train/head/batch.h"
#include "train/head/head_kind.h"
#include "train/head/math/parameters.h"

namespace talon {

/// The kind of that name. Throws UsageError.
HeadKind head_kind_of(const std::string& text);
/// Whether it reads streams of several layers, rather than the vector of the output matrix.
bool reads_taps(HeadKind kind);
/// Whether it guesses several places in one pass (layers/anchors.h).
bool guesses_blocks(HeadKind kind);
/// Whether it has as many layers as asked for (layers/layered_model.h).
bool has_layers(HeadKind kind);

/// Sizes of a head. Those of the transformer layer are its target's, but for the MLP, which may
/// have fewer neurons.
struct HeadShape {
  HeadKind kind = HeadKind::eagle3;
  int hidden = 0;
  int intermediate = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int taps = 0;  // of heads that read them
  int medusa_heads = 4;
  int medusa_layers = 1;   // residual blocks of each Medusa head
  int layers = 1;          // of dflash, peagle and draft
  TokenId mask_token = 0;  // of dflash and peagle
  double norm_epsilon = 0;
  bool pairwise = false;  // rows of q and k in its files: pairs that turn lie beside each other
  /// EAGLE-3 and block drafters: taps are divided by these before fc, and its output multiplied by
  /// stream_scale; both are folded into fc when the head is exported (docs/methods.md 7.5).
  std::vector<double> tap_scale;
  double stream_scale = 1;
};

/// The parameters that a head of this shape has. gate and up are one matrix ("gate_up"), so are k
/// and v ("kv").
std::vector<ParameterStore::Shape> parameter_shapes(const HeadShape& shape);

/// What the head reads of its target. All frozen.
struct TargetTables {
  torch::Tensor embedding;     // [vocabulary, hidden], low type, as stored
  torch::Tensor output;        // [vocabulary, hidden], low type, times the target's scale of logits
  torch::Tensor cosine, sine;  // [positions, head_dim / 2], low type
  double logit_cap = 0;        // of the target's logits; 0: none
  double embedding_scale = 1;  // by which the target and heads of its layers multiply embeddings
  torch::Tensor head_output = {};  // output as the head has it: the same, or rounded
};

/// The forward pass of a head over a packed batch, differentiable: docs/methods.md 2.1
/// and 2.2, with training-time test 7.2; Medusa 7.3.
class HeadModel {
 public:
  /// Borrows parameters and tables.
  HeadModel(HeadShape shape, const ParameterStore& parameters, const TargetTables& target);

  /// Of each unrolled step (Medusa: head), the predicted feature of each query, [queries, hidden]
  /// in the type of the values.
  std::vector<torch::Tensor> forward(const Batch& batch, int steps) const;
  /// What the output matrix reads of such a feature, in low_type().
  torch::Tensor output_input(const torch::Tensor& feature) const;
  /// The type of the output matrix's input.
  torch::ScalarType low_type() const { return target_.output.scalar_type(); }

 private:
  struct Fused {
    torch::Tensor input, residual;  // of the layer; both [rows, ...]
  };
  Fused fuse(const torch::Tensor& feature, const torch::Tensor& tokens, bool from_target) const;
  torch::Tensor layer(const torch::Tensor& attended, const torch::Tensor& residual) const;
  torch::Tensor rotated(const torch::Tensor& x, const torch::Tensor& position) const;
  std::vector<torch::Tensor> unroll(const Batch& batch, int steps) const;
  std::vector<torch::Tensor> medusa(const Batch& batch, int steps) const;

  HeadShape shape_;
  const ParameterStore& parameters_;
  const TargetTables& target_;
  torch::Tensor tap_factor_;  // [taps * hidden]
};

}  // namespace talon
