#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "backend/memory.h"

namespace talon {

class PreparedLayout;

/// A row of a layer that keeps a state.
struct StateRow {
  std::int32_t row = 0;      // of the matrices of the call
  std::int32_t parent = -1;  // entry of the same run that it follows; -1: the run's state
  std::int32_t save = -1;    // slot for a copy of the state behind it; -1: none
};
/// Rows of one sequence. What is written is written behind a line of rows: each follows the one
/// before.
struct StateRun {
  std::int32_t from = -1;  // slot of the state that rows without a parent follow; -1: zeros
  std::int32_t to = -1;    // slot for the state behind the last row; -1: none
  std::int32_t first = 0;  // in AttentionLayout::state_rows
  std::int32_t count = 0;
};

/// Bounds of a step of Mamba-2.
struct StepLimits {
  float least = 0;
  float most = std::numeric_limits<float>::infinity();
};

/// With S the state of a value head, a matrix [key_dim, value_dim], and q, k, v behind a causal
/// convolution of each channel with its last `kernel` inputs and SiLU. One step after the other, in
/// float32, for any number of rows.
///
/// Gated delta net (Qwen3-Next, arXiv:2412.06464), with q and k of length 1, q / sqrt(key_dim):
///   S = exp(decay * softplus(a + decay_bias)) * S;  S += k (sigmoid(b) (v - S^T k))^T;  o = S^T q
/// and the result is o / rms(o) * norm.
///
/// Mamba-2 (arXiv:2405.21060; there C, B, x, A, D are q, k, v, decay, skip), with a step
/// t = softplus(a + decay_bias) within its limits:
///   S = exp(decay * t) * S + k (t v)^T;  o = S^T q + skip * v
/// and the result is u / rms(u) * norm with u = silu(gate) * o, over the value heads of a key head
/// together.
///
/// Short convolution (LFM2, arXiv:2511.23404), without S, heads and SiLU: the inputs of the
/// convolution are b * v, and the result is gate times what it gives.
struct RecurrentArgs {
  StateShape shape;
  bool tiled_heads = false;  // value head h reads key head h % key_heads, else the key heads' value
                             // heads are neighbours
  View inputs;               // [rows, shape.input_cols()]: shape.channels(), then b, then a
  View states = {};          // [shape.slots, shape.state_values()], or empty
  View tails;   // [shape.slots, shape.tail_values()]: last inputs of the convolution, oldest first
  View filter;  // [shape.kernel, shape.channels()]
  View filter_bias = {};  // [1, shape.channels()], or empty
  // Empty for a short convolution.
  View decay = {}, decay_bias = {};  // [1, value_heads]
  View norm = {};  // [1, value_dim]; of Mamba-2 [1, value_heads * value_dim], or empty: u itself
  float norm_epsilon = 0;
  // Of Mamba-2, which has no b.
  View skip = {};  // [1, value_heads]
  StepLimits steps = {};
  View gate = {};  // [rows, value_heads * value_dim]; empty where `out` is, and for a delta net
  const PreparedLayout* layout = nullptr;
  View out = {};  // [rows, value_heads * value_dim]; empty: only the states are wanted
};
inline constexpr float kLengthEpsilon = 1e-6F;  // of the lengths of q and k

/// Throws Bug unless the shapes of `args` fit each other and its layout.
void check_recurrent(const RecurrentArgs& args);

/// What a row writes and keeps of a value head's state: sigmoid(b) and
/// exp(decay * softplus(a + decay_bias)); of Mamba-2 its step t and exp(decay * t).
struct StateGates {
  float write, keep;
};
/// row: of args.inputs.
StateGates state_gates(const RecurrentArgs& args, int row, int value_head);

}  // namespace talon
