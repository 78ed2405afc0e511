#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/types.h"
#include "io/checkpoint.h"

namespace talon {

/// Rotary position embedding and its length scalings.
struct RopeConfig {
  enum class Scaling { none, linear, llama3, yarn };
  double base = 10000;
  Scaling scaling = Scaling::none;
  double factor = 1;
  double low_frequency_factor = 1;       // llama3
  double high_frequency_factor = 4;      // llama3
  double original_context = 0;           // llama3, yarn
  double beta_fast = 32, beta_slow = 1;  // yarn
  double attention_factor =
      0;  // yarn: multiplies cos and sin; 0 means the default 0.1 ln(factor) + 1
  std::vector<float>
      frequency_divisors;  // GGUF `rope_freqs.weight`: divides each frequency; empty: none
};

/// The Llama family as one configurable block.
struct ModelConfig {
  std::string architecture;  // "llama", "mistral", "qwen2", "qwen3"
  int layers = 0;
  int hidden = 0;
  int intermediate = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int vocabulary = 0;
  int context = 0;  // largest number of positions
  float norm_epsilon = 0;
  RopeConfig rope;
  bool tied_output = false;
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection (Llama attention_bias)
  bool qk_norm = false;
  int sliding_window = 0;         // 0: none
  bool interleaved_rope = false;  // stored q and k rows are in pairwise order (GGUF llama,
                                  // llama2.c) and get reordered at load
  std::vector<TokenId> end_tokens;
  std::optional<TokenId> start_token;
};

/// Reads the configuration of a target from GGUF key-values, config.json or a llama2.c header.
/// Throws Error naming the key, what was expected and what was found; refuses architectures and
/// scalings it does not know.
ModelConfig read_model_config(const Checkpoint& checkpoint);

}  // namespace talon
