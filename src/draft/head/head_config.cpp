#include "draft/head/head_config.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <utility>

#include "core/error.h"
#include "draft/head/gguf_head.h"
#include "draft/head/head_parts.h"
#include "io/quote.h"
#include "io/tensor_layout.h"
#include "model/config/config_keys.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

using Limits = ConfigLimits;

constexpr int kMostParallelDrafts = 64;
constexpr std::string_view kSpecForgePeagle = "PEagleDraftModel";

/// The configuration of a head: its own keys, and those of the transformer layer, which some
/// layouts nest.
struct HeadKeys {
  std::shared_ptr<const Json> translated;  // of a GGUF file; what the rest points into
  ConfigKeys top;
  ConfigKeys layer;
  std::optional<ConfigKeys> eagle;  // `eagle_config`

  bool flag(std::string_view key) const {
    return top.flag_or(key, eagle ? eagle->flag_or(key, false) : false);
  }
};

HeadKeys keys_of_head(const Checkpoint& checkpoint) {
  if (checkpoint.format == CheckpointFormat::gguf) {
    auto keys = std::make_shared<const Json>(head_keys_of_gguf(checkpoint));
    const ConfigKeys top(*keys, checkpoint.path.string());
    return {std::move(keys), top, top, std::nullopt};
  }
  const ConfigKeys top(checkpoint.metadata, (checkpoint.path / "config.json").string());
  auto layer = top.object("transformer_layer_config");
  if (!layer) layer = top.object("model");
  return {nullptr, top, layer.value_or(top), top.object("eagle_config")};
}

HeadLayout head_layout_of(const Checkpoint& checkpoint, const HeadKeys& keys) {
  if (keys.translated) return HeadLayout::gguf;
  if (keys.top.has("speculators_model_type")) return HeadLayout::speculators;
  const std::string architecture = first_architecture(checkpoint.metadata);
  const bool vllm = keys.top.has("model") || architecture.starts_with("Eagle");
  if (vllm || keys.top.text_or("model_type", "") == "eagle") return HeadLayout::vllm;
  const bool sglang = architecture.find("ForCausalLMEagle") != architecture.npos ||
                      architecture == kSpecForgePeagle;
  return sglang ? HeadLayout::sglang : HeadLayout::official;
}

const StoredTensor& require_matrix(const HeadTensors& tensors, std::string_view name,
                                   std::int64_t columns = -1) {
  const StoredTensor& matrix = tensors.require(name, {-1, columns});
  if (matrix.shape[0] < 1 || matrix.shape[0] > Limits::kVocabulary || matrix.shape[1] < 1 ||
      matrix.shape[1] > Limits::kWidth * 8) {
    fail("{}: {}: expected a matrix of a sensible size, found {}", tensors.doing(),
         quote(matrix.name), show_shape(matrix.shape));
  }
  return matrix;
}

/// A bias or norm that the configuration may promise: the tensor decides, but a broken promise is
/// an error.
bool read_optional(const HeadTensors& tensors, std::string_view name, std::int64_t size,
                   bool promised, std::string_view key) {
  const bool present = tensors.find(name, {size}) != nullptr;
  if (promised && !present) {
    fail("{}: {}: expected it, as {} says, found none", tensors.doing(), quote(name), quote(key));
  }
  return present;
}

using SizedName = std::pair<std::string_view, int>;

/// Biases of which either all are there, as the first is, or none.
bool read_biases(const HeadTensors& tensors, std::initializer_list<SizedName> biases, bool promised,
                 std::string_view key) {
  const auto& [first, size_of_first] = *biases.begin();
  const bool present = read_optional(tensors, first, size_of_first, promised, key);
  for (const auto& [name, size] : biases) {
    if (read_optional(tensors, name, size, present, first) == present) continue;
    fail("{}: {}: expected {} beside it, found none", tensors.doing(), quote(name), quote(first));
  }
  return present;
}

/// [heads, head_dim], or fewer rows that each stand for as many heads which follow each other, as
/// Lumina-mGPT has them.
void require_head_norm(const HeadTensors& tensors, const std::string& name, int heads,
                       int head_dim) {
  const std::int64_t parts = tensors.require(name, {-1, head_dim}).shape[0];
  if (parts < 1 || heads % parts != 0) tensors.require(name, {heads, head_dim});
}

