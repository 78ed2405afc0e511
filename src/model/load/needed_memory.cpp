#include "model/load/needed_memory.h"

#include <algorithm>

#include "io/tensor_layout.h"
#include "model/load/load_layer.h"
#include "model/load/made_types.h"

namespace talon {
namespace {

/// Types of files become layouts of no fewer bits, but for float32 that fits in bf16; nvfp4 becomes
/// bf16.
double least_bits(StorageType type, WeightLayout layout) {
  constexpr double kHalf = 16;
  switch (layout) {
    case WeightLayout::as_stored:
      break;
    case WeightLayout::int8:
      return 8;
    case WeightLayout::int4:
      return 4;
    case WeightLayout::bf16:
      return kHalf;
    case WeightLayout::f32:
      return 32;
  }
  if (type == StorageType::nvfp4) return kHalf;
  const BlockShape block = block_shape(type);
  return std::min(kHalf,
                  8 * static_cast<double>(block.bytes) / static_cast<double>(block.elements));
}

/// Stacks of experts of folders have names without ".weight".
bool is_named_as_weight(const std::string& name, bool is_stack) {
  return name.ends_with(".weight") || (is_stack && name.find(".experts.") != std::string::npos);
}

}  // namespace

std::size_t least_bytes(StorageType type, WeightLayout layout, std::uint64_t values) {
  return static_cast<std::size_t>(static_cast<double>(values) * least_bits(type, layout) / 8);
}

std::size_t least_weight_bytes(const Checkpoint& checkpoint, const ModelConfig& config,
                               WeightLayout layout) {
  const TensorNames names = TensorNames::of(checkpoint.format, config);
  std::optional<Quantization> quantization;
  if (checkpoint.format == CheckpointFormat::hugging_face) {
    quantization = read_quantization(ConfigKeys(checkpoint.metadata, checkpoint.path.string()));
  }
  const auto is_table = [&](const std::string& name) {
    const bool is_output = name == names.output && !config.tied_output;
    return name == names.embedding || is_output ||
           (config.per_layer_input > 0 && name == names.layer_embedding);
  };
  const auto is_of_layer = [&](const std::string& name, bool is_stack) {
    const std::optional<int> layer = layer_of(name, names);
    return layer && *layer < config.layers && is_named_as_weight(name, is_stack) &&
           !is_passed_over(name, *layer, names, config);
  };
  // Where codes share the vocabulary of texts, the outputs are theirs alone.
  const auto loaded = [&](const std::string& name, std::uint64_t values) {
    const auto stored = static_cast<std::uint64_t>(config.stored_tokens());
    const auto kept = static_cast<std::uint64_t>(config.vocabulary);
    return name == names.output && kept < stored ? values / stored * kept : values;
  };
  std::size_t bytes = 0;
  for (const StoredTensor& tensor : checkpoint.tensors) {
    if (const auto made = outline_of_made(tensor, checkpoint, quantization)) {
      const bool counts = is_table(made->name) || is_of_layer(made->name, made->is_stack);
      if (counts) bytes += least_bytes(made->type, layout, loaded(made->name, made->values));
      continue;
    }
    const std::size_t dimensions = tensor.shape.size();
    const bool is_matrix = dimensions >= 2 && holds_reals(tensor.type);
    if (!is_matrix || !(is_table(tensor.name) || is_of_layer(tensor.name, dimensions == 3))) {
      continue;
    }
    std::uint64_t values = 1;
    for (const std::int64_t size : tensor.shape) values *= static_cast<std::uint64_t>(size);
    bytes += least_bytes(tensor.type, layout, loaded(tensor.name, values));
  }
  return bytes;
}

}  // namespace talon
