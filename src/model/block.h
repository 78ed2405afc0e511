#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "model/config/layer_plan.h"

namespace talon {

/// Weights of a layer's experts.
struct ExpertLayerWeights {
  std::unique_ptr<Weight> router;
  Buffer router_bias, choice_bias, expert_scale;  // empty: none
  std::vector<std::unique_ptr<Weight>> matrices;
  std::vector<ExpertWeights> experts;    // of `matrices`
  Buffer gate_bias, up_bias, down_bias;  // [experts, width], or empty
  // shared_gate empty: its network has none, as those of the experts.
  std::unique_ptr<Weight> shared_gate, shared_up, shared_down, shared_router;
  // Gemma 4, whose layers have a dense network, too: before the experts, before the router, and
  // behind either network.
  Buffer pre_norm, router_norm, dense_post_norm, expert_post_norm;
};

/// Weights of attention over latents, head by head where a list.
struct LatentWeights {
  std::unique_ptr<Weight> q_down, q_plain, latent, rotary_key;
  std::vector<std::unique_ptr<Weight>> q_rotary, key_up, value_up;
  Buffer q_norm, latent_norm;
};

/// Weights of a layer with a state. Empty: its rule has none.
struct RecurrentWeights {
  std::unique_ptr<Weight> inputs, gate, decay, write, o;
  Buffer filter, filter_bias, rate, bias, norm, skip;
};

/// Weights of one transformer block.
struct LayerWeights {
  Buffer attention_norm, ffn_norm;            // [1, hidden]; empty: none
  Buffer attention_norm_bias, ffn_norm_bias;  // of a LayerNorm, or empty
  Buffer post_attention_norm, post_ffn_norm;  // of what a half adds, or empty
  std::unique_ptr<Weight> q, k, v, o;         // k and v empty: see LayerPlan
  Buffer q_bias, k_bias, v_bias, o_bias;      // empty: none
  Buffer q_norm, k_norm, v_norm;              // empty: none
  Buffer q_norm_bias, k_norm_bias;            // of a LayerNorm, or empty
  Buffer sinks;                               // [1, heads], or empty
  std::unique_ptr<Weight> gate, up, down;     // gate empty: a network without one
  Buffer gate_bias, up_bias, down_bias;       // empty: none
  Xielu xielu = {};                           // of that activation
  ExpertLayerWeights experts = {};
  LatentWeights latent = {};
  RecurrentWeights recurrent = {};
  std::unique_ptr<Weight> output_gate;                   // or empty
  std::unique_ptr<Weight> input_gate, input_projection;  // of per-layer embeddings, or empty
  Buffer input_norm;
  float output_scale = 1;
};

/// What the rows of one call of a block read and write beside the residual stream.
struct BlockRows {
  KvStore* cache = nullptr;
  int layer = 0;  // of the cache
  const PreparedLayout* layout = nullptr;
  View rope;                // empty: nothing turns
  View query_scale = {};    // AttentionArgs::query_scale
  View input = {};          // [rows, per_layer_input]: this layer's embeddings, or empty
  Indices first_uses = {};  // of each row, to which experts' layers add theirs; or empty
  // Of a layer with a state: its weights and states, and a place for the inputs of the rows that
  // may be dropped.
  const RecurrentArgs* recurrent = nullptr;
  View flight = {};
  Indices flight_rows = {};
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
  /// residual += down(gate(x)), x = norm(residual). first_uses: BlockRows::first_uses.
  void feed_forward(const LayerPlan& plan, const LayerWeights& weights, const View& residual,
                    const Indices& first_uses = {});

 private:
  void feed_dense(const LayerPlan& plan, const LayerWeights& weights, const View& residual,
                  const View& out);
  void feed_experts(const LayerPlan& plan, const LayerWeights& weights, const View& residual,
                    const Indices& first_uses);
  Indices mix_experts(const LayerPlan& plan, const ExpertLayerWeights& weights, const View& x,
                      const View& scored, const View& out);
  void add_shared_expert(const LayerPlan& plan, const ExpertLayerWeights& weights, const View& x,
                         const View& out);
  void add_layer_input(const LayerPlan& plan, const LayerWeights& weights, const View& input,
                       const View& residual);
  void mix(const LayerPlan& plan, const LayerWeights& weights, const BlockRows& rows,
           const View& residual);
  void scale_columns(const View& x, int first, int count, float factor);
  void attend_state(const LayerPlan& plan, const LayerWeights& weights, const BlockRows& rows,
                    const View& input, const View& residual);
  void allocate_states(std::span<const LayerPlan> plans, int max_rows);
  View attended_latents(const LayerPlan& plan, const LayerWeights& weights, const BlockRows& rows,
                        const View& input);
  void allocate_experts(std::span<const LayerPlan> plans, int hidden, int max_rows);
  void norm_heads(const LayerPlan& plan, const View& x, const Buffer& weight, const Buffer& bias);
  void attend_cache(const LayerPlan& plan, const LayerWeights& weights, const BlockRows& rows,
                    const View& q, const View& k, const View& v, const View& out);
  View attended(const LayerPlan& plan, const LayerWeights& weights, const BlockRows& rows,
                const View& input);
  /// residual += scale * norm(projection of input), with neither where the plan has none.
  void add(const LayerPlan& plan, const LinearArgs& input, const Projection& projection,
           const Buffer& norm, const View& residual);

  Backend& backend_;
  Buffer q_, k_, v_, attended_, gate_up_;  // [max_rows, width]
  // [max_rows, hidden], where a plan needs them: what a half adds, and what the first half adds or
  // reads beside another.
  Buffer branch_, first_half_;
  // Of experts.
  Buffer normed_, scored_, shared_, shared_share_, scores_, shares_;
  IndexBuffer chosen_;
  Buffer latent_q_, plain_q_, joined_;  // of latents: [max_rows, width]
  Buffer mixed_, gated_;                // of states and gated attention: [max_rows, width]
};

}  // namespace talon
