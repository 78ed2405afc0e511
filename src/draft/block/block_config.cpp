#include "draft/block/block_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "core/error.h"
#include "draft/block/gguf_block.h"
#include "draft/head/head_config.h"
#include "draft/head/head_parts.h"
#include "io/quote.h"
#include "io/tensor_layout.h"
#include "model/config/config_keys.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

using Limits = ConfigLimits;

/// The head's own keys, those of its layers, which speculators nests, and those that others nest.
struct BlockKeys {
  std::shared_ptr<const Json> config;  // what the rest points into
  ConfigKeys top;
  ConfigKeys layer;
  std::vector<ConfigKeys> nested;  // `dflash_config` and `dspark_config`, as far as there are

  /// Where `key` is; the top of the file if it is nowhere.
  const ConfigKeys& with(std::string_view key) const {
    if (top.has(key)) return top;
    for (const ConfigKeys& keys : nested) {
      if (keys.has(key)) return keys;
    }
    return top;
  }
  /// The value of the first of these names that is there.
  std::optional<bool> flag(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      if (with(name).has(name)) return with(name).flag_or(name, false);
    }
    return std::nullopt;
  }
};

std::string speculators_kind(const Json& config) {
  if (!config.is_object()) return "";
  const Json kind = config.value("speculators_model_type", Json());
  return kind.is_string() ? kind.get<std::string>() : "";
}

/// Of block drafters with another head or fusion, which are refused by these names.
constexpr std::string_view kDominoArchitecture = "DominoDraftModel";
constexpr std::string_view kDflareArchitecture = "QwenDFlareDraftModel";

/// The official name, and AngelSlim's.
bool names_flash(std::string_view architecture) {
  return architecture == "DFlashDraftModel" || architecture == "QwenDFlashDraftModel";
}

/// DeepSpec's names, and SpecForge's.
bool names_spark(std::string_view architecture) {
  return architecture.ends_with("DSparkModel") || architecture == "DSparkDraftModel";
}

BlockKeys keys_of_block(const Checkpoint& checkpoint) {
  const bool gguf = checkpoint.format == CheckpointFormat::gguf;
  auto config =
      std::make_shared<const Json>(gguf ? block_keys_of_gguf(checkpoint) : checkpoint.metadata);
  const ConfigKeys top(
      *config, gguf ? checkpoint.path.string() : (checkpoint.path / "config.json").string());
  std::vector<ConfigKeys> nested;
  for (const char* key : {"dflash_config", "dspark_config"}) {
    if (auto keys = top.object(key)) nested.push_back(std::move(*keys));
  }
  return {config, top, top.object("transformer_layer_config").value_or(top), std::move(nested)};
}

BlockConfig::Layout block_layout_of(const BlockKeys& keys) {
  if (!speculators_kind(*keys.config).empty()) return BlockConfig::Layout::speculators;
  const std::string architecture = first_architecture(*keys.config);
  if (names_spark(architecture)) return BlockConfig::Layout::deepspec;
  if (!names_flash(architecture)) {
    keys.top.refuse("architectures",
                    "DFlashDraftModel, QwenDFlashDraftModel, DSparkDraftModel or one that ends in "
                    "DSparkModel");
  }
  return BlockConfig::Layout::official;
}

std::string layer_tensor(int layer, std::string_view part) {
  return fmt::format("layers.{}.{}", layer, part);
}

/// A bias or norm that either all layers have or none.
bool read_part(const HeadTensors& tensors, const BlockConfig& config, std::string_view part,
               int size) {
  const bool first = tensors.find(layer_tensor(0, part), {size}) != nullptr;
  for (int layer = 1; layer < config.layers; ++layer) {
    const std::string name = layer_tensor(layer, part);
    const bool present = tensors.find(name, {size}) != nullptr;
    if (present == first) continue;
    fail("{}: {}: expected {} in the first layer, found otherwise", tensors.doing(), quote(name),
         first ? "it as" : "none as");
  }
  return first;
}

