#include "draft/head/head_tensors.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/error.h"
#include "draft/head/gguf_head.h"
#include "io/quote.h"
#include "io/tensor_layout.h"

namespace talon {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

// The one layer of a head: official EAGLE-3, everybody's EAGLE-1 and vLLM's EAGLE-3, speculators'
// EAGLE-1.
constexpr std::array<std::string_view, 3> kLayerPrefixes = {"midlayer.", "layers.0.",
                                                            "transformer."};
constexpr std::array<std::string_view, 2> kLayerParts = {"self_attn.", "mlp."};

constexpr Pair kRenamed[] = {
    {"fusion_fc.weight", "fc.weight"},  // speculators, EAGLE-1
    {"fusion_fc.bias", "fc.bias"},
    {"draft_id_to_target_id", "d2t"},  // vLLM
    {"embedding_layernorm.weight",
     "embedding_norm.weight"},                            // speculators, EAGLE-1 with layer norms
    {"embed_layernorm.weight", "embedding_norm.weight"},  // ... before their conversion
    {"hidden_layernorm.weight", "input_layernorm.weight"},
    {"pre_lm_head_layernorm.weight", "norm.weight"},
    {"lm_head_layernorm.weight", "norm.weight"},
    {"enorm.weight", "embedding_norm.weight"},  // vLLM, HASS with add_para_norm
    {"hnorm.weight", "feature_norm.weight"},
    {"aux_norm_low.weight", "fc_norm.0.weight"},  // SGLang, EAGLE-3.1's first name
    {"aux_norm_mid.weight", "fc_norm.1.weight"},
    {"aux_norm_high.weight", "fc_norm.2.weight"},
};

// Used in training only, or constants that follow from the configuration.
constexpr std::array<std::string_view, 2> kIgnored = {"verifier_norm.weight",
                                                      "verifier_lm_head.weight"};
constexpr std::string_view kInverseFrequencies = "rotary_emb.inv_freq";

/// vLLM's first layout of EAGLE-1 nests the Llama configuration and carries two norms that nobody
/// applies, unless it says by this key that one is not skipped.
bool is_idle(const Checkpoint& checkpoint, const char* skips) {
  const Json& config = checkpoint.metadata;
  if (!config.is_object() || config.value("model_type", Json()) != "eagle") return false;
  const Json layer = config.value("model", Json());
  const bool is_applied = layer.is_object() && layer.value(skips, Json()) == false;
  return !is_applied;
}

std::string show_expected(const std::vector<std::int64_t>& shape) {
  std::string text = show_shape(shape);
  for (std::size_t at; (at = text.find("-1")) != std::string::npos;) text.replace(at, 2, "any");
  return text;
}

bool shape_matches(const std::vector<std::int64_t>& expected,
                   const std::vector<std::int64_t>& found) {
  return std::equal(expected.begin(), expected.end(), found.begin(), found.end(),
                    [](std::int64_t e, std::int64_t f) { return e == -1 || e == f; });
}

HeadTensors::Naming naming_of(const Checkpoint& checkpoint) {
  return checkpoint.format == CheckpointFormat::gguf ? common_name_of_gguf : common_head_name;
}

}  // namespace

bool take_prefix(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

std::optional<std::string> common_head_name(std::string_view name) {
  while (take_prefix(name, "model.")) {
  }
  if (name.ends_with(kInverseFrequencies)) return std::nullopt;
  if (std::find(kIgnored.begin(), kIgnored.end(), name) != kIgnored.end()) return std::nullopt;
  for (const std::string_view prefix : kLayerPrefixes) {
    if (!take_prefix(name, prefix)) continue;
    for (const std::string_view part : kLayerParts) take_prefix(name, part);
    return std::string(name);
  }
  for (const auto& [theirs, ours] : kRenamed) {
    if (name == theirs) return std::string(ours);
  }
  return std::string(name);
}

HeadTensors::HeadTensors(const Checkpoint& checkpoint, Naming name_of)
    : doing_(fmt::format("load head {}", quote(checkpoint.path.string()))) {
  for (const StoredTensor& tensor : checkpoint.tensors) {
    if (auto name = name_of(tensor.name)) add(std::move(*name), tensor);
  }
}

HeadTensors::HeadTensors(const Checkpoint& checkpoint)
    : HeadTensors(checkpoint, naming_of(checkpoint)) {
  if (entries_.contains("hidden_norm.weight")) return;  // of EAGLE-3, which has both
  if (is_idle(checkpoint, "skip_prenorm")) entries_.erase("input_layernorm.weight");
  if (is_idle(checkpoint, "skip_output_norm")) entries_.erase("norm.weight");
}

void HeadTensors::add(std::string name, const StoredTensor& tensor) {
  const auto [entry, added] = entries_.emplace(std::move(name), Entry{&tensor});
  if (!added) {
    fail("{}: expected one tensor {}, found {} and {}", doing_, quote(entry->first),
         quote(entry->second.tensor->name), quote(tensor.name));
  }
}

const StoredTensor* HeadTensors::find(std::string_view name) const {
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) return nullptr;
  entry->second.known = true;
  return entry->second.tensor;
}

const StoredTensor& HeadTensors::require(std::string_view name) const {
  const StoredTensor* tensor = find(name);
  if (!tensor) fail("{}: expected a tensor {}, found none", doing_, quote(name));
  return *tensor;
}

const StoredTensor& HeadTensors::require(std::string_view name,
                                         const std::vector<std::int64_t>& shape) const {
  require(name);
  return *find(name, shape);
}

const StoredTensor* HeadTensors::find(std::string_view name,
                                      const std::vector<std::int64_t>& shape) const {
  const StoredTensor* tensor = find(name);
  if (tensor && !shape_matches(shape, tensor->shape)) {
    fail("{}: {}: expected {}, found {}", doing_, quote(tensor->name), show_expected(shape),
         show_shape(tensor->shape));
  }
  return tensor;
}

void HeadTensors::refuse_unknown() const {
  for (const auto& [name, entry] : entries_) {
    if (!entry.known) {
      fail("{}: expected the tensors of a draft head, found {} besides, whose meaning is not known",
           doing_, quote(entry.tensor->name));
    }
  }
}

bool is_draft_head(const Checkpoint& checkpoint) {
  const auto is_fusion = [](const StoredTensor& tensor) {
    return common_head_name(tensor.name) == "fc.weight";
  };
  return std::any_of(checkpoint.tensors.begin(), checkpoint.tensors.end(), is_fusion);
}

}  // namespace talon
