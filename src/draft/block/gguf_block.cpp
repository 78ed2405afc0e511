#include "draft/block/gguf_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "draft/block/block_config.h"
#include "model/config/config_keys.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

/// That of llama.cpp, and those of forks of it.
constexpr std::string_view kBlockArchitecture = "dflash";
constexpr std::string_view kForkArchitectures[] = {"dflash-draft", "qwen35-dflash-draft"};

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

/// Further names that forks have.
constexpr Pair kForkNames[] = {
    {"dflash.fc.weight", "fc.weight"},
    {"dflash_fc.weight", "fc.weight"},
    {"dflash.hidden_norm.weight", "hidden_norm.weight"},
    {"dflash_hidden_norm.weight", "hidden_norm.weight"},
    {"dflash.dspark.markov.w1", "markov_head.markov_w1.weight"},
    {"dflash.dspark.markov.w2", "markov_head.markov_w2.weight"},
    {"dflash.dspark.confidence.weight", "confidence_head.proj.weight"},
    {"dflash.dspark.confidence.bias", "confidence_head.proj.bias"},
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
constexpr Pair kForkLayerNames[] = {{"post_attention_norm.", "post_attention_layernorm."}};

/// Official key, key of the file below its architecture, and its least and largest value.
struct IntegerKey {
  const char* official;
  const char* theirs;
  int low, high;
};
constexpr IntegerKey kIntegers[] = {
    {"max_position_embeddings", "context_length", 1, ConfigLimits::kContext},
    {"num_hidden_layers", "block_count", 1, ConfigLimits::kLayers},
    {"num_attention_heads", "attention.head_count", 1, ConfigLimits::kHeads},
    {"head_dim", "attention.key_length", 1, ConfigLimits::kHeadDim},
    {"sliding_window", "attention.sliding_window", 0, INT32_MAX / 2},
    {"block_size", "block_size", 2, BlockConfig::kMostBlock},
    {"block_size", "dflash.block_size", 2, BlockConfig::kMostBlock},  // of forks, as the next two
    {"num_target_layers", "dflash.target.block_count", 1, ConfigLimits::kLayers},
    {"mask_token_id", "dflash.mask_token_id", 0, ConfigLimits::kVocabulary - 1},
    {"mask_token_id", "mask_token_id", 0, ConfigLimits::kVocabulary - 1},
};

/// Of each layer whether it slides: all do unless a pattern says otherwise.
Json layer_types(const ConfigKeys& keys, const std::string& prefix, int layers) {
  const std::string window = prefix + "attention.sliding_window";
  const bool slides = keys.integer_or(window, 0, INT32_MAX / 2, 0) > 0;
  const auto count = static_cast<std::size_t>(layers);
  auto pattern = keys.flags(prefix + "attention.sliding_window_pattern", count);
  if (pattern.empty()) pattern.assign(count, slides);
  Json types = Json::array();
  for (const bool each : pattern) {
    types.push_back(slides && each ? "sliding_attention" : "full_attention");
  }
  return types;
}

/// llama.cpp's files name the layers that streams enter, forks and official keys those they leave.
Json layers_left(const ConfigKeys& keys, const std::string& prefix, bool is_of_fork) {
  const std::string key = prefix + (is_of_fork ? "dflash.target_layer_ids" : "target_layers");
  const Json* taps = keys.find(key);
  if (!taps || !taps->is_array() || taps->empty()) keys.refuse(key, "a list of target layers");
  Json left = Json::array();
  for (const int tap : keys.integers(key, 0, ConfigLimits::kLayers, taps->size())) {
    left.push_back(is_of_fork ? tap : tap - 1);
  }
  return left;
}

}  // namespace