void read_head_norms(const HeadTensors& tensors, HeadConfig& config) {
  if (!config.head_layer_norms) {
    config.qk_norm = read_optional(tensors, "q_norm.weight", config.head_dim, false, "");
    if (config.qk_norm)
      read_optional(tensors, "k_norm.weight", config.head_dim, true, "q_norm.weight");
    return;
  }
  for (const std::string_view part : {"weight", "bias"}) {
    require_head_norm(tensors, fmt::format("q_norm.{}", part), config.heads, config.head_dim);
    require_head_norm(tensors, fmt::format("k_norm.{}", part), config.kv_heads, config.head_dim);
  }
}

void read_attention(const HeadTensors& tensors, const HeadKeys& keys, HeadConfig& config) {
  const bool fused = config.generation != HeadGeneration::eagle1;
  const int input = fused ? 2 * config.hidden : config.hidden;
  const int q_rows = tensor_rows(require_matrix(tensors, "q_proj.weight", input));
  const int k_rows = tensor_rows(require_matrix(tensors, "k_proj.weight", input));
  require_matrix(tensors, "v_proj.weight", input);
  tensors.require("v_proj.weight", {k_rows, input});
  tensors.require("o_proj.weight", {config.hidden, q_rows});

  const int heads = keys.layer.integer_or("num_attention_heads", 1, Limits::kHeads, 0);
  config.head_dim = keys.layer.integer_or("head_dim", 1, Limits::kHeadDim, 0);
  if (config.head_dim == 0) {
    if (heads == 0) keys.layer.refuse("head_dim", "it, or \"num_attention_heads\"");
    config.head_dim = q_rows / heads;
  }
  const HeadCounts counts = count_heads(tensors, q_rows, k_rows, config.head_dim);
  config.heads = counts.heads;
  config.kv_heads = counts.kv_heads;

  config.qkv_bias = read_biases(
      tensors, {{"q_proj.bias", q_rows}, {"k_proj.bias", k_rows}, {"v_proj.bias", k_rows}},
      keys.layer.flag_or("qkv_bias", false), "qkv_bias");
  config.output_bias = read_optional(tensors, "o_proj.bias", config.hidden, false, "");
  read_head_norms(tensors, config);
}

void read_feed_forward(const HeadTensors& tensors, const HeadKeys& keys, HeadConfig& config) {
  config.activation = read_activation(keys.layer);
  config.intermediate = tensor_rows(require_matrix(tensors, "gate_proj.weight", config.hidden));
  tensors.require("up_proj.weight", {config.intermediate, config.hidden});
  tensors.require("down_proj.weight", {config.hidden, config.intermediate});
  tensors.require("post_attention_layernorm.weight", {config.hidden});
  config.mlp_bias = read_biases(tensors,
                                {{"gate_proj.bias", config.intermediate},
                                 {"up_proj.bias", config.intermediate},
                                 {"down_proj.bias", config.hidden}},
                                false, "");
}

/// The official code drops `rope_theta` when there is a scaling (docs/methods.md 2.4).
void read_rope(const Checkpoint& checkpoint, const HeadTensors& tensors, const HeadKeys& keys,
               HeadConfig& config) {
  if (config.layout == HeadLayout::gguf) {
    config.rope = gguf_head_rope(checkpoint, tensors, config.context, config.head_dim);
  } else {
    const bool is_of_speculators = config.layout == HeadLayout::speculators;
    config.rope = read_rope_of(keys.layer, config.context, config.head_dim,
                               rope_kind(keys.layer, is_of_speculators));
  }
  check_divisors(config.rope, config.head_dim, tensors.doing());
  if (config.layout == HeadLayout::official && config.rope.scaling == RopeConfig::Scaling::linear) {
    config.rope.base = 10000;
  }
}

void read_layer_keys(const HeadKeys& keys, HeadConfig& config) {
  const std::string_view context =
      keys.layer.has("max_sequence_length") ? "max_sequence_length" : "max_position_embeddings";
  config.context = keys.layer.integer_or(context, 1, Limits::kContext, kUsualHeadContext);
  config.norm_epsilon = static_cast<float>(keys.layer.number_or("rms_norm_eps", 0, 1, 1e-6));
  config.logit_form = SaidLogitForm::read(keys.layer);
}