void read_layers(const HeadTensors& tensors, const BlockKeys& keys, BlockConfig& c) {
  while (tensors.has(layer_tensor(c.layers, "self_attn.q_proj.weight"))) ++c.layers;
  const int promised = keys.layer.integer_or("num_hidden_layers", 1, Limits::kLayers, c.layers);
  if (c.layers == 0 || promised != c.layers) {
    fail("{}: \"num_hidden_layers\": expected the {} layers that have a {}, found {}",
         tensors.doing(), c.layers, quote("self_attn.q_proj.weight"), promised);
  }
  const auto sized = [&](std::string_view part) -> const StoredTensor& {
    return tensors.require(layer_tensor(0, part), {-1, c.hidden});
  };
  const int q = tensor_rows(sized("self_attn.q_proj.weight"));
  const int k = tensor_rows(sized("self_attn.k_proj.weight"));
  c.intermediate = tensor_rows(sized("mlp.gate_proj.weight"));
  const int heads = keys.layer.integer("num_attention_heads", 1, Limits::kHeads);
  c.head_dim = keys.layer.integer_or("head_dim", 1, Limits::kHeadDim, q / heads);
  const HeadCounts counts = count_heads(tensors, q, k, c.head_dim);
  c.heads = counts.heads;
  c.kv_heads = counts.kv_heads;
  for (int i = 0; i < c.layers; ++i) {
    const auto require = [&](std::string_view part, const std::vector<std::int64_t>& shape) {
      tensors.require(layer_tensor(i, part), shape);
    };
    require("input_layernorm.weight", {c.hidden});
    require("post_attention_layernorm.weight", {c.hidden});
    require("self_attn.q_proj.weight", {q, c.hidden});
    require("self_attn.k_proj.weight", {k, c.hidden});
    require("self_attn.v_proj.weight", {k, c.hidden});
    require("self_attn.o_proj.weight", {c.hidden, q});
    require("mlp.gate_proj.weight", {c.intermediate, c.hidden});
    require("mlp.up_proj.weight", {c.intermediate, c.hidden});
    require("mlp.down_proj.weight", {c.hidden, c.intermediate});
  }
  c.qkv_bias = read_part(tensors, c, "self_attn.q_proj.bias", q);
  const bool others = read_part(tensors, c, "self_attn.k_proj.bias", k) == c.qkv_bias &&
                      read_part(tensors, c, "self_attn.v_proj.bias", k) == c.qkv_bias;
  if (!others) fail("{}: expected biases of q, k and v, found a part of them", tensors.doing());
  c.output_bias = read_part(tensors, c, "self_attn.o_proj.bias", c.hidden);
  c.qk_norm = read_part(tensors, c, "self_attn.q_norm.weight", c.head_dim);
  if (read_part(tensors, c, "self_attn.k_norm.weight", c.head_dim) != c.qk_norm) {
    fail("{}: expected norms of q and k, found one of them", tensors.doing());
  }
  c.activation = read_activation(keys.layer);
}

/// Which layers slide, and in which a row of the block sees those before it only: in those that
/// slide, unless the files say otherwise (docs/methods.md 2.6).
void read_visibility(const BlockKeys& keys, BlockConfig& c) {
  const auto causal = keys.flag({"is_causal", "causal", "causal_head"});
  c.causal = causal.value_or(false);
  SlidingLayers sliding = read_sliding_layers(keys.layer, c.layers);
  c.slides = std::move(sliding.slides);
  c.window = sliding.window;
  c.causal_slides = c.window > 0 && causal.value_or(true) &&
                    !keys.flag({"sliding_window_non_causal"}).value_or(false);
  if (c.window > 0 || !keys.flag({"use_swa"}).value_or(false)) return;
  // ModelOpt's and Xiaomi's way to let all of them slide, and see all of the block.
  constexpr std::string_view kTheirs = "swa_window_size";
  const std::string_view key = keys.with(kTheirs).has(kTheirs) ? kTheirs : "sliding_window";
  c.slides.assign(c.slides.size(), true);
  c.window = keys.with(key).integer(key, 1, INT32_MAX / 2);
}

/// As Talon counts: the layer that a stream enters. Official files count layers whose outputs are
/// taken, speculators those whose inputs are (docs/methods.md 2.6). Where the former name none,
/// they lie evenly; halves are rounded to the even number, as Python does. Where the latter name
/// none, they are EAGLE-3's.
void read_taps(const BlockKeys& keys, BlockConfig& c) {
  const bool official = c.layout != BlockConfig::Layout::speculators;
  std::string_view key = official ? "target_layer_ids" : "aux_hidden_state_layer_ids";
  constexpr std::string_view kOfEagle = "eagle_aux_hidden_state_layer_ids";
  if (!official && !keys.with(key).has(key) && keys.with(kOfEagle).has(kOfEagle)) key = kOfEagle;
  const ConfigKeys& from = keys.with(key);
  c.target_layers = keys.top.integer_or("num_target_layers", 1, Limits::kLayers, 0);
  if (const Json* ids = from.find(key); ids && ids->is_array()) {
    for (const int id : from.integers(key, official ? -1 : 0, Limits::kLayers, ids->size())) {
      c.tap_layers.push_back(id + (official ? 1 : 0));
    }
  } else if (official && c.target_layers > 0) {
    for (int i = 0; i < c.layers; ++i) {
      const double id = c.layers == 1
                            ? c.target_layers / 2
                            : std::nearbyint(1.0 + i * (c.target_layers - 4.0) / (c.layers - 1));
      c.tap_layers.push_back(static_cast<int>(id) + 1);
    }
  }
  const bool are_usual = !official && !from.has(key);
  if (c.tap_layers.empty() && !are_usual) from.refuse(key, "a list of target layers");
}

