#pragma once

#include "model/config/config_readers.h"

// What readers of several families share.
namespace talon {

template <typename Change>
void each_plan(ModelConfig& config, const Change& change) {
  for (LayerPlan& plan : config.plans) change(plan);
}

/// Layers with experts have no dense network, but where they say so.
template <typename Has>
void plan_experts(ModelConfig& config, const ExpertPlan& experts, const Has& has) {
  for (int i = 0; i < config.layers; ++i) {
    if (!has(i)) continue;
    LayerPlan& plan = config.plans[static_cast<std::size_t>(i)];
    plan.experts = experts;
    if (!experts.beside_dense) plan.intermediate = 0;
  }
}

/// What the family's feed-forward network computes, and no other.
void only_activation(const ConfigKeys& keys, std::string_view name);
/// Keys that say the same of all models that are read, and may be missing.
void expect_word(const ConfigKeys& keys, std::string_view key, std::string_view word);
void expect_flag(const ConfigKeys& keys, std::string_view key, bool value);
/// RMSNorms of queries and keys, head by head, before the rotation.
void norm_each_head(ModelConfig& config);
/// Layers without a window do not turn.
void still_full_layers(ModelConfig& config);
/// A flag of each layer, of a list that may go on behind the last one. Empty without a list.
std::vector<bool> flags_of_layers(const ConfigKeys& keys, std::string_view key, std::size_t layers);
/// The window of config.json; 0: none.
int window_of(const ConfigKeys& keys);
/// Which of `count` layers a list of texts calls `yes`; the others are `no`. Empty without a list.
std::vector<bool> layers_called(const ConfigKeys& keys, std::string_view key, std::size_t count,
                                std::string_view yes, std::string_view no);
/// Layers whose `layer_types` say "sliding_attention"; without a list, all but every `pattern`-th.
void window_by_types(const ConfigKeys& keys, ModelConfig& config, int pattern);
/// EXAONE 4's windowed layers: listed, or by a pattern of L and G, or all but every so many. Full
/// layers beside them do not turn.
void window_exaone(const ConfigKeys& keys, ModelConfig& config);
/// Windowed layers turn by a rope of their own.
void local_rope_where_windowed(ModelConfig& config, const RopeConfig& rope);
RopeConfig plain_rope(double base);
/// Mistral's factors of queries, of config.json and of files that give them as numbers.
void read_query_scaling(const ConfigKeys& keys, ModelConfig& config);
void scale_queries(ModelConfig& config, double beta, double floor);
/// Hunyuan's class stretches the base by `alpha`, for texts of any length.
double hunyuan_base(const ConfigKeys& keys, const ModelConfig& config);
/// config.json of Gemma 2 to 4, of Granite, of ERNIE 4.5.
void read_gemma(const ConfigKeys& keys, ModelConfig& config);
void read_ernie4_5(const ConfigKeys& keys, ModelConfig& config);
void read_granite(const ConfigKeys& keys, ModelConfig& config);

/// A key below the architecture of a GGUF file.
std::string gguf_key(const ModelConfig& config, std::string_view name);
/// A list with a flag or number of every layer, and maybe of layers behind them that predict.
std::vector<bool> gguf_flags(const ConfigKeys& keys, const std::string& key, std::size_t layers);
std::vector<int> gguf_integers(const ConfigKeys& keys, const std::string& key, int high,
                               std::size_t layers);
/// The layers that the file lists, else all but every `pattern`-th. otherwise: the window of files
/// that name none.
void gguf_window_by_pattern(const ConfigKeys& keys, ModelConfig& config, int pattern,
                            int otherwise = 0);
/// logit_cap: of files that name none.
void read_gguf_gemma(const ConfigKeys& keys, ModelConfig& config, double logit_cap = 0);
void read_gguf_granite(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config);
void read_gguf_granitemoe(const ConfigKeys& keys, const Checkpoint& checkpoint,
                          ModelConfig& config);
double gguf_local_base(const ConfigKeys& keys, const ModelConfig& config, double otherwise);

/// Phi-3.5-MoE's experts in all layers.
void plan_near_experts(ModelConfig& config, ExpertPlan experts, double jitter);

/// MiMo-V2-Flash.
void read_mimo(const ConfigKeys& keys, ModelConfig& config);
void read_gguf_mimo2(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config);

/// DeepSeek-V3's experts, which others share; in which layers they are is not read.
ExpertPlan read_sigmoid_experts(const ConfigKeys& keys);
ExpertPlan read_gguf_experts(const ConfigKeys& keys, const ModelConfig& config);
/// DeepSeek's routing in GGUF files, in all layers but the leading dense ones.
void read_gguf_grouped_experts(const ConfigKeys& keys, const Checkpoint& checkpoint,
                               ModelConfig& config);
/// The families with experts or latents; null for a name that is none of them.
FamilyReader hugging_face_expert_family(std::string_view model_type);
const GgufFamily* gguf_expert_family(std::string_view architecture);
extern const std::string_view kExpertModelTypes, kExpertArchitectures;
/// Those with layers that keep a state.
FamilyReader hugging_face_recurrent_family(std::string_view model_type);
const GgufFamily* gguf_recurrent_family(std::string_view architecture);
extern const std::string_view kRecurrentModelTypes, kRecurrentArchitectures;
/// Those of 2025 and later whose blocks are made of what plans had before them, and Apertus.
FamilyReader hugging_face_later_family(std::string_view model_type);
const GgufFamily* gguf_later_family(std::string_view architecture);
extern const std::string_view kLaterModelTypes, kLaterArchitectures;
/// Those that draw.
FamilyReader hugging_face_picture_family(std::string_view model_type);
extern const std::string_view kPictureModelTypes;
/// Of these layers, which keep no keys and values.
void keep_states(ModelConfig& config, const RecurrentPlan& plan, const std::vector<bool>& keeps);
/// Without keys and values; the cache's layers are to be numbered again.
void stop_attending(LayerPlan& layer);
inline constexpr int kLongestKernel = 16;  // of the convolution before a state
RecurrentPlan read_gguf_state_sizes(const ConfigKeys& keys, const ModelConfig& config);
/// A number of each layer, 0 among them, of a list that goes on with layers that predict. Empty
/// without one.
std::vector<int> gguf_counts_of_layers(const ConfigKeys& keys, const ModelConfig& config,
                                       std::string_view name, int high);
/// Which layers have no key-value heads: in most families those that keep a state.
std::vector<bool> gguf_layers_without_keys(const ConfigKeys& keys, const ModelConfig& config);
/// Granite 4 and Bamba, some of whose layers may be Mamba-2's.
void read_bamba(const ConfigKeys& keys, ModelConfig& config);
void read_granitemoehybrid(const ConfigKeys& keys, ModelConfig& config);
void read_granitehybrid(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config);
/// Falcon-H1, whose layers have both.
void read_falcon_h1(const ConfigKeys& keys, ModelConfig& config);
void read_gguf_falcon_h1(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config);
/// Nemotron-H, whose layers have one part each.
void read_nemotron_h(const ConfigKeys& keys, ModelConfig& config);
void read_gguf_nemotron_h(const ConfigKeys& keys, const Checkpoint& checkpoint,
                          ModelConfig& config);
/// LFM2, most of whose layers are short convolutions.
void read_lfm2(const ConfigKeys& keys, ModelConfig& config);
void read_lfm2_moe(const ConfigKeys& keys, ModelConfig& config);
void read_gguf_lfm2(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config);
void read_gguf_lfm2moe(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config);
/// The experts of Qwen's mixtures, of the layers that have them; of GGUF files in every layer.
void read_qwen_experts(const ConfigKeys& keys, ModelConfig& config, bool renormalize);
void read_gguf_qwen_experts(const ConfigKeys& keys, ModelConfig& config, bool renormalize);

/// Gemma 4's layers: which read the keys and values of an earlier one of their kind, the last
/// `shared` of all.
void share_last_layers(ModelConfig& config, int shared);
/// Numbers the layers of the cache: those that write it, in order.
void number_cache_layers(ModelConfig& config);

}  // namespace talon
