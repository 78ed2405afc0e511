#pragma once

#include <string>
#include <string_view>

#include "model/config/config.h"

namespace talon {

/// What each tensor of the block is called in a file. Names of a layer hold "{}" for its number and
/// lack ".weight" or ".bias". Empty: the family has none.
struct TensorNames {
  std::string embedding, output, final_norm;
  std::string prompts;       // embeddings of what only prompts hold
  std::string captions;      // what the names of what reads captions begin with
  std::string null_caption;  // a whole name
  std::string attention_norm, q, k, v, qkv, o, q_norm, k_norm, sinks;
  std::string post_attention_norm, post_ffn_norm, layer_scale;
  std::string ffn_norm, gate, up, gate_up, down;
  bool bare_ffn_norm = false;  // that of a whole tensor
  std::string attention_gate;  // where gates of attention have a matrix of their own
  std::string activation;      // what the names of its numbers begin with
  // Of experts; names with a second "{}" for the expert's number are those of one expert's matrix.
  std::string router, choice_bias, expert_gate, expert_up, expert_gate_up, expert_down;
  std::string shared_gate, shared_up, shared_gate_up, shared_down, shared_router;
  // Gemma 4. The first two are whole names.
  std::string router_scale, expert_scale, pre_expert_norm, post_dense_norm, post_expert_norm;
  std::string layer_embedding, layer_projection, layer_projection_norm;  // of all layers
  std::string input_gate, input_projection, input_norm;
  // Attention over latents.
  std::string q_down, q_down_norm, q_up, kv_down, kv_down_norm, kv_up, key_up, value_up;

  // Layers with a state. What is fused, key head by key head: inputs with gates, write with decay;
  // of Mamba-2 gates, inputs and decay, one behind the other, of short convolutions factors of
  // inputs, gates and inputs.
  std::string state_inputs, state_gate, state_write, state_decay, state_filter;
  std::string state_fused_inputs, state_fused_gates, state_norm, state_o;
  std::string state_rate, state_bias, state_skip;  // whole names

  static TensorNames of(CheckpointFormat format, const ModelConfig& config);
  /// The tensor of a layer's second norm.
  std::string ffn_norm_of(int layer) const;
  /// A whole name, as that of the output matrix.
  std::string output_bias() const { return output.substr(0, output.rfind('.')) + ".bias"; }
};

std::string layer_tensor(std::string_view name, int layer, std::string_view part = "weight");

}  // namespace talon
