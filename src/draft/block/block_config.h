#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/input_transform.h"
#include "core/feature_tap.h"
#include "draft/head/head_tensors.h"
#include "draft/head/logit_form.h"
#include "io/checkpoint.h"
#include "io/json.h"
#include "model/config/config.h"

namespace talon {

/// What DSpark's bias reads: the token before; that and the place's own vector, which gates it;
/// both and a state that goes along the branch (docs/methods.md 2.6).
enum class MarkovKind { vanilla, gated, rnn };
std::string_view name_of(MarkovKind kind);  // "vanilla"
/// Of the matrix that reads them together, less ".weight" and ".bias"; empty: there is none.
std::string_view joint_tensor_of(MarkovKind kind);

/// Everything about a block drafter (DFlash, arXiv:2602.06036; DSpark, arXiv:2607.05147;
/// docs/methods.md 2.6) but its values. Sizes come from the tensors.
struct BlockConfig {
  static constexpr int kMostBlock = 64;
  enum class Layout { official, deepspec, speculators };
  Layout layout = Layout::official;
  int hidden = 0;  // H, as the target's where the target's embedding or output matrix is used
  int target_hidden = 0;  // as the files tell; 0: they do not
  int feature_width = 0;
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int intermediate = 0;
  int vocabulary = 0;        // as the files tell; 0: they do not
  int draft_vocabulary = 0;  // rows of the own output matrix; 0: the target's is used
  int target_layers = 0;     // as the files tell; 0: they do not
  int context = 0;           // trained for
  float norm_epsilon = 0;
  RopeConfig rope;
  int block = 0;                // rows of a pass: the root and masks
  TokenId mask_token = 0;       // stands for tokens that are not known
  bool root_predicts = false;   // the root's row guesses, too; else the first mask's is the first
  std::vector<int> tap_layers;  // target layers whose inputs are wanted; empty: the usual ones
  std::vector<bool> slides;     // of each layer: sees `window` committed rows only
  int window = 0;
  bool causal_slides = false;  // ... and of the block only the rows up to itself
  bool causal = false;         // no layer's rows see later ones of the block
  SaidLogitForm logit_form;
  bool own_embedding = false;
  bool reduced_vocabulary = false;
  bool qkv_bias = false, output_bias = false, qk_norm = false;
  InputTransform activation = InputTransform::silu_gate;
  int markov_rank = 0;  // DSpark: a bias by the token before; 0: none
  int markov_rows = 0;  // tokens that have one
  MarkovKind markov_kind = MarkovKind::vanilla;
  bool confidence = false;
  bool confidence_reads_markov = false;

  int first_guess() const { return root_predicts ? 0 : 1; }
  int guesses() const { return block - first_guess(); }
  /// Rows of its output matrix are the target's own.
  bool has_rows_of_target() const { return draft_vocabulary == 0; }
};

/// Whether the files hold such a head.
bool is_block_head(const Checkpoint& checkpoint);

/// Names of such a head's tensors: as stored, less what is used in training only.
HeadTensors block_tensors(const Checkpoint& checkpoint);

/// Throws Error naming the key or tensor that is missing, contradicts another or is of an unknown
/// variant.
BlockConfig read_block_config(const Checkpoint& checkpoint, const HeadTensors& tensors);

/// The features that a head for this target wants, in order. Throws Error naming the field that
/// disagrees, what the target has and what the head has.
std::vector<FeatureTap> fit_to_target(const BlockConfig& config, const ModelConfig& target,
                                      const std::string& doing);

/// For `talon inspect`.
Json describe_block_head(const Checkpoint& checkpoint);

}  // namespace talon
