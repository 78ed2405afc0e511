#include "draft/head/head_parts.h"

#include <algorithm>

#include "model/config/config_readers.h"

namespace talon {
namespace {

/// A list of another length is another model's: it does no harm where all of its layers see all.
std::vector<bool> sliding_types(const ConfigKeys& keys, const Json& types, std::size_t layers) {
  constexpr std::string_view kTypes = "layer_types";
  const auto is_full = [](const Json& type) { return type == "full_attention"; };
  if (types.is_array() && std::all_of(types.begin(), types.end(), is_full))
    return std::vector<bool>(layers, false);
  if (!types.is_array() || types.size() != layers)
    keys.refuse(kTypes, fmt::format("a list of {} names", layers));
  std::vector<bool> slides;
  for (const Json& type : types) {
    slides.push_back(type == "sliding_attention");
    if (!slides.back() && !is_full(type))
      keys.refuse(kTypes, "full_attention or sliding_attention");
  }
  return slides;
}

}  // namespace

SlidingLayers read_sliding_layers(const ConfigKeys& keys, int layers) {
  constexpr std::string_view kWindow = "sliding_window";
  const auto count = static_cast<std::size_t>(layers);
  SlidingLayers found;
  if (const Json* types = keys.find("layer_types")) {
    found.slides = sliding_types(keys, *types, count);
  } else {
    const bool some = keys.flag_or("use_sliding_window", false) && keys.has(kWindow);
    const int first = some ? keys.integer_or("max_window_layers", 0, INT32_MAX, 28) : layers;
    for (int layer = 0; layer < layers; ++layer) found.slides.push_back(layer >= first);
  }
  if (std::find(found.slides.begin(), found.slides.end(), true) != found.slides.end())
    found.window = keys.integer(kWindow, 1, INT32_MAX / 2);
  return found;
}

std::string first_architecture(const Json& config) {
  if (!config.is_object()) return "";
  const Json list = config.value("architectures", Json());
  if (!list.is_array() || list.empty() || !list.front().is_string()) return "";
  return list.front().get<std::string>();
}

std::string_view rope_kind(const ConfigKeys& layer, bool is_of_speculators) {
  constexpr std::string_view kSliding = "sliding_attention";
  const auto parts = rope_keys_of(layer);
  return is_of_speculators && parts && parts->has(kSliding) ? kSliding : "full_attention";
}

InputTransform read_activation(const ConfigKeys& keys) {
  const std::string_view key = keys.has("hidden_act") ? "hidden_act" : "hidden_activation";
  const std::string name = keys.text_or(key, "silu");
  if (name == "silu" || name == "swish") return InputTransform::silu_gate;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return InputTransform::gelu_tanh_gate;
  keys.refuse(key, "silu or gelu_pytorch_tanh");
}

int tensor_rows(const StoredTensor& tensor) { return static_cast<int>(tensor.shape[0]); }
int tensor_columns(const StoredTensor& tensor) { return static_cast<int>(tensor.shape[1]); }

HeadCounts count_heads(const HeadTensors& tensors, int q_rows, int k_rows, int head_dim) {
  const bool is_even = head_dim > 0 && head_dim % 2 == 0;
  const bool whole = is_even && k_rows > 0 && q_rows % head_dim == 0 && k_rows % head_dim == 0;
  if (!whole || q_rows % k_rows != 0) {
    fail(
        "{}: \"q_proj.weight\" and \"k_proj.weight\": expected whole heads of an even size that "
        "share keys evenly, found {} and {} rows for heads of {}",
        tensors.doing(), q_rows, k_rows, head_dim);
  }
  return {q_rows / head_dim, k_rows / head_dim};
}

}  // namespace talon