void read_eagle1_parts(const HeadTensors& tensors, const HeadKeys& keys, HeadConfig& config) {
  const int width = tensor_columns(tensors.require("fc.weight"));
  if (width != 2 * config.hidden) {
    fail(
        "{}: \"fc.weight\": expected twice as many columns as rows (EAGLE-1 and EAGLE-2) or a "
        "\"hidden_norm.weight\" (EAGLE-3), found {}",
        tensors.doing(), show_shape(tensors.require("fc.weight").shape));
  }
  config.feature_width = config.hidden;
  config.embedding_norm = read_optional(tensors, "embedding_norm.weight", config.hidden, false, "");
  config.feature_norm = read_optional(tensors, "feature_norm.weight", config.hidden, false, "");
  const bool layer_norms = keys.top.flag_or("layernorms", false);  // speculators
  // LANTERN's for Chameleon (arXiv:2410.03355) have that model's layer.
  const StoredTensor* head_norms = tensors.find("q_norm.weight");
  config.head_layer_norms = head_norms && head_norms->shape.size() == 2;
  // vLLM's, of which the second norms what is fed back, too.
  const bool prenorm = !keys.layer.flag_or("skip_prenorm", true);
  config.norm_output = !keys.layer.flag_or("skip_output_norm", true);
  const bool known = layer_norms || prenorm || config.norm_output || config.embedding_norm ||
                     config.head_layer_norms;
  if (!known)
    return;  // an official head has none of the next two, so finding one is worth a refusal
  config.attention_norm =
      read_optional(tensors, "input_layernorm.weight", config.hidden, layer_norms || prenorm,
                    layer_norms ? "layernorms" : "skip_prenorm");
  config.output_norm =
      read_optional(tensors, "norm.weight", config.hidden, layer_norms || config.norm_output,
                    layer_norms ? "layernorms" : "skip_output_norm");
}

/// SpecForge, SGLang and ModelOpt list in `eagle_config` the layers that are left, AngelSlim under
/// a name of its own; vLLM in its own layout those that are entered, as it does at the top, where
/// speculators and Talon's trainer list them, too (docs/methods.md 2.4).
void read_tap_layers(const HeadKeys& keys, HeadConfig& config) {
  constexpr std::string_view kSure = "tap_layers", kIds = "eagle_aux_hidden_state_layer_ids";
  constexpr std::string_view kOfAngelSlim = "aux_hidden_states_layer_ids";
  const bool is_sure = keys.top.has(kSure);
  const bool is_nested = !is_sure && keys.eagle && keys.eagle->has(kIds);
  const bool is_usual = is_sure || is_nested || keys.top.has(kIds);
  const bool is_of_angel_slim = !is_usual && keys.top.has(kOfAngelSlim);
  const bool are_left = is_of_angel_slim || (is_nested && config.layout != HeadLayout::vllm);
  const ConfigKeys& from = is_nested ? *keys.eagle : keys.top;
  const std::string_view key = is_sure ? kSure : is_of_angel_slim ? kOfAngelSlim : kIds;
  for (const TokenId id : from.tokens(key, Limits::kLayers))
    config.tap_layers.push_back(id + (are_left ? 1 : 0));
  if (is_sure || keys.top.has("talon")) return;
  config.tap_count = are_left ? TapCount::left : TapCount::entered;
}

/// Heads of the target's last vector alone have no `fc`.
void refuse_single_feature(const HeadKeys& keys) {
  constexpr std::string_view kSeveral = "use_aux_hidden_state";
  if (keys.eagle && !keys.eagle->flag_or(kSeveral, true)) keys.eagle->refuse(kSeveral, "true");
}

void read_eagle3_parts(const HeadTensors& tensors, const HeadKeys& keys, HeadConfig& config) {
  const StoredTensor& fusion = tensors.require("fc.weight");
  const StoredTensor& norm = tensors.require("hidden_norm.weight", {-1});
  if (fusion.shape[0] != norm.shape[0]) {
    fail("{}: {}: expected {} rows, as many as {} has numbers, found {}", tensors.doing(),
         quote(fusion.name), norm.shape[0], quote(norm.name), show_shape(fusion.shape));
  }
  config.feature_width = tensor_columns(fusion);
  config.embedding_norm = config.feature_norm = config.output_norm = true;
  for (const std::string_view name :
       {"input_layernorm.weight", "hidden_norm.weight", "norm.weight"}) {
    tensors.require(name, {config.hidden});
  }
  read_tap_layers(keys, config);
  config.fused_norm = read_optional(tensors, "input_norm.weight", config.feature_width,
                                    keys.flag("norm_before_fc"), "norm_before_fc");
  while (tensors.has(fmt::format("fc_norm.{}.weight", config.tap_norms))) ++config.tap_norms;
  if (keys.flag("fc_norm") && config.tap_norms == 0) {
    fail("{}: \"fc_norm.0.weight\": expected it, as \"fc_norm\" says, found none", tensors.doing());
  }
  config.norm_before_residual = keys.flag("norm_before_residual");
  config.norm_output = keys.flag("norm_output");
  if (keys.top.flag_or("parallel_drafting", false) && !tensors.has("mask_hidden")) {
    fail("{}: \"mask_hidden\": expected it, as \"parallel_drafting\" says, found none",
         tensors.doing());
  }
}

