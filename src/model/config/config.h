#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/types.h"
#include "io/checkpoint.h"
#include "model/config/layer_plan.h"

namespace talon {

/// Rotary position embedding and its length scalings.
struct RopeConfig {
  enum class Scaling { none, linear, llama3, yarn, longrope };
  double base = 10000;
  Scaling scaling = Scaling::none;
  double factor = 1;
  double low_frequency_factor = 1;       // llama3
  double high_frequency_factor = 4;      // llama3
  double original_context = 0;           // llama3, yarn, longrope
  double beta_fast = 32, beta_slow = 1;  // yarn
  bool truncate = true;                  // yarn: the ramp begins and ends at whole pairs
  // yarn, longrope: multiplies cos and sin; 0 means the default, for yarn 0.1 ln(factor) + 1
  double attention_factor = 0;
  // GGUF `rope_freqs.weight`: divides each frequency; empty: none
  std::vector<float> frequency_divisors;
  // longrope: the divisors of contexts up to the original one and of longer ones
  std::vector<float> short_divisors, long_divisors;
  int rotary = 0;  // columns of a head that turn; 0: all
  // Pictures; 0: text. Row 0 of the table belongs to the prompt, row 1 + i to cell i of a grid of
  // so many columns: the first half of the pairs turn by the cell's row, the others by its column.
  int grid_columns = 0;
  bool prompt_vanishes = false;  // the prompt's cosines are 0, as its sines; else 1
};

/// A factor of queries that grows with their position: 1 + beta ln(1 + floor((p + shift) / floor)).
struct QueryScaling {
  double beta = 0;  // 0: none
  double floor = 1;
  int shift = 0;
};

/// How a family's files hold its tensors, where that differs from Llama's.
struct TensorForms {
  std::string prefix = "model.";      // Hugging Face: of the text model
  std::string output = "lm_head.";    // ... of the output matrix
  std::string ffn_norm = {};          // ... of a layer's second norm; empty: as the family has it
  bool norm_plus_one = false;         // norms hold their weights less 1
  bool fused_qkv = false;             // one matrix for queries, keys and values
  bool qkv_by_head = false;           // ... whose rows go head by head
  bool fused_gate_up = false;         // one matrix for both, the gate first
  bool experts_inputs_first = false;  // stacks of experts hold [inputs, outputs]
  bool experts_alternate = false;     // ... in which gates and ups take turns
  bool fused_by_key_head = false;     // layers with a state: one matrix, key head by key head
  bool still_rows_paired = false;     // interleaved_rope also holds where nothing turns
  bool gate_apart = false;            // gates of attention have a matrix of their own
  bool usual_final_norm = false;      // LFM2's GGUF files: named as in other families
};

/// A model that draws: its answers are the codes of a grid of cells, row by row, and nothing else
/// but what must stand between the rows. Tokens 0, 1, ... are codes.
struct ImagePlan {
  /// What asks for a picture: the number of a class, words of a list, features of a caption, or a
  /// text in the form of a family.
  enum class Prompt { class_number, words, caption, chameleon, lumina, janus };
  int rows = 0, columns = 0;
  Prompt prompt = Prompt::class_number;
  int prompt_tokens = 0;  // of every prompt; at most, where they vary
  // Stands behind every row of cells but the last; what a family has behind the last changes no
  // picture. -1: none.
  TokenId row_end = -1;
  // Prompts that are texts: token t of the files' vocabulary is input ModelConfig::vocabulary + t.
  int text_tokens = 0;
  // In that vocabulary: the first code, -1: codes have tables of their own; and what stands around
  // texts and pictures, -1: the tokenizer knows it by name.
  TokenId first_code = -1, stored_row_end = -1;
  TokenId text_start = -1, text_end = -1, picture_start = -1, no_size = -1;

  int cells() const { return rows * columns; }
  /// Those of a vocabulary of such a size.
  int codes_of(int vocabulary) const { return vocabulary - (row_end < 0 ? 0 : 1); }
  int row_tokens() const { return columns + (row_end < 0 ? 0 : 1); }
  int answer_tokens() const { return rows * row_tokens() - (row_end < 0 ? 0 : 1); }
  bool prompts_vary() const { return prompt != Prompt::class_number && prompt != Prompt::words; }
  /// The one token that may be token `index` of an answer; -1: any code may.
  TokenId forced(int index) const {
    return row_end >= 0 && index % row_tokens() == columns ? row_end : -1;
  }
};

/// A target: what all its layers share, and a plan for each. The sizes of attention and
/// feed-forward network are those of the first layer.
struct ModelConfig {
  std::string architecture;  // as config.json or general.architecture names it
  int layers = 0;
  int hidden = 0;
  int intermediate = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int vocabulary = 0;
  int inputs = 0;   // tokens that prompts may hold, those of the vocabulary first; 0: just these
  int context = 0;  // largest number of positions
  float norm_epsilon = 0;
  RopeConfig rope;
  std::optional<RopeConfig> local_rope;  // of layers whose plan asks for it
  QueryScaling query_scaling;
  bool tied_output = false;
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection (Llama attention_bias)
  bool qk_norm = false;
  int sliding_window = 0;         // of the layers that have one; 0: none
  bool interleaved_rope = false;  // stored q and k rows are in pairwise order (GGUF llama,
                                  // llama2.c) and get reordered at load
  LayerPlan::Norm final_norm = LayerPlan::Norm::rms;
  bool final_norm_bias = false;
  bool output_matrix_bias = false;  // a number that is added to each logit
  float embedding_scale = 1;
  float logit_scale = 1;
  float logit_cap = 0;      // 0: none
  int per_layer_input = 0;  // columns of Gemma's per-layer embeddings, of one layer; 0: none
  TensorForms forms;
  std::vector<LayerPlan> plans;  // of every layer
  std::vector<TokenId> end_tokens;
  std::optional<TokenId> start_token;
  std::optional<ImagePlan> image;  // none: it writes text

  bool has_experts() const {
    return std::ranges::any_of(plans, [](const LayerPlan& plan) { return plan.experts.count > 0; });
  }
  int input_count() const { return inputs > 0 ? inputs : vocabulary; }
  /// Rows of the files' tables: of texts and pictures where these share one.
  int stored_tokens() const {
    return image && image->first_code >= 0 ? image->text_tokens : vocabulary;
  }
};

/// Reads the configuration of a target from GGUF key-values, config.json or a llama2.c header.
/// Throws Error naming the key, what was expected and what was found; refuses architectures and
/// scalings it does not know.
ModelConfig read_model_config(const Checkpoint& checkpoint);

}  // namespace talon
