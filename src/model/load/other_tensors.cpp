#include <algorithm>
#include <charconv>
#include <optional>

#include "core/error.h"
#include "model/load/load_layer.h"

namespace talon {
namespace {

/// What the names of layers begin with.
std::string layers_of(const TensorNames& names) {
  return names.attention_norm.substr(0, names.attention_norm.find("{}"));
}

bool is_zero(const StoredTensor& tensor) {
  return std::ranges::all_of(tensor.bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

/// Whether a forward would be another one with it: not so the biases of zero that quantised folders
/// hold for every matrix, nor masks and frequencies that older ones hold. Files of GGUF may hold a
/// factor beside a matrix.
bool would_count(const StoredTensor& tensor) {
  const bool is_bias = tensor.name.ends_with(".bias");
  if (is_bias) return tensor.shape.size() == 1 && !is_zero(tensor);
  return tensor.name.ends_with(".weight") || tensor.name.ends_with(".sinks") ||
         tensor.name.ends_with(".scale");
}

}  // namespace

std::optional<int> layer_of(std::string_view tensor, const TensorNames& names) {
  const std::string layers = layers_of(names);
  if (!tensor.starts_with(layers)) return std::nullopt;
  int layer = 0;
  const auto [end, problem] =
      std::from_chars(tensor.data() + layers.size(), tensor.data() + tensor.size(), layer);
  if (problem != std::errc() || layer < 0) return std::nullopt;
  if (end == tensor.data() + tensor.size() || *end != '.') return std::nullopt;
  return layer;
}

bool is_passed_over(std::string_view tensor, int layer, const TensorNames& names,
                    const ModelConfig& config) {
  const LayerPlan& plan = config.plans[static_cast<std::size_t>(layer)];
  const auto is_part_of = [&](const std::string& part) {
    return !part.empty() && tensor.starts_with(layer_tensor(part, layer, ""));
  };
  if (plan.latent.kv_rank > 0) return is_part_of(names.kv_up);
  return !plan.writes_cache &&
         (is_part_of(names.k) || is_part_of(names.v) || is_part_of(names.k_norm));
}

void LayerLoader::expect_no_others() const {
  const Checkpoint& checkpoint = tensors_.checkpoint();
  const std::string layers = layers_of(names_);
  const std::string output = names_.output.substr(0, names_.output.rfind('.'));
  const auto is_of_prediction = [&](int layer) {
    return layer >= config_.layers &&
           (checkpoint.find(layers + std::to_string(layer) + ".eh_proj.weight") ||
            checkpoint.find(layers + std::to_string(layer) + ".nextn.eh_proj.weight"));
  };
  const auto is_known = [&](int layer, const std::string& name) {
    if (is_of_prediction(layer)) return true;
    return layer < config_.layers && is_passed_over(name, layer, names_, config_);
  };
  for (const StoredTensor& tensor : checkpoint.tensors) {
    const std::optional<int> layer = layer_of(tensor.name, names_);
    const bool is_of_text = layer || tensor.name == output + ".bias" ||
                            tensor.name == output + ".scale" ||
                            tensor.name == names_.final_norm + ".bias";
    if (!is_of_text || !would_count(tensor) || tensors_.was_read(tensor.name)) continue;
    if (layer && is_known(*layer, tensor.name)) continue;
    fail(
        "load {} \"{}\": expected no weights but those of the {} layers that the configuration "
        "describes, found some that it says nothing of",
        checkpoint.path.string(), tensor.name, config_.layers);
  }
}

}  // namespace talon
