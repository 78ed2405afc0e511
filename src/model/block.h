#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"
#include "model/config/layer_plan.h"

namespace talon {

/// Weights of one transformer block.
struct LayerWeights {
  Buffer attention_norm, ffn_norm;            // [1, hidden]; empty: none
  Buffer attention_norm_bias, ffn_norm_bias;  // of a LayerNorm, or empty
  Buffer post_attention_norm, post_ffn_norm;  // of what a half adds, or empty
  std::unique_ptr<Weight> q, k, v, o;         // k and v empty: see LayerPlan
  Buffer q_bias, k_bias, v_bias, o_bias;      // empty: none
  Buffer q_norm, k_norm, v_norm;              // empty: none
  Buffer sinks;                               // [1, heads], or empty
  std::unique_ptr<Weight> gate, up, down;     // gate empty: a network without one
  Buffer gate_bias, up_bias, down_bias;       // empty: none
};

/// What the rows of one call of a block read and write beside the residual stream.
struct BlockRows {
  KvStore* cache = nullptr;
  int layer = 0;  // of the cache
  const PreparedLayout* layout = nullptr;
  View rope;              // empty: nothing turns
  View query_scale = {};  // AttentionArgs::query_scale
};

/// Runs transformer blocks one after the other. Owns the activations between their operations;
/// weights are borrowed for the time of a call.
class BlockRunner {
 public:
  /// Blocks as wide as the widest of `plans`, on at most max_rows rows.
  BlockRunner(Backend& backend, std::span<const LayerPlan> plans, int hidden, int max_rows);

  /// residual += both halves of the block.
  void run(const LayerPlan& plan, const LayerWeights& weights, const BlockRows& rows,
           const View& residual);
  /// residual += o(attention(q, k, v of norm(input))). input may be residual.
  void attend(const LayerPlan& plan, const LayerWeights& weights, const BlockRows& rows,
              const View& input, const View& residual);
  /// residual += down(gate(x)), x = norm(residual).
  void feed_forward(const LayerPlan& plan, const LayerWeights& weights, const View& residual);

 private:
  View attended(const LayerPlan& plan, const LayerWeights& weights, const BlockRows& rows,
                const View& input);
  /// residual += scale * norm(projection of input), with neither where the plan has none.
  void add(const LayerPlan& plan, const LinearArgs& input, const Projection& projection,
           const Buffer& norm, const View& residual);

  Backend& backend_;
  Buffer q_, k_, v_, attended_, gate_up_;  // [max_rows, width]
  Buffer branch_, first_half_;             // [max_rows, hidden], where a plan needs them
};

}  // namespace talon
