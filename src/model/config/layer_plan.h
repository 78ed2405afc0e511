#pragma once

#include "backend/arguments.h"

namespace talon {

/// The experts of a layer and how its router chooses among them.
struct ExpertPlan {
  int count = 0;  // 0: the layer has none
  int used = 0;   // by a row
  int width = 0;  // of an expert
  RouteArgs::Score score = RouteArgs::Score::softmax;
  float jitter = 0;  // of near_best
  bool renormalize = false;
  float scale = 1;
  int groups = 1, groups_used = 1;
  bool group_by_two = false;
  bool weigh_input = false;
  bool choice_bias = false;   // added to the scores for the choice alone
  bool biases = false;        // of router and experts
  int shared_width = 0;       // of the expert that every row goes to; 0: none
  bool shared_gate = false;   // which a sigmoid of its own weighs
  bool beside_dense = false;  // Gemma 4: the layer has a dense network, too, each with its norms
};

/// Attention over latents (DeepSeek): keys and values of all heads are read from one row of
/// `kv_rank` values and `head_dim - kv_rank` rotated ones, the cache's only key head.
struct LatentPlan {
  int kv_rank = 0;     // 0: ordinary attention
  int q_rank = 0;      // 0: queries come from the input itself
  int plain_dim = 0;   // of a head's query, not rotated
  int rotary_dim = 0;  // of a head's query, rotated
  int output_dim = 0;  // of a head's value
};

/// The state of a layer, which it keeps beside or instead of keys and values (RecurrentArgs).
struct RecurrentPlan {
  int key_heads = 0, value_heads = 0;  // value_heads 0: the layer has none
  int key_dim = 0, value_dim = 0;
  int kernel = 0;
  StateRule rule = StateRule::gated_delta;
  bool tiled_heads = false;  // RecurrentArgs::tiled_heads
  bool filter_bias = false;
  bool norm = true;  // of the result
  StepLimits steps = {};
  int layer = 0;  // among those with a state

  /// A slot of one layer.
  StateShape shape() const {
    return {1, 1, key_heads, value_heads, key_dim, value_dim, kernel, rule};
  }
  int width() const { return shape().values(); }
  int channels() const { return shape().channels(); }
};

/// What matrices are to be multiplied by where files keep it apart from them (Falcon-H1).
struct MatrixFactors {
  float q = 1, k = 1, v = 1, o = 1;
  float gate = 1, down = 1;  // of a network with a gate
  // Of Mamba-2: parts of what reads its input, and its output.
  float state_gate = 1, state_value = 1, state_key = 1, state_query = 1, state_decay = 1;
  float state_o = 1;
  bool operator==(const MatrixFactors&) const = default;
};

/// What one transformer block is beside its weights. docs/models.md tells which family is which.
struct LayerPlan {
  enum class Rope { none, global, local };
  enum class Norm { rms, layer };
  /// RMSNorm of queries and keys: of each head or of all of a row, before the rotation or after it;
  /// or LayerNorm of each head, with weights of its own.
  enum class HeadNorm { none, per_head, per_row, after_rope, layer_per_head };

  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;      // of queries and keys
  int intermediate = 0;  // of the dense network; 0: none
  float norm_epsilon = 0;
  int window = 0;      // of attention; 0: all positions
  bool rough = false;  // LinearArgs::rough
  int value_dim = 0;   // 0: head_dim
  float value_scale = 1;
  int chunk = 0;  // AttentionArgs::chunk
  Rope rope = Rope::global;
  float score_scale = 0;        // 0: 1 / sqrt(head_dim)
  float soft_cap = 0;           // of scores; 0: none
  bool scales_queries = false;  // by their positions
  bool sinks = false;
  Norm norm = Norm::rms;
  bool norm_bias = false;
  bool pre_norms = true, post_norms = false;
  HeadNorm head_norm = HeadNorm::none;
  bool head_norm_weights = false;  // those after the rotation have weights, else they are ones
  bool head_norm_bias = false;     // of LayerNorms of heads
  bool value_norm = false;
  bool keys_are_values = false;  // values are the keys before their norm and rotation
  bool qkv_bias = false, output_bias = false, mlp_bias = false;
  bool parallel = false;  // both halves of the block read the same input
  InputTransform activation = InputTransform::silu_gate;
  float residual_scale = 1;   // of both halves' outputs
  int cache_layer = 0;        // of the cache, which it reads
  bool writes_cache = true;   // else an earlier layer has written it
  int per_layer_input = 0;    // columns of Gemma's per-layer embeddings; 0: none
  bool output_scale = false;  // the layer's result has a learned factor
  bool output_gate = false;   // a sigmoid of the query's input weighs what attention gives
  ExpertPlan experts = {};
  LatentPlan latent = {};
  RecurrentPlan recurrent = {};
  bool attends = true;  // also beside a state, where it has one
  MatrixFactors factors = {};

  bool has_network() const { return intermediate > 0 || experts.count > 0; }
  /// Whether rows learn of others.
  bool mixes() const { return attends || recurrent.value_heads > 0; }
  int values() const { return value_dim > 0 ? value_dim : head_dim; }
};

}  // namespace talon