void read_block(const BlockKeys& keys, BlockConfig& c) {
  const bool speculators = c.layout == BlockConfig::Layout::speculators;
  const ConfigKeys& from = keys.with("block_size");
  c.block = speculators ? from.integer_or("block_size", 2, BlockConfig::kMostBlock, 8)
                        : from.integer("block_size", 2, BlockConfig::kMostBlock);
  c.mask_token = keys.with("mask_token_id").integer("mask_token_id", 0, Limits::kVocabulary - 1);
}

constexpr std::string_view kMarkovKinds[] = {"vanilla", "gated", "rnn"};
constexpr std::string_view kJointTensors[] = {"", "markov_head.gate_proj",
                                              "markov_head.joint_proj"};

MarkovKind read_markov_kind(const BlockKeys& keys) {
  constexpr std::string_view kKind = "markov_head_type";
  const ConfigKeys& from = keys.with(kKind);
  const std::string name = from.text_or(kKind, kMarkovKinds[0]);
  const auto found = std::find(std::begin(kMarkovKinds), std::end(kMarkovKinds), name);
  if (found == std::end(kMarkovKinds)) from.refuse(kKind, "vanilla, gated or rnn");
  return static_cast<MarkovKind>(found - std::begin(kMarkovKinds));
}

/// What the bias reads besides the token before, as one matrix with a bias.
void require_joint(const HeadTensors& tensors, const BlockConfig& c) {
  const std::int64_t rank = c.markov_rank, hidden = c.hidden;
  const auto require = [&](std::int64_t rows, std::int64_t cols) {
    const std::string_view name = joint_tensor_of(c.markov_kind);
    tensors.require(fmt::format("{}.weight", name), {rows, cols});
    tensors.require(fmt::format("{}.bias", name), {rows});
  };
  if (c.markov_kind == MarkovKind::gated) require(rank, hidden + rank);
  if (c.markov_kind == MarkovKind::rnn) require(3 * rank, 2 * rank + hidden);
}

/// DSpark's bias by the token before.
void read_markov(const HeadTensors& tensors, const BlockKeys& keys, BlockConfig& c) {
  const StoredTensor* previous = tensors.find("markov_head.markov_w1.weight", {-1, -1});
  const bool spark = previous || tensors.has("confidence_head.proj.weight");
  const bool usual = spark || c.layout == BlockConfig::Layout::deepspec;
  c.root_predicts = keys.flag({"sample_from_anchor", "shift_label"}).value_or(usual);
  if (!previous) return;
  constexpr std::string_view kRank = "markov_rank";
  c.markov_kind = read_markov_kind(keys);
  c.markov_rank = static_cast<int>(previous->shape[1]);
  c.markov_rows = tensor_rows(*previous);
  const int promised = keys.with(kRank).integer_or(kRank, 0, Limits::kWidth, c.markov_rank);
  if (promised != c.markov_rank) {
    keys.with(kRank).refuse(kRank, fmt::format("{}, as its tensor has", c.markov_rank));
  }
  const int rows = c.draft_vocabulary > 0 ? c.draft_vocabulary : c.markov_rows;
  tensors.require("markov_head.markov_w2.weight", {rows, c.markov_rank});
  require_joint(tensors, c);
}

/// How sure DSpark is of its choice at a place.
void read_confidence(const HeadTensors& tensors, const BlockKeys& keys, BlockConfig& c) {
  const StoredTensor* confidence = tensors.find("confidence_head.proj.weight", {1, -1});
  c.confidence = confidence != nullptr;
  if (!confidence) return;
  constexpr std::string_view kReads = "confidence_head_with_markov";
  c.confidence_reads_markov = keys.flag({kReads}).value_or(confidence->shape[1] > c.hidden);
  if (c.confidence_reads_markov && c.markov_rank == 0) {
    keys.with(kReads).refuse(kReads, "a \"markov_head.markov_w1.weight\" beside it");
  }
  tensors.require("confidence_head.proj.weight",
                  {1, c.hidden + (c.confidence_reads_markov ? c.markov_rank : 0)});
  tensors.require("confidence_head.proj.bias", {1});
}