void read_head_vocabularies(const HeadTensors& tensors, const HeadKeys& keys, HeadConfig& config) {
  config.vocabulary = keys.layer.integer_or("vocab_size", 1, Limits::kVocabulary, 0);
  if (const StoredTensor* own = tensors.find("embed_tokens.weight", {-1, config.hidden})) {
    config.own_embedding = true;
    config.vocabulary = tensor_rows(*own);
  }
  const StoredTensor* output = tensors.find("lm_head.weight", {-1, config.hidden});
  config.draft_vocabulary = output ? tensor_rows(*output) : 0;
  config.tied_output = config.draft_vocabulary == 0 && config.own_embedding &&
                       config.generation != HeadGeneration::eagle1 &&
                       keys.layer.flag_or("tie_word_embeddings", false);
  const StoredTensor* map = tensors.find("d2t", {-1});
  if (!map) map = tensors.find("token_map", {-1});
  tensors.find("t2d", {-1});
  config.reduced_vocabulary = map != nullptr;
  if (!map) return;
  const int drafted = tensor_rows(*map);
  if (config.draft_vocabulary == 0 && keys.top.flag_or("shared_output", false)) {
    config.shared_output = true;
    config.tied_output = false;
    config.draft_vocabulary = drafted;
  }
  if (config.draft_vocabulary == 0) {
    fail("{}: \"lm_head.weight\": expected it beside {}, or \"shared_output\": true, found none",
         tensors.doing(), quote(map->name));
  }
  const bool selects_rows = tensors.has("token_map") && config.draft_vocabulary > drafted;
  if (config.draft_vocabulary != drafted && !selects_rows) {
    fail("{}: {}: expected one entry for each of the {} rows of \"lm_head.weight\", found {}",
         tensors.doing(), quote(map->name), config.draft_vocabulary, drafted);
  }
  config.draft_vocabulary = drafted;
}

/// The biases and norms of an ordinary layer, which has those that the first one has: others are
/// tensors without meaning. layer: what their names begin with.
void require_parts_of_first(const HeadTensors& tensors, const std::string& layer,
                            const HeadConfig& config) {
  const int q = config.heads * config.head_dim, k = config.kv_heads * config.head_dim;
  const auto require = [&](bool has_first, std::string_view of_first,
                           std::initializer_list<SizedName> parts) {
    if (!has_first) return;
    for (const auto& [part, size] : parts)
      read_optional(tensors, fmt::format("{}{}", layer, part), size, true, of_first);
  };
  require(
      config.qkv_bias, "q_proj.bias",
      {{"self_attn.q_proj.bias", q}, {"self_attn.k_proj.bias", k}, {"self_attn.v_proj.bias", k}});
  require(config.output_bias, "o_proj.bias", {{"self_attn.o_proj.bias", config.hidden}});
  require(config.mlp_bias, "gate_proj.bias",
          {{"mlp.gate_proj.bias", config.intermediate},
           {"mlp.up_proj.bias", config.intermediate},
           {"mlp.down_proj.bias", config.hidden}});
  require(
      config.qk_norm, "q_norm.weight",
      {{"self_attn.q_norm.weight", config.head_dim}, {"self_attn.k_norm.weight", config.head_dim}});
}

