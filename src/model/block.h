#pragma once

#include <memory>

#include "backend/backend.h"

namespace talon {

/// Weights of one transformer block.
struct LayerWeights {
  Buffer attention_norm, ffn_norm;  // [1, hidden]; attention_norm empty: none
  std::unique_ptr<Weight> q, k, v, o;
  Buffer q_bias, k_bias, v_bias, o_bias;  // empty: none
  Buffer q_norm, k_norm;                  // empty: none
  std::unique_ptr<Weight> gate, up, down;
};

/// What a block is beside its weights.
struct BlockPlan {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int intermediate = 0;
  float norm_epsilon = 0;
  int window = 0;      // of attention; 0: all positions
  bool rough = false;  // LinearArgs::rough
};

/// What the rows of one call of a block read and write beside the residual stream.
struct BlockRows {
  KvStore* cache = nullptr;
  int layer = 0;  // of the cache
  const PreparedLayout* layout = nullptr;
  View rope;
};

/// Runs transformer blocks one after the other. Owns the activations between their operations;
/// weights are borrowed for the time of a call.
class BlockRunner {
 public:
  /// Blocks at most as wide as `widest`, on at most max_rows rows.
  BlockRunner(Backend& backend, const BlockPlan& widest, int max_rows);

  /// residual += o(attention(q, k, v of norm(input))). input may be residual.
  void attend(const BlockPlan& plan, const LayerWeights& weights, const BlockRows& rows,
              const View& input, const View& residual);
  /// residual += down(silu(gate x) * up x), x = norm(residual).
  void feed_forward(const BlockPlan& plan, const LayerWeights& weights, const View& residual);

 private:
  Backend& backend_;
  Buffer q_, k_, v_, attended_, gate_up_;  // [max_rows, width]
};

}  // namespace talon