void read_block_vocabularies(const HeadTensors& tensors, const BlockKeys& keys, BlockConfig& c) {
  c.vocabulary = keys.layer.integer_or("vocab_size", 1, Limits::kVocabulary, 0);
  if (const StoredTensor* own = tensors.find("embed_tokens.weight", {-1, c.hidden})) {
    c.own_embedding = true;
    c.vocabulary = tensor_rows(*own);
  }
  if (const StoredTensor* output = tensors.find("lm_head.weight", {-1, c.hidden})) {
    c.draft_vocabulary = tensor_rows(*output);
  }
  const StoredTensor* map = tensors.find("d2t", {-1});
  if (!map) map = tensors.find("token_map", {-1});  // of GGUF
  tensors.find("t2d", {-1});
  c.reduced_vocabulary = map != nullptr;
  if (map && tensor_rows(*map) != c.draft_vocabulary) {
    fail("{}: {}: expected one entry for each of the {} rows of \"lm_head.weight\", found {}",
         tensors.doing(), quote(map->name), c.draft_vocabulary, tensor_rows(*map));
  }
}

/// What ModelOpt's names of DSpark's parts begin with, and the official ones.
constexpr std::pair<std::string_view, std::string_view> kModelOptParts[] = {
    {"markov_w1.", "markov_head.markov_w1."},      {"markov_w2.", "markov_head.markov_w2."},
    {"gate_proj.", "markov_head.gate_proj."},      {"joint_proj.", "markov_head.joint_proj."},
    {"confidence_proj.", "confidence_head.proj."},
};

std::optional<std::string> common_block_name(std::string_view name) {
  for (const std::string_view prefix : {"model.", "logit_head."}) {  // the second: SpecForge's
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  const bool idle = name.ends_with("rotary_emb.inv_freq") || name.starts_with("verifier_");
  if (idle) return std::nullopt;
  for (const auto& [theirs, official] : kModelOptParts) {
    if (take_prefix(name, theirs)) return fmt::format("{}{}", official, name);
  }
  return std::string(name);
}

}  // namespace

std::string_view name_of(MarkovKind kind) { return kMarkovKinds[static_cast<std::size_t>(kind)]; }

std::string_view joint_tensor_of(MarkovKind kind) {
  return kJointTensors[static_cast<std::size_t>(kind)];
}

bool is_block_head(const Checkpoint& checkpoint) {
  if (checkpoint.format == CheckpointFormat::gguf) return is_gguf_block(checkpoint);
  const std::string architecture = first_architecture(checkpoint.metadata);
  const std::string kind = speculators_kind(checkpoint.metadata);
  const bool names_it = architecture.starts_with("DFlash") || names_flash(architecture) ||
                        names_spark(architecture) || architecture == kDominoArchitecture ||
                        architecture == kDflareArchitecture;
  return names_it || kind == "dflash" || kind == "dspark";
}

HeadTensors block_tensors(const Checkpoint& checkpoint) {
  const bool gguf = checkpoint.format == CheckpointFormat::gguf;
  return {checkpoint, gguf ? block_name_of_gguf : common_block_name};
}

BlockConfig read_block_config(const Checkpoint& checkpoint, const HeadTensors& tensors) {
  if (!is_block_head(checkpoint)) {
    fail("{}: expected the architecture of a block drafter (DFlash or DSpark), found {}",
         tensors.doing(), quote(first_architecture(checkpoint.metadata)));
  }
  const BlockKeys keys = keys_of_block(checkpoint);
  BlockConfig c;
  c.layout = block_layout_of(keys);
  const StoredTensor& fusion = tensors.require("fc.weight", {-1, -1});
  c.hidden = tensor_rows(fusion);
  c.feature_width = static_cast<int>(fusion.shape[1]);
  constexpr std::string_view kTargetHidden = "target_hidden_size";
  c.target_hidden = keys.with(kTargetHidden).integer_or(kTargetHidden, 1, Limits::kWidth, 0);
  tensors.require("hidden_norm.weight", {c.hidden});
  tensors.require("norm.weight", {c.hidden});
  read_layers(tensors, keys, c);
  read_visibility(keys, c);
  c.logit_form = SaidLogitForm::read(keys.layer);
  read_taps(keys, c);
  read_block(keys, c);
  c.context =
      keys.layer.integer_or("max_position_embeddings", 1, Limits::kContext, kUsualHeadContext);
  c.norm_epsilon = static_cast<float>(keys.layer.number_or("rms_norm_eps", 0, 1, 1e-6));
  c.rope = checkpoint.format == CheckpointFormat::gguf
               ? read_gguf_rope(checkpoint, block_prefix_of_gguf(checkpoint), c.context, c.head_dim)
               : read_rope_of(keys.layer, c.context, c.head_dim,
                              rope_kind(keys.layer, c.layout == BlockConfig::Layout::speculators));
  check_divisors(c.rope, c.head_dim, tensors.doing());
  read_block_vocabularies(tensors, keys, c);
  read_markov(tensors, keys, c);
  read_confidence(tensors, keys, c);
  tensors.refuse_unknown();
  return c;
}

