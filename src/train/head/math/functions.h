#pragma once

#include <torch/types.h>

#include <vector>

namespace talon {

/// A trained tensor: `value` is what the optimiser changes (float32, or double in tests), `low` the
/// same in the type that matrix products use. Both are views into ParameterStore's memory.
struct Parameter {
  torch::Tensor value;
  torch::Tensor low;
};

// Differentiable functions with hand-written gradients: each saves only what its gradient needs,
// which is what makes training memory-bound no longer. x and results are [rows, width]; results
// have the type of `low` tensors unless said otherwise.

/// x @ weight^T. x has the type of weight.low.
torch::Tensor linear(const torch::Tensor& x, const Parameter& weight);

/// x / rms(x) * weight, in `type`. x: the type of weight.value. Norm weights are never rounded.
torch::Tensor rms_norm(const torch::Tensor& x, const Parameter& weight, double epsilon,
                       torch::ScalarType type);

/// silu(left half) * right half of the columns.
torch::Tensor silu_gate(const torch::Tensor& gate_up);

/// Rotates pairs (i, i + d/2) of each head of x [rows, heads * d] by the angles of its row. cosine,
/// sine: [rows, d / 2] of x's type.
torch::Tensor rotate(const torch::Tensor& x, const torch::Tensor& cosine,
                     const torch::Tensor& sine);

/// Where the rows of one sequence lie in a packed batch.
struct SequenceRange {
  std::int64_t key_begin = 0, key_count = 0;      // pairs of the first unrolled step
  std::int64_t query_begin = 0, query_count = 0;  // the response rows, the last query_count keys
};

/// Attention of training-time test (EAGLE-3, arXiv:2503.01840; docs/methods.md 7.2): query r
/// of a sequence sees the keys of the first step up to its own pair, and of each later step only
/// the key at its own index. q: [queries, heads * d]; k, v: [keys, kv_heads * d]; later_k, later_v:
/// [later steps, queries, kv_heads * d].
struct AttentionInput {
  torch::Tensor q, k, v, later_k, later_v;
};
torch::Tensor attend(const AttentionInput& input, const std::vector<SequenceRange>& sequences,
                     int head_dim);

/// What a loss wants the head to predict for each row: `mass` [rows] is the sum over tokens of the
/// wanted weights, `output` [rows, hidden] the weighted sum of the tokens' output rows. A
/// distribution has mass 1; weights of several losses simply add up.
struct WantedTokens {
  torch::Tensor mass, output;
};

/// Soft cross-entropy (docs/methods.md 7.1 to 7.3): the sum over rows of weight * -sum_token
/// wanted(token) * log q(token), q = softmax(h @ rows^T), for frozen output rows [tokens, hidden].
/// Forms its gradient q - p in the forward pass. row_weight: [rows].
torch::Tensor soft_cross_entropy(const torch::Tensor& h, const torch::Tensor& output_rows,
                                 const WantedTokens& wanted, const torch::Tensor& row_weight);

/// Sum over rows of weight * -log sum_token min(p, q): the likelihood that speculative sampling
/// accepts (SpecForge's LK loss; docs/methods.md 7.4). p: [rows, tokens].
torch::Tensor acceptance_loss(const torch::Tensor& h, const torch::Tensor& output_rows,
                              const torch::Tensor& p, const torch::Tensor& row_weight);

/// Sum over rows of weight * the total variation of p and q, 1 - sum_token min(p, q). p: [rows,
/// tokens].
torch::Tensor variation_loss(const torch::Tensor& h, const torch::Tensor& output_rows,
                             const torch::Tensor& p, const torch::Tensor& row_weight);

/// How coupled drafts weigh the head's logits z against the noise T * G that their tokens are drawn
/// with (arXiv:2408.07978): scores are gain * z + T * G, chances the softmax of sharpness * scores.
struct CouplingWeights {
  double gain = 1.25;
  double sharpness = 0.9;
};

/// Sum over rows of weight * -log of the chance that a coupled draft gives to `winner` [rows], the
/// token that the target draws with the noise T * G of the row, `noise` [rows, tokens].
torch::Tensor coupled_loss(const torch::Tensor& h, const torch::Tensor& output_rows,
                           const torch::Tensor& noise, const torch::Tensor& winner,
                           const CouplingWeights& weights, const torch::Tensor& row_weight);

/// Sum over rows of weight * the mean over columns of smooth-L1(a - b) with beta 1 (EAGLE-1).
torch::Tensor smooth_l1(const torch::Tensor& a, const torch::Tensor& b,
                        const torch::Tensor& row_weight);

}  // namespace talon
