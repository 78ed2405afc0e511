#include <cmath>

#include "core/error.h"
#include "model/load/load_layer.h"

namespace talon {
namespace {

/// Of a matrix whose rows go key head by key head, each with parts of these sizes: the rows of
/// part `index`.
std::vector<std::int32_t> rows_of_part(int key_heads, std::span<const int> sizes,
                                       std::size_t index) {
  int together = 0, before = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i < index) before += sizes[i];
    together += sizes[i];
  }
  std::vector<std::int32_t> rows;
  for (int head = 0; head < key_heads; ++head) {
    for (int i = 0; i < sizes[index]; ++i) rows.push_back(head * together + before + i);
  }
  return rows;
}

}  // namespace

/// Qwen3-Next's folders and older GGUF files hold [q | k | v | z] and [b | a] of each key head in
/// one matrix, newer GGUF files the second of these alone.
void LayerLoader::load_recurrent_inputs(int layer, const RecurrentPlan& plan, RecurrentWeights& w) {
  const int hidden = config_.hidden, heads = plan.key_heads;
  const auto name = [&](const std::string& of) { return layer_tensor(of, layer); };
  const int values = plan.value_heads / heads * plan.value_dim;
  const std::string inputs = name(names_.state_inputs);
  if (config_.forms.fused_by_key_head && !tensors_.has(inputs)) {
    const std::string fused = name(names_.state_fused_inputs);
    const int sizes[] = {plan.key_dim, plan.key_dim, values, values};
    const int stored = plan.channels() + plan.width();
    std::vector<std::int32_t> order;
    for (std::size_t part = 0; part < 3; ++part) {
      const auto rows = rows_of_part(heads, sizes, part);
      order.insert(order.end(), rows.begin(), rows.end());
    }
    w.inputs = tensors_.matrix(fused, plan.channels(), hidden, {0, stored, order});
    const auto gates = rows_of_part(heads, sizes, 3);
    w.gate = tensors_.matrix(fused, plan.width(), hidden, {0, stored, gates});
  } else {
    w.inputs = tensors_.matrix(inputs, plan.channels(), hidden);
    w.gate = tensors_.matrix(name(names_.state_gate), plan.width(), hidden);
  }
  if (!config_.forms.fused_by_key_head) {
    w.write = tensors_.float_matrix(name(names_.state_write), plan.value_heads, hidden);
    w.decay = tensors_.float_matrix(name(names_.state_decay), plan.value_heads, hidden);
    return;
  }
  const int sizes[] = {plan.value_heads / heads, plan.value_heads / heads};
  const auto part = [&](std::size_t index) {
    const auto order = rows_of_part(heads, sizes, index);
    return tensors_.float_matrix(name(names_.state_fused_gates), plan.value_heads, hidden,
                                 {0, 2 * plan.value_heads, order});
  };
  w.write = part(0);
  w.decay = part(1);
}

/// Rows [gate | channels | decay] of one matrix.
void LayerLoader::load_mamba_inputs(int layer, const RecurrentPlan& plan, RecurrentWeights& w) {
  const int hidden = config_.hidden, width = plan.width(), channels = plan.channels();
  const int stored = width + channels + plan.value_heads;
  const std::string fused = layer_tensor(names_.state_fused_inputs, layer);
  w.gate = tensors_.matrix(fused, width, hidden, {0, stored});
  w.inputs = tensors_.matrix(fused, channels, hidden, {width, stored});
  w.decay = tensors_.float_matrix(fused, plan.value_heads, hidden, {width + channels, stored});
}

/// Rows [factors of inputs | gate | inputs] of one matrix.
void LayerLoader::load_convolution(int layer, const RecurrentPlan& plan, LayerWeights& weights) {
  const int hidden = config_.hidden, channels = plan.channels();
  const std::string fused = layer_tensor(names_.state_fused_inputs, layer);
  RecurrentWeights& w = weights.recurrent;
  w.write = tensors_.matrix(fused, channels, hidden, {0, 3 * channels});
  w.gate = tensors_.matrix(fused, channels, hidden, {channels, 3 * channels});
  w.inputs = tensors_.matrix(fused, channels, hidden, {2 * channels, 3 * channels});
  load_filter(layer, plan, w);
  w.o = tensors_.matrix(layer_tensor(names_.state_o, layer), hidden, channels);
}

