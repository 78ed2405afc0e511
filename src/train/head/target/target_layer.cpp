#include "train/head/target/target_layer.h"

#include "core/error.h"
#include "model/load/quantized/quantized_tensors.h"

namespace talon {
namespace {

using torch::Tensor;

Tensor floats_of(StorageType type, std::span<const std::byte> bytes,
                 const std::vector<std::int64_t>& shape) {
  Tensor values = torch::empty(shape, torch::kFloat);
  dequantize(type, bytes,
             std::span(values.data_ptr<float>(), static_cast<std::size_t>(values.numel())));
  return values;
}

bool is_like_a_heads(const LayerPlan& plan, const ModelConfig& config) {
  return plan.attends && plan.has_network() && plan.recurrent.value_heads == 0 &&
         plan.latent.kv_rank == 0 && !plan.output_gate && plan.writes_cache &&
         !plan.keys_are_values && !config.forms.qkv_by_head && plan.heads == config.heads &&
         plan.kv_heads == config.kv_heads && plan.head_dim == config.head_dim &&
         plan.values() == plan.head_dim;
}

/// The neurons whose output can be largest: by the product of the sizes of their three vectors.
TargetLayer::Mlp strongest_neurons(const TargetLayer::Mlp& mlp, std::int64_t count) {
  if (count == mlp.gate.size(0)) return mlp;
  const Tensor strength = mlp.gate.norm(2, 1) * mlp.up.norm(2, 1) * mlp.down.norm(2, 0);
  const Tensor kept = std::get<0>(std::get<1>(strength.topk(count)).sort());
  return {mlp.gate.index_select(0, kept), mlp.up.index_select(0, kept),
          mlp.down.index_select(1, kept)};
}

}  // namespace

TargetTensors::TargetTensors(const Checkpoint& target) : target_(target) {
  if (target.format != CheckpointFormat::hugging_face) return;
  quantization_ = read_quantization(ConfigKeys(target.metadata, target.path.string()));
}

std::optional<Tensor> TargetTensors::find(const std::string& name,
                                          const std::vector<std::int64_t>& shape) const {
  if (quantization_ && shape.size() == 2) {
    const int rows = static_cast<int>(shape[0]), cols = static_cast<int>(shape[1]);
    if (const auto made = make_quantized(target_, *quantization_, name, rows, cols)) {
      return floats_of(made->type, made->bytes, shape);
    }
  }
  const StoredTensor* stored = target_.find(name);
  if (!stored || stored->shape != shape) return std::nullopt;
  Tensor values = floats_of(stored->type, stored->bytes, shape);
  const StoredTensor* factor = shape.size() == 2 ? factor_beside(target_, name) : nullptr;
  if (!factor) return values;
  if (factor->shape != std::vector<std::int64_t>{1}) return std::nullopt;
  return values * floats_of(factor->type, factor->bytes, {1});
}

Tensor TargetTensors::require(const std::string& name,
                              const std::vector<std::int64_t>& shape) const {
  if (auto found = find(name, shape)) return *std::move(found);
  fail("train head: target tensor \"{}\" of {}: not of the shape its configuration says",
       target_.require(name).name, target_.path.string());
}

TargetLayer::TargetLayer(const TargetTensors& tensors, const TensorNames& names,
                         const ModelConfig& config, int layer)
    : tensors_(tensors),
      names_(names),
      config_(config),
      plan_(config.plans[static_cast<std::size_t>(layer)]),
      layer_(layer) {}

std::optional<TargetLayer::Attention> TargetLayer::attention() const {
  if (!is_like_a_heads(plan_, config_)) return std::nullopt;
  const int heads = config_.heads, kv_heads = config_.kv_heads;
  const auto q = heads_of(names_.q, 0, heads);
  const auto k = heads_of(names_.k, heads, kv_heads);
  const auto v = heads_of(names_.v, heads + kv_heads, kv_heads);
  const auto o = matrix(names_.o, config_.hidden, heads * config_.head_dim);
  if (!q || !k || !v || !o) return std::nullopt;
  return Attention{half_split(*q, heads), at::cat({half_split(*k, kv_heads), *v}), *o};
}

std::optional<TargetLayer::Mlp> TargetLayer::mlp(std::int64_t neurons) const {
  const std::int64_t inner = plan_.intermediate, hidden = config_.hidden;
  if (inner < neurons || !is_gate(plan_.activation)) return std::nullopt;
  std::optional<Tensor> gate, up;
  if (!config_.forms.fused_gate_up) {
    gate = matrix(names_.gate, inner, hidden);
    up = matrix(names_.up, inner, hidden);
  } else if (const auto both = matrix(names_.gate_up, 2 * inner, hidden)) {
    gate = both->narrow(0, 0, inner);
    up = both->narrow(0, inner, inner);
  }
  const auto down = matrix(names_.down, hidden, inner);
  if (!gate || !up || !down) return std::nullopt;
  const MatrixFactors& factors = plan_.factors;
  return strongest_neurons({*gate * factors.gate, *up, *down * factors.down}, neurons);
}

Tensor TargetLayer::norm(const std::string& name) const {
  const auto stored = tensors_.find(name, {config_.hidden});
  if (!stored) return torch::ones({config_.hidden});
  return *stored + (config_.forms.norm_plus_one ? 1 : 0);
}

std::optional<Tensor> TargetLayer::matrix(std::string_view name, std::int64_t rows,
                                          std::int64_t cols) const {
  return tensors_.find(layer_tensor(name, layer_), {rows, cols});
}

/// Rows of heads, which are a matrix of their own or lie in one of queries, keys and values.
std::optional<Tensor> TargetLayer::heads_of(std::string_view name, std::int64_t first_head,
                                            std::int64_t heads) const {
  const std::int64_t width = config_.head_dim;
  if (!config_.forms.fused_qkv) return matrix(name, heads * width, config_.hidden);
  const auto all =
      matrix(names_.qkv, (config_.heads + 2 * config_.kv_heads) * width, config_.hidden);
  if (!all) return std::nullopt;
  return all->narrow(0, first_head * width, heads * width);
}

Tensor TargetLayer::half_split(const Tensor& stored, std::int64_t heads) const {
  if (!config_.interleaved_rope) return stored;
  return stored.view({heads, config_.head_dim / 2, 2, config_.hidden})
      .transpose(1, 2)
      .reshape({heads * config_.head_dim, config_.hidden});
}

}  // namespace talon