std::optional<std::string> block_name_of_gguf(std::string_view name) {
  for (const auto names : {std::span<const Pair>(kBlockNames), std::span<const Pair>(kForkNames)}) {
    for (const auto& [theirs, official] : names) {
      if (name == theirs) return std::string(official);
    }
  }
  if (!name.starts_with("blk.")) return std::string(name);
  const std::string_view rest = name.substr(4);
  const std::size_t dot = rest.find('.');
  if (dot == rest.npos) return std::string(name);
  const std::string_view part = rest.substr(dot + 1);
  for (const auto names :
       {std::span<const Pair>(kLayerNames), std::span<const Pair>(kForkLayerNames)}) {
    for (const auto& [theirs, official] : names) {
      if (!part.starts_with(theirs)) continue;
      const std::string_view layer = rest.substr(0, dot), kind = part.substr(theirs.size());
      return fmt::format("layers.{}.{}{}", layer, official, kind);
    }
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

bool is_gguf_block(const Checkpoint& checkpoint) {
  const Json architecture = checkpoint.metadata.value("general.architecture", Json());
  if (!architecture.is_string()) return false;
  const auto name = architecture.get<std::string>();
  const auto is_it = [&](std::string_view known) { return name == known; };
  return is_it(kBlockArchitecture) || std::ranges::any_of(kForkArchitectures, is_it);
}

std::string block_prefix_of_gguf(const Checkpoint& checkpoint) {
  const ConfigKeys keys(checkpoint.metadata, checkpoint.path.string());
  return keys.text("general.architecture") + ".";
}

Json block_keys_of_gguf(const Checkpoint& checkpoint) {
  const ConfigKeys keys(checkpoint.metadata, checkpoint.path.string());
  const std::string prefix = block_prefix_of_gguf(checkpoint);
  const bool is_of_fork = keys.text("general.architecture") != kBlockArchitecture;
  const std::string streams = prefix + "hyper_connection.count";
  if (keys.integer_or(streams, 0, 1 << 16, 0) > 0) {
    keys.refuse(streams, "none: a drafter of ordinary layers");
  }
  const bool spark =
      checkpoint.find("markov_w1.weight") || checkpoint.find("dflash.dspark.markov.w1");
  const int layers = keys.integer(prefix + "block_count", 1, ConfigLimits::kLayers);
  const std::string sees_all = prefix + std::string(kNonCausalSlides);
  Json json = {{"architectures", {spark ? "GgufDSparkModel" : "DFlashDraftModel"}},
               {"layer_types", layer_types(keys, prefix, layers)},
               {"sample_from_anchor", keys.flag_or(prefix + "sample_from_anchor", spark)},
               {"sliding_window_non_causal", keys.flag_or(sees_all, false)}};
  // What is false of the whole is not said of layers that slide.
  if (keys.flag_or(prefix + "attention.causal", false)) json["is_causal"] = true;
  const auto read = [&](const char* official, const std::string& theirs, int low, int high) {
    if (keys.has(theirs)) json[official] = keys.integer(theirs, low, high);
  };
  read("mask_token_id", "tokenizer.ggml.mask_token_id", 0, ConfigLimits::kVocabulary - 1);
  for (const IntegerKey& key : kIntegers)
    read(key.official, prefix + key.theirs, key.low, key.high);
  const std::string epsilon = prefix + "attention.layer_norm_rms_epsilon";
  if (keys.has(epsilon)) json["rms_norm_eps"] = keys.number(epsilon, 0, 1);
  for (const char* key : {"logit_scale", "final_logit_softcapping"})
    if (const Json* value = keys.find(prefix + key)) json[key] = *value;
  for (const auto& [official, theirs] :
       {std::pair{"block_size", "block_size"},
        std::pair{"num_attention_heads", "attention.head_count"}}) {
    if (!json.contains(official)) keys.refuse(prefix + theirs, "an integer");
  }
  if (!json.contains("mask_token_id")) keys.refuse("tokenizer.ggml.mask_token_id", "a token");
  json["target_layer_ids"] = layers_left(keys, prefix, is_of_fork);
  return json;
}

}  // namespace talon
