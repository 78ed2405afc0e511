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
/// A flag of each layer, of a list that may go on behind the last one. Empty without a list.
std::vector<bool> flags_of_layers(const ConfigKeys& keys, std::string_view key, std::size_t layers);
/// The window of config.json; 0: none.
int window_of(const ConfigKeys& keys);
/// Which of `count` layers a list of texts calls `yes`; the others are `no`. Empty without a list.
std::vector<bool> layers_called(const ConfigKeys& keys, std::string_view key, std::size_t count,
                                std::string_view yes, std::string_view no);
/// Layers whose `layer_types` say "sliding_attention"; without a list, all but every `pattern`-th.
void window_by_types(const ConfigKeys& keys, ModelConfig& config, int pattern);
/// Windowed layers turn by a rope of their own.
void local_rope_where_windowed(ModelConfig& config, const RopeConfig& rope);
RopeConfig plain_rope(double base);
/// Mistral's factors of queries, of config.json and of files that give them as numbers.
void read_query_scaling(const ConfigKeys& keys, ModelConfig& config);
void scale_queries(ModelConfig& config, double beta, double floor);
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

/// MiMo-V2-Flash.
void read_mimo(const ConfigKeys& keys, ModelConfig& config);
void read_gguf_mimo2(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config);

/// DeepSeek-V3's experts, which others share; in which layers they are is not read.
ExpertPlan read_sigmoid_experts(const ConfigKeys& keys);
ExpertPlan read_gguf_experts(const ConfigKeys& keys, const ModelConfig& config);
/// The families with experts or latents; null for a name that is none of them.
FamilyReader hugging_face_expert_family(std::string_view model_type);
const GgufFamily* gguf_expert_family(std::string_view architecture);
extern const std::string_view kExpertModelTypes, kExpertArchitectures;
/// Those with layers that keep a state.
FamilyReader hugging_face_recurrent_family(std::string_view model_type);
const GgufFamily* gguf_recurrent_family(std::string_view architecture);
extern const std::string_view kRecurrentModelTypes, kRecurrentArchitectures;
/// Those that draw.
FamilyReader hugging_face_picture_family(std::string_view model_type);
extern const std::string_view kPictureModelTypes;
/// Of these layers, which keep no keys and values.
void keep_states(ModelConfig& config, const RecurrentPlan& plan, const std::vector<bool>& keeps);
inline constexpr int kLongestKernel = 16;  // of the convolution before a state
RecurrentPlan read_gguf_state_sizes(const ConfigKeys& keys, const ModelConfig& config);
/// Granite 4 and Bamba, some of whose layers may be Mamba-2's.
void read_bamba(const ConfigKeys& keys, ModelConfig& config);
void read_granitemoehybrid(const ConfigKeys& keys, ModelConfig& config);
void read_granitehybrid(const ConfigKeys& keys, const Checkpoint& checkpoint, ModelConfig& config);
/// The experts of Qwen's mixtures, of the layers that have them; of GGUF files in every layer.
void read_qwen_experts(const ConfigKeys& keys, ModelConfig& config, bool renormalize);
void read_gguf_qwen_experts(const ConfigKeys& keys, ModelConfig& config, bool renormalize);

/// Gemma 4's layers: which read the keys and values of an earlier one of their kind, the last
/// `shared` of all.
void share_last_layers(ModelConfig& config, int shared);
/// Numbers the layers of the cache: those that write it, in order.
void number_cache_layers(ModelConfig& config);

}  // namespace talon
