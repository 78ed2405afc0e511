#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "backend/input_transform.h"
#include "draft/head/head_tensors.h"
#include "draft/head/logit_form.h"
#include "io/checkpoint.h"
#include "io/json.h"
#include "model/config/config.h"
#include "model/target.h"

namespace talon {

/// EAGLE-1 and EAGLE-2 share their heads (arXiv:2401.15077); EAGLE-3's differ (arXiv:2503.01840).
/// P-EAGLE's are EAGLE-3's with more layers and rows of masks (arXiv:2602.01469).
enum class HeadGeneration { eagle1, eagle3, peagle };
/// Who wrote the files, which decides what a few keys mean. `sglang` is also SpecForge's and
/// AngelSlim's.
enum class HeadLayout { official, sglang, vllm, speculators, gguf };
/// How makers counted the target layers of a list, as far as can be told: those that the streams
/// enter, as Talon does, or those that they leave. `sure`: there is no doubt that it was as here.
enum class TapCount { sure, entered, left };
std::string_view name_of(HeadGeneration generation);
std::string_view name_of(HeadLayout layout);

/// Everything about a head but its values. Sizes, biases and norms come from the tensors; the
/// configuration is asked only for what tensors cannot tell.
struct HeadConfig {
  HeadGeneration generation = HeadGeneration::eagle1;
  HeadLayout layout = HeadLayout::official;
  int hidden = 0;  // H
  int feature_width =
      0;  // columns of `fc` that the target's features fill: H, or taps * hidden size of the target
  int intermediate = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int vocabulary = 0;        // of the target, as far as the files tell; 0: they do not
  int draft_vocabulary = 0;  // rows of the own output matrix; 0: the target's is used
  int context = 0;           // trained for; later positions work, but draft badly
  float norm_epsilon = 0;
  RopeConfig rope;
  bool interleaved_rope = false;  // stored q and k rows are in pairwise order
  std::vector<bool> slides;       // of each layer: sees `sliding_window` pairs alone
  int sliding_window = 0;         // 0: no layer slides
  SaidLogitForm logit_form;
  int target_hidden = 0;        // as the configuration says; 0: it does not
  std::vector<int> tap_layers;  // target layers whose inputs are wanted; empty: the usual ones
  TapCount tap_count = TapCount::sure;
  bool own_embedding = false;
  bool tied_output = false;         // no output matrix: the own embedding serves
  bool reduced_vocabulary = false;  // d2t or token_map maps draft ids to target ids
  bool shared_output = false;       // no output matrix: its rows are the target's of these ids
  bool fc_bias = false;
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool mlp_bias = false;
  InputTransform activation = InputTransform::silu_gate;
  bool qk_norm = false;
  bool head_layer_norms = false;           // LayerNorms of their own for all heads of q and k
  bool embedding_norm = false;             // EAGLE-1 variants; EAGLE-3 always has it
  bool feature_norm = false;               // EAGLE-1 variants; EAGLE-3 always has it
  bool attention_norm = false;             // EAGLE-1 variants
  bool output_norm = false;                // EAGLE-1 variants; EAGLE-3 always has it
  int tap_norms = 0;                       // EAGLE-3.1: norms of single taps before fc; 0: none
  bool fused_norm = false;                 // EAGLE-3.1: one norm over all taps before fc
  bool norm_before_residual = false;       // EAGLE-3: the normed feature is the residual
  bool norm_output = false;                // EAGLE-3.1, vLLM: the normed output is fed back
  int further_layers = 0;                  // not EAGLE-1: ordinary ones behind the first
  TokenId mask_token = 0;                  // P-EAGLE: stands for tokens that are not known
  std::string mask_key = "mask_token_id";  // where the files say so
  int parallel_drafts = 0;                 // P-EAGLE: tokens it was made to guess in a pass

  /// Rows of its output matrix are the target's own.
  bool has_rows_of_target() const {
    return shared_output || (draft_vocabulary == 0 && !tied_output);
  }
  /// The window that all layers have; 0: some see the whole text.
  int common_window() const {
    return std::find(slides.begin(), slides.end(), false) == slides.end() ? sliding_window : 0;
  }
  /// Whether that layer slides and others do not.
  bool slides_alone(int layer) const {
    return common_window() < sliding_window && slides[static_cast<std::size_t>(layer)];
  }
};

/// The layers that EAGLE-3 taps where nothing else is said: 2, the middle and the last but two;
/// where a shallow target makes these coincide, the second, the middle and the last one.
std::vector<int> usual_tap_layers(int layers);

/// The layers of its list as Talon counts them, for a target of so many: the usual ones are told
/// whichever way they were counted, and one that no layer of the target leaves was entered.
std::vector<int> counted_taps(const HeadConfig& config, int target_layers);

/// Throws Error naming the key or tensor that is missing, contradicts another or is of an unknown
/// variant.
HeadConfig read_head_config(const Checkpoint& checkpoint, const HeadTensors& tensors);

/// Whether the stored rows of q and k are in pairwise order: of GGUF files always, of other heads
/// for pictures as those of their target.
bool has_pairwise_rows(const HeadConfig& config, const ModelConfig& target);

/// The features that a head for this target wants, in order. Throws Error when the head does not
/// fit the target, naming the field that disagrees, what the target has and what the head has.
std::vector<FeatureTap> fit_to_target(const HeadConfig& config, const ModelConfig& target,
                                      const std::string& doing);

/// For `talon inspect`: variant, layout, sizes, and which of the optional parts are there.
Json describe_head(const Checkpoint& checkpoint);

}  // namespace talon