std::vector<FeatureTap> fit_to_target(const BlockConfig& c, const ModelConfig& target,
                                      const std::string& doing) {
  if (c.target_hidden != 0 && c.target_hidden != target.hidden) {
    refuse_target(doing, "\"target_hidden_size\": expected {}, found {}", target.hidden,
                  c.target_hidden);
  }
  if (c.hidden != target.hidden && !(c.own_embedding && c.draft_vocabulary > 0)) {
    refuse_target(doing, "\"hidden_size\": expected {}, or an own \"{}\", found {}", target.hidden,
                  c.own_embedding ? "lm_head.weight" : "embed_tokens.weight", c.hidden);
  }
  if (c.target_layers != 0 && c.target_layers != target.layers) {
    refuse_target(doing, "\"num_target_layers\": expected {}, found {}", target.layers,
                  c.target_layers);
  }
  const std::vector<int> layers =
      c.tap_layers.empty() ? usual_tap_layers(target.layers) : c.tap_layers;
  const auto taps = static_cast<int>(layers.size());
  if (c.feature_width != taps * target.hidden) {
    refuse_target(doing, "\"fc.weight\": expected {} columns, those of {} target layers, found {}",
                  taps * target.hidden, taps, c.feature_width);
  }
  if (c.vocabulary != 0 && c.vocabulary != target.vocabulary) {
    refuse_target(doing, "{}: expected {}, found {}",
                  c.own_embedding ? "rows of \"embed_tokens.weight\"" : "\"vocab_size\"",
                  target.vocabulary, c.vocabulary);
  }
  if (c.draft_vocabulary != 0 && !c.reduced_vocabulary && c.draft_vocabulary != target.vocabulary) {
    refuse_target(doing, "rows of \"lm_head.weight\": expected {}, or a \"d2t\", found {}",
                  target.vocabulary, c.draft_vocabulary);
  }
  if (c.markov_rank > 0 && c.markov_rows != target.vocabulary) {
    refuse_target(doing, "rows of \"markov_head.markov_w1.weight\": expected {}, found {}",
                  target.vocabulary, c.markov_rows);
  }
  if (c.mask_token >= target.vocabulary) {
    refuse_target(doing, "\"mask_token_id\": expected a token below {}, found {}",
                  target.vocabulary, c.mask_token);
  }
  std::vector<FeatureTap> wanted;
  for (const int layer : layers) {
    if (layer >= target.layers) {
      refuse_target(doing, "tap layer: expected one that enters a layer below {}, found {}",
                    target.layers, layer);
    }
    wanted.push_back({layer});
  }
  return wanted;
}

Json describe_block_head(const Checkpoint& checkpoint) {
  const BlockConfig c = read_block_config(checkpoint, block_tensors(checkpoint));
  const char* const layouts[] = {"official", "DeepSpec", "speculators"};
  return {{"architecture", "draft head"},
          {"variant", c.markov_rank > 0 ? "DSpark" : "DFlash"},
          {"layout", layouts[static_cast<int>(c.layout)]},
          {"hidden", c.hidden},
          {"feature_width", c.feature_width},
          {"layers", c.layers},
          {"intermediate", c.intermediate},
          {"heads", c.heads},
          {"kv_heads", c.kv_heads},
          {"head_dim", c.head_dim},
          {"draft_vocabulary", c.draft_vocabulary},
          {"rope_base", c.rope.base},
          {"tap_layers", c.tap_layers},
          {"block", c.block},
          {"guesses", c.guesses()},
          {"mask_token", c.mask_token},
          {"markov_rank", c.markov_rank},
          {"markov_head", c.markov_rank > 0 ? name_of(c.markov_kind) : "none"},
          {"confidence", c.confidence}};
}

}  // namespace talon
