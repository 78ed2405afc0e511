#include "draft/block/gguf_block.h"

#include <fmt/format.h>

#include <utility>

#include "draft/block/block_config.h"
#include "model/config/config_keys.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

/// `d2t` in the file holds ids.
constexpr std::string_view kBlockTokenMap = "token_map";

/// Of what a head has once: name in the file and official name.
constexpr Pair kBlockNames[] = {
    {"token_embd.weight", "embed_tokens.weight"},
    {"fc.weight", "fc.weight"},
    {"enc.output_norm.weight", "hidden_norm.weight"},
    {"output_norm.weight", "norm.weight"},
    {"output.weight", "lm_head.weight"},
    {"d2t", kBlockTokenMap},
    {"markov_w1.weight", "markov_head.markov_w1.weight"},
    {"markov_w2.weight", "markov_head.markov_w2.weight"},
    {"conf_proj.weight", "confidence_head.proj.weight"},
    {"conf_proj.bias", "confidence_head.proj.bias"},
};

/// Of what each layer has: name in the file and official name.
constexpr Pair kLayerNames[] = {
    {"attn_norm.", "input_layernorm."},    {"attn_q.", "self_attn.q_proj."},
    {"attn_k.", "self_attn.k_proj."},      {"attn_v.", "self_attn.v_proj."},
    {"attn_output.", "self_attn.o_proj."}, {"attn_q_norm.", "self_attn.q_norm."},
    {"attn_k_norm.", "self_attn.k_norm."}, {"ffn_norm.", "post_attention_layernorm."},
    {"ffn_gate.", "mlp.gate_proj."},       {"ffn_up.", "mlp.up_proj."},
    {"ffn_down.", "mlp.down_proj."},
};

/// Official key, key of the file, and its least and largest value.
struct IntegerKey {
  const char* official;
  const char* theirs;
  int low, high;
};
constexpr IntegerKey kIntegers[] = {
    {"max_position_embeddings", "dflash.context_length", 1, ConfigLimits::kContext},
    {"num_hidden_layers", "dflash.block_count", 1, ConfigLimits::kLayers},
    {"num_attention_heads", "dflash.attention.head_count", 1, ConfigLimits::kHeads},
    {"head_dim", "dflash.attention.key_length", 1, ConfigLimits::kHeadDim},
    {"sliding_window", "dflash.attention.sliding_window", 0, INT32_MAX / 2},
    {"block_size", "dflash.block_size", 2, BlockConfig::kMostBlock},
    {"mask_token_id", "tokenizer.ggml.mask_token_id", 0, ConfigLimits::kVocabulary - 1},
    {"mask_token_id", "dflash.mask_token_id", 0, ConfigLimits::kVocabulary - 1},
};

/// Of each layer whether it slides: all do unless a pattern says otherwise.
Json layer_types(const ConfigKeys& keys, int layers) {
  const bool slides = keys.integer_or("dflash.attention.sliding_window", 0, INT32_MAX / 2, 0) > 0;
  const auto count = static_cast<std::size_t>(layers);
  auto pattern = keys.flags("dflash.attention.sliding_window_pattern", count);
  if (pattern.empty()) pattern.assign(count, slides);
  Json types = Json::array();
  for (const bool each : pattern) {
    types.push_back(slides && each ? "sliding_attention" : "full_attention");
  }
  return types;
}

/// The file names the layers that streams enter, official keys those they leave.
Json layers_left(const ConfigKeys& keys) {
  constexpr std::string_view kKey = "dflash.target_layers";
  const Json* taps = keys.find(kKey);
  if (!taps || !taps->is_array() || taps->empty()) keys.refuse(kKey, "a list of target layers");
  Json left = Json::array();
  for (const int tap : keys.integers(kKey, 0, ConfigLimits::kLayers, taps->size())) {
    left.push_back(tap - 1);
  }
  return left;
}

}  // namespace

std::optional<std::string> block_name_of_gguf(std::string_view name) {
  for (const auto& [theirs, official] : kBlockNames) {
    if (name == theirs) return std::string(official);
  }
  if (!name.starts_with("blk.")) return std::string(name);
  const std::string_view rest = name.substr(4);
  const std::size_t dot = rest.find('.');
  if (dot == rest.npos) return std::string(name);
  const std::string_view part = rest.substr(dot + 1);
  for (const auto& [theirs, official] : kLayerNames) {
    if (!part.starts_with(theirs)) continue;
    return fmt::format("layers.{}.{}{}", rest.substr(0, dot), official, part.substr(theirs.size()));
  }
  return std::string(name);
}

std::vector<GgufBlockName> block_names_in_gguf(int layers) {
  std::vector<GgufBlockName> names;
  for (const auto& [theirs, official] : kBlockNames) {
    if (official != kBlockTokenMap) names.push_back({std::string(official), std::string(theirs)});
  }
  for (int i = 0; i < layers; ++i) {
    for (const auto& [theirs, official] : kLayerNames) {
      names.push_back({fmt::format("layers.{}.{}weight", i, official),
                       fmt::format("blk.{}.{}weight", i, theirs)});
    }
  }
  return names;
}

Json block_keys_of_gguf(const Checkpoint& checkpoint) {
  const ConfigKeys keys(checkpoint.metadata, checkpoint.path.string());
  if (keys.integer_or("dflash.hyper_connection.count", 0, 1 << 16, 0) > 0) {
    keys.refuse("dflash.hyper_connection.count", "none: a drafter of ordinary layers");
  }
  const bool spark = checkpoint.find("markov_w1.weight") != nullptr;
  const int layers = keys.integer("dflash.block_count", 1, ConfigLimits::kLayers);
  Json json = {{"architectures", {spark ? "GgufDSparkModel" : "DFlashDraftModel"}},
               {"layer_types", layer_types(keys, layers)},
               {"sample_from_anchor", keys.flag_or("dflash.sample_from_anchor", spark)},
               {"is_causal", keys.flag_or("dflash.attention.causal", false)}};
  for (const IntegerKey& key : kIntegers) {
    if (keys.has(key.theirs)) json[key.official] = keys.integer(key.theirs, key.low, key.high);
  }
  constexpr const char* kEpsilon = "dflash.attention.layer_norm_rms_epsilon";
  if (keys.has(kEpsilon)) json["rms_norm_eps"] = keys.number(kEpsilon, 0, 1);
  for (const char* needed : {"dflash.block_size", "dflash.attention.head_count"}) {
    if (!keys.has(needed)) keys.refuse(needed, "an integer");
  }
  if (!json.contains("mask_token_id")) keys.refuse("tokenizer.ggml.mask_token_id", "a token");
  json["target_layer_ids"] = layers_left(keys);
  return json;
}

}  // namespace talon
