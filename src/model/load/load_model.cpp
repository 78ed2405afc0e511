#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/thread_pool.h"
#include "model/config/tensor_names.h"
#include "model/finite.h"
#include "model/model.h"
#include "model/rotary_order.h"

namespace talon {
namespace {

bool is_weight_type(StorageType type) {
  switch (type) {
    case StorageType::i8:
    case StorageType::u8:
    case StorageType::i16:
    case StorageType::i32:
    case StorageType::i64:
    case StorageType::boolean:
      return false;
    default:
      return true;
  }
}

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options)
      : checkpoint_(checkpoint),
        backend_(backend),
        options_(options),
        names_(TensorNames::of(checkpoint.format)),
        pool_(backend.threads(), /*pin=*/false) {}

  Model load();

 private:
  using RowOrder = std::span<const std::int32_t>;
  static constexpr int kLayerTensors = 9;  // without biases and head norms

  LayerWeights load_layer(int layer);
  std::unique_ptr<Weight> matrix(const std::string& name, int rows, int cols, RowOrder order = {});
  Buffer vector(const std::string& name, int size, RowOrder order = {});
  const StoredTensor& checked(const std::string& name, std::vector<std::int64_t> shape);
  Buffer upload(std::span<const float> values, int rows, int cols);
  std::size_t tensor_count(const ModelConfig& config) const;
  void report();

  const Checkpoint& checkpoint_;
  Backend& backend_;
  const LoadOptions& options_;
  const TensorNames& names_;
  ThreadPool pool_;
  ModelConfig config_;
  std::vector<std::int32_t> q_order_, k_order_;  // empty: as stored
  std::size_t weight_bytes_ = 0;
  std::size_t done_ = 0, total_ = 0;
};

Model Loader::load() {
  config_ = read_model_config(checkpoint_);
  if (options_.context > 0) config_.context = std::min(config_.context, options_.context);
  if (config_.interleaved_rope) {
    q_order_ = half_split_order(config_.heads, config_.head_dim);
    k_order_ = half_split_order(config_.kv_heads, config_.head_dim);
  }
  total_ = tensor_count(config_);

  Model model;
  model.backend = &backend_;
  model.embedding = matrix(std::string(names_.embedding), config_.vocabulary, config_.hidden);
  if (!config_.tied_output) {
    weight_bytes_ = 0;  // one row of the table is read, not all of it
    model.output = matrix(std::string(names_.output), config_.vocabulary, config_.hidden);
  }
  model.final_norm = vector(std::string(names_.final_norm), config_.hidden);
  for (int layer = 0; layer < config_.layers; ++layer) model.layers.push_back(load_layer(layer));
  model.weight_bytes = weight_bytes_;
  model.config = std::move(config_);
  checkpoint_.check_whole();
  return model;
}

LayerWeights Loader::load_layer(int layer) {
  const ModelConfig& c = config_;
  const int q_width = c.heads * c.head_dim;
  const int kv_width = c.kv_heads * c.head_dim;
  const auto weight = [&](std::string_view name) { return layer_tensor(name, layer); };
  const auto bias = [&](std::string_view name) { return layer_tensor(name, layer, "bias"); };

  LayerWeights w;
  w.attention_norm = vector(weight(names_.attention_norm), c.hidden);
  w.q = matrix(weight(names_.q), q_width, c.hidden, q_order_);
  w.k = matrix(weight(names_.k), kv_width, c.hidden, k_order_);
  w.v = matrix(weight(names_.v), kv_width, c.hidden);
  w.o = matrix(weight(names_.o), c.hidden, q_width);
  if (c.qkv_bias) {
    w.q_bias = vector(bias(names_.q), q_width, q_order_);
    w.k_bias = vector(bias(names_.k), kv_width, k_order_);
    w.v_bias = vector(bias(names_.v), kv_width);
  }
  if (c.output_bias) w.o_bias = vector(bias(names_.o), c.hidden);
  if (c.qk_norm) {
    w.q_norm = vector(weight(names_.q_norm), c.head_dim);
    w.k_norm = vector(weight(names_.k_norm), c.head_dim);
  }
  w.ffn_norm = vector(weight(names_.ffn_norm), c.hidden);
  w.gate = matrix(weight(names_.gate), c.intermediate, c.hidden);
  w.up = matrix(weight(names_.up), c.intermediate, c.hidden);
  w.down = matrix(weight(names_.down), c.hidden, c.intermediate);
  return w;
}

/// The tensor, after its type, its shape and its values have been looked at.
const StoredTensor& Loader::checked(const std::string& name, std::vector<std::int64_t> shape) {
  const StoredTensor& tensor = checkpoint_.require(name);
  const std::string where = checkpoint_.path.string();
  if (!is_weight_type(tensor.type)) {
    fail("load {} \"{}\": expected a floating-point or quantised type, found {}", where, name,
         name_of(tensor.type));
  }
  if (tensor.shape != shape) {
    fail("load {} \"{}\": expected [{}], found [{}]", where, name, fmt::join(shape, ", "),
         fmt::join(tensor.shape, ", "));
  }
  const BlockShape block = block_shape(tensor.type);
  const auto cols = static_cast<std::size_t>(shape.back());
  if (cols % block.elements != 0) {
    fail("load {} \"{}\": expected rows of whole {} blocks of {}, found {} columns", where, name,
         name_of(tensor.type), block.elements, cols);
  }
  if (const auto value = find_not_finite(tensor.type, tensor.bytes, pool_)) {
    fail("load {} \"{}\": expected finite values, found NaN or infinity in row {} at column {}",
         where, name, *value / cols, *value % cols);
  }
  return tensor;
}

std::unique_ptr<Weight> Loader::matrix(const std::string& name, int rows, int cols,
                                       RowOrder order) {
  const StoredTensor& tensor = checked(name, {rows, cols});
  auto weight =
      backend_.load_weight({name, tensor.type, rows, cols, tensor.bytes, order}, options_.layout);
  weight_bytes_ += weight->bytes;
  report();
  return weight;
}

Buffer Loader::vector(const std::string& name, int size, RowOrder order) {
  const StoredTensor& tensor = checked(name, {size});
  std::vector<float> stored(static_cast<std::size_t>(size));
  dequantize(tensor.type, tensor.bytes, stored);
  std::vector<float> values = stored;
  for (std::size_t i = 0; i < order.size(); ++i) {
    values[i] = stored[static_cast<std::size_t>(order[i])];
  }
  report();
  return upload(values, 1, size);
}

Buffer Loader::upload(std::span<const float> values, int rows, int cols) {
  auto buffer = backend_.allocate(rows, cols);
  backend_.upload(values, buffer.view());
  return buffer;
}

std::size_t Loader::tensor_count(const ModelConfig& config) const {
  const int per_layer =
      kLayerTensors + 3 * config.qkv_bias + config.output_bias + 2 * config.qk_norm;
  return static_cast<std::size_t>(per_layer * config.layers + 2 + !config.tied_output);
}

void Loader::report() {
  ++done_;
  if (options_.progress) options_.progress(done_, total_);
}

}  // namespace

Model load_model(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options) {
  return Loader(checkpoint, backend, options).load();
}

}  // namespace talon