/// Stored channel by channel.
void LayerLoader::load_filter(int layer, const RecurrentPlan& plan, RecurrentWeights& w) {
  const bool gguf = tensors_.checkpoint().format == CheckpointFormat::gguf;
  std::vector<std::int64_t> shape = {plan.channels(), 1, plan.kernel};
  if (gguf) shape.erase(shape.begin() + 1);
  const auto stored = tensors_.values(layer_tensor(names_.state_filter, layer), shape);
  const auto kernel = static_cast<std::size_t>(plan.kernel);
  const auto channels = static_cast<std::size_t>(plan.channels());
  std::vector<float> filter(stored.size());
  for (std::size_t channel = 0; channel < channels; ++channel) {
    for (std::size_t tap = 0; tap < kernel; ++tap) {
      filter[tap * channels + channel] = stored[channel * kernel + tap];
    }
  }
  w.filter = tensors_.upload(filter, plan.kernel, plan.channels());
  if (!plan.filter_bias) return;
  w.filter_bias =
      tensors_.vector(layer_tensor(names_.state_filter, layer, "bias"), plan.channels());
}

std::vector<float> LayerLoader::values_of_value_heads(const std::string& name,
                                                      const RecurrentPlan& plan) {
  const bool gguf = tensors_.checkpoint().format == CheckpointFormat::gguf;
  std::vector<std::int64_t> shape = {plan.value_heads};
  if (gguf && plan.rule == StateRule::mamba2) shape.push_back(1);
  return tensors_.values(name, shape);
}

void LayerLoader::load_recurrent(int layer, const LayerPlan& of, LayerWeights& weights) {
  const RecurrentPlan& plan = of.recurrent;
  if (plan.rule == StateRule::short_convolution) return load_convolution(layer, plan, weights);
  const bool mamba = plan.rule == StateRule::mamba2;
  RecurrentWeights& w = weights.recurrent;
  mamba ? load_mamba_inputs(layer, plan, w) : load_recurrent_inputs(layer, plan, w);
  const bool gguf = tensors_.checkpoint().format == CheckpointFormat::gguf;
  const auto whole = [&](const std::string& name) {
    return fmt::format(fmt::runtime(name), layer);
  };
  load_filter(layer, plan, w);
  std::vector<float> rate = values_of_value_heads(whole(names_.state_rate), plan);
  if (!gguf) {
    for (float& value : rate) value = -static_cast<float>(std::exp(static_cast<double>(value)));
  }
  w.rate = tensors_.upload(rate, 1, plan.value_heads);
  std::string bias = whole(names_.state_bias);
  const std::string plain = bias.substr(0, bias.rfind(".bias"));  // in Ollama's files
  if (!tensors_.has(bias) && tensors_.has(plain)) bias = plain;
  w.bias = tensors_.vector(bias, plan.value_heads);
  const std::string norm = layer_tensor(names_.state_norm, layer);
  w.o = tensors_.matrix(layer_tensor(names_.state_o, layer), config_.hidden, plan.width());
  if (!mamba) {
    w.norm = tensors_.vector(norm, plan.value_dim);
    return;
  }
  const auto skip = values_of_value_heads(whole(names_.state_skip), plan);
  w.skip = tensors_.upload(skip, 1, plan.value_heads);
  if (!plan.norm) return;
  // GGUF: a row for each key head. Files that were quantised have a vector for the only one.
  const bool rows =
      gguf && (plan.key_heads > 1 || tensors_.checkpoint().require(norm).shape.size() > 1);
  std::vector<std::int64_t> shape = {plan.width()};
  if (rows) shape = {plan.key_heads, plan.width() / plan.key_heads};
  w.norm = tensors_.upload(tensors_.values(norm, shape), 1, plan.width());
}

}  // namespace talon