/// Ordinary layers behind the first. Of heads with one layer the number in the files is at times
/// the target's.
void read_further_layers(const HeadTensors& tensors, const HeadKeys& keys, HeadConfig& config) {
  const int h = config.hidden, q = config.heads * config.head_dim;
  const int k = config.kv_heads * config.head_dim;
  const auto name = [&](std::string_view part) {
    return fmt::format("layers.{}.{}", config.further_layers + 1, part);
  };
  for (; tensors.has(name("self_attn.q_proj.weight")); ++config.further_layers) {
    tensors.require(name("self_attn.q_proj.weight"), {q, h});
    tensors.require(name("self_attn.k_proj.weight"), {k, h});
    tensors.require(name("self_attn.v_proj.weight"), {k, h});
    tensors.require(name("self_attn.o_proj.weight"), {h, q});
    tensors.require(name("mlp.gate_proj.weight"), {config.intermediate, h});
    tensors.require(name("mlp.up_proj.weight"), {config.intermediate, h});
    tensors.require(name("mlp.down_proj.weight"), {h, config.intermediate});
    tensors.require(name("input_layernorm.weight"), {h});
    tensors.require(name("post_attention_layernorm.weight"), {h});
    require_parts_of_first(tensors, name(""), config);
  }
  const int promised = keys.layer.integer_or("num_hidden_layers", 1, Limits::kLayers, 0);
  const bool counts = config.further_layers > 0 || tensors.has("mask_hidden");
  if (counts && promised != 0 && promised != config.further_layers + 1) {
    fail("{}: \"num_hidden_layers\": expected the {} layers that have tensors, found {}",
         tensors.doing(), config.further_layers + 1, promised);
  }
}

/// What stands for tokens and features that are not known.
void read_peagle_parts(const HeadTensors& tensors, const HeadKeys& keys, HeadConfig& config) {
  if (config.generation != HeadGeneration::eagle3) {
    fail(
        "{}: \"mask_hidden\": expected the tensors of an EAGLE-3 head beside it, found none of "
        "\"hidden_norm.weight\"",
        tensors.doing());
  }
  config.generation = HeadGeneration::peagle;
  // Files for vLLM have fewer dimensions, and AWS's or PARD's name of the token.
  std::vector<std::int64_t> row = {1, 1, config.feature_width};
  const std::size_t rank = tensors.require("mask_hidden").shape.size();
  while (row.size() > std::max<std::size_t>(1, rank)) row.erase(row.begin());
  tensors.require("mask_hidden", row);
  for (const char* key : {"ptd_token_id", "pard_token"})
    if (keys.top.has(key)) config.mask_key = key;
  config.mask_token = keys.top.integer(config.mask_key, 0, Limits::kVocabulary - 1);
  const auto speculators = keys.top.object("speculators_config");
  const Json* methods = speculators ? speculators->find("proposal_methods") : nullptr;
  if (methods && methods->is_array() && !methods->empty()) {
    const ConfigKeys method(methods->front(), tensors.doing());
    config.parallel_drafts = method.integer_or("speculative_tokens", 1, kMostParallelDrafts, 0);
  }
}

}  // namespace

HeadConfig read_head_config(const Checkpoint& checkpoint, const HeadTensors& tensors) {
  const HeadKeys keys = keys_of_head(checkpoint);
  HeadConfig config;
  config.layout = head_layout_of(checkpoint, keys);
  config.interleaved_rope = config.layout == HeadLayout::gguf;
  config.generation =
      tensors.has("hidden_norm.weight") ? HeadGeneration::eagle3 : HeadGeneration::eagle1;
  if (config.generation == HeadGeneration::eagle3) refuse_single_feature(keys);
  config.hidden = tensor_rows(require_matrix(tensors, "fc.weight"));
  config.target_hidden = keys.top.integer_or("target_hidden_size", 1, Limits::kWidth, 0);
  if (config.generation == HeadGeneration::eagle1) {
    read_eagle1_parts(tensors, keys, config);
  } else {
    read_eagle3_parts(tensors, keys, config);
  }
  const std::string_view bias_key =
      config.layout == HeadLayout::speculators ? "fusion_bias" : "bias";
  config.fc_bias = read_optional(tensors, "fc.bias", config.hidden, keys.flag(bias_key), bias_key);
  read_layer_keys(keys, config);
  read_attention(tensors, keys, config);
  read_rope(checkpoint, tensors, keys, config);
  read_feed_forward(tensors, keys, config);
  read_head_vocabularies(tensors, keys, config);
  if (config.generation == HeadGeneration::eagle3) read_further_layers(tensors, keys, config);
  if (tensors.has("mask_hidden")) read_peagle_parts(tensors, keys, config);
  SlidingLayers sliding = read_sliding_layers(keys.layer, 1 + config.further_layers);
  config.slides = std::move(sliding.slides);
  config.sliding_window = sliding.window;
  tensors.refuse_unknown();
  return config;
}

}  // namespace talon
