#include "bench/machine/kernel_workloads.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "core/error.h"
#include "core/half.h"
#include "model/rope.h"

namespace talon {
namespace {

constexpr KernelModel kModels[] = {
    // name, layers, hidden, intermediate, heads, kv heads, head dim, vocabulary
    {"smollm2-135m", 30, 576, 1536, 9, 3, 64, 49152},
    {"tinyllama-1.1b", 22, 2048, 5632, 32, 4, 64, 32000},
    {"llama-1b", 16, 2048, 8192, 32, 8, 64, 128256},
    {"llama-8b", 32, 4096, 14336, 32, 8, 128, 128256},
};

constexpr std::string_view kOperations[] = {"qkv",  "output", "gate_up",
                                            "down", "head",   "attention"};

constexpr StorageType kFormats[] = {
    StorageType::q4_1, StorageType::iq2_xxs, StorageType::q8_0,   StorageType::bf16,
    StorageType::q4_0, StorageType::q4_k,    StorageType::q6_k,   StorageType::q5_0,
    StorageType::q5_1, StorageType::q5_k,    StorageType::q3_k,   StorageType::q2_k,
    StorageType::f16,  StorageType::iq4_nl,  StorageType::iq4_xs, StorageType::f32};

constexpr int kDistinctRows = 64;  // of made-up values, repeated over all rows of all weights
constexpr int kMostCopies = 4096;

std::vector<float> made_up_values(std::size_t count) {
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

/// Bytes of kDistinctRows rows. In block types every byte has bit 6 clear, so that no f16 scale,
/// wherever it lies, is infinite.
std::vector<std::byte> made_up_bytes(StorageType type, int cols) {
  const BlockShape block = block_shape(type);
  const std::size_t count =
      static_cast<std::size_t>(kDistinctRows) * static_cast<std::size_t>(cols);
  std::vector<std::byte> bytes(count / block.elements * block.bytes);
  if (block.elements > 1) {
    std::minstd_rand random(1);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 8 & 0xBFU);
    return bytes;
  }
  const std::vector<float> values = made_up_values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t half =
        type == StorageType::f16 ? float_to_half(values[i]) : float_to_bf16(values[i]);
    if (type == StorageType::f32) {
      std::memcpy(bytes.data() + 4 * i, &values[i], 4);
    } else {
      std::memcpy(bytes.data() + 2 * i, &half, 2);
    }
  }
  return bytes;
}

/// The shape of a linear() call.
struct LinearShape {
  int inputs;
  std::vector<int> outputs;
  InputTransform transform;
  bool accumulate;
};

LinearShape linear_shape(const KernelModel& m, std::string_view operation) {
  const int q = m.heads * m.head_dim;
  const int kv = m.kv_heads * m.head_dim;
  if (operation == "qkv") return {m.hidden, {q, kv, kv}, InputTransform::rms_norm, false};
  if (operation == "output") return {q, {m.hidden}, InputTransform::none, true};
  if (operation == "gate_up") {
    return {m.hidden, {m.intermediate, m.intermediate}, InputTransform::rms_norm, false};
  }
  if (operation == "down") return {m.intermediate, {m.hidden}, InputTransform::silu_gate, true};
  expects(operation == "head", "a linear operation of a model");
  return {m.hidden, {m.vocabulary}, InputTransform::none, false};
}

class LinearWorkload : public KernelWorkload {
 public:
  LinearWorkload(Backend& backend, const LinearShape& shape, StorageType format, int most_rows,
                 std::size_t ring_bytes)
      : backend_(backend), shape_(shape) {
    load_ring(format, ring_bytes);
    const int gates = shape.transform == InputTransform::silu_gate ? 2 : 1;
    input_ = backend.allocate(most_rows, gates * shape.inputs);
    norm_ = backend.allocate(1, shape.inputs);
    backend.upload(made_up_values(static_cast<std::size_t>(shape.inputs)), norm_.view());
    const std::size_t values =
        static_cast<std::size_t>(most_rows) * static_cast<std::size_t>(gates * shape.inputs);
    backend.upload(made_up_values(values), input_.view());
    for (const int outputs : shape.outputs)
      outputs_.push_back(backend.allocate(most_rows, outputs));
    projections_.resize(outputs_.size());
  }

  void call(int rows) override {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      projections_[i] = {ring_[next_ + i].get(), outputs_[i].rows(rows), {}, shape_.accumulate};
    }
    next_ = (next_ + outputs_.size()) % ring_.size();
    const bool normed = shape_.transform == InputTransform::rms_norm;
    backend_.linear({.input = input_.rows(rows),
                     .transform = shape_.transform,
                     .norm = normed ? norm_.view() : View{},
                     .norm_epsilon = 1e-5F,
                     .outputs = projections_});
    backend_.synchronize();
  }

  double bytes(int) const override { return static_cast<double>(bytes_); }
  double macs(int rows) const override {
    double outputs = 0;
    for (const int count : shape_.outputs) outputs += count;
    return outputs * shape_.inputs * rows;
  }
  std::string layout() const override { return ring_.front()->layout; }

 private:
  void load_ring(StorageType format, std::size_t ring_bytes) {
    const std::vector<std::byte> bytes = made_up_bytes(format, shape_.inputs);
    std::size_t loaded = 0;
    int copies = 0;
    while (copies == 0 || (loaded < ring_bytes && copies < kMostCopies)) {
      for (const int outputs : shape_.outputs) {
        std::vector<std::int32_t> order(static_cast<std::size_t>(outputs));
        for (std::size_t i = 0; i < order.size(); ++i) {
          order[i] = static_cast<std::int32_t>(i % kDistinctRows);
        }
        ring_.push_back(
            backend_.load_weight({"made-up weight", format, outputs, shape_.inputs, bytes, order},
                                 WeightLayout::as_stored));
        loaded += ring_.back()->bytes;
      }
      if (++copies == 1) bytes_ = loaded;
    }
  }

  Backend& backend_;
  LinearShape shape_;
  std::vector<std::unique_ptr<Weight>> ring_;
  Buffer input_, norm_;
  std::vector<Buffer> outputs_;
  std::vector<Projection> projections_;
  std::size_t bytes_ = 0;  // of the weights of one call
  std::size_t next_ = 0;
};

class AttentionWorkload : public KernelWorkload {
 public:
  AttentionWorkload(Backend& backend, const KernelModel& model, KvType type, int context,
                    int most_rows, std::size_t ring_bytes)
      : backend_(backend), model_(model), context_(context) {
    const int positions = context + most_rows;
    KvShape shape{1, model.kv_heads, model.head_dim, (positions + kPageRows - 1) / kPageRows, type};
    const std::size_t layer_bytes = static_cast<std::size_t>(shape.pages) * kv_page_bytes(shape);
    shape.layers =
        static_cast<int>(std::clamp<std::size_t>(ring_bytes / layer_bytes, 1, kMostCopies));
    cache_ = backend.allocate_kv(shape);
    position_bytes_ = static_cast<double>(layer_bytes) / (shape.pages * kPageRows);
    for (int page = 0; page < shape.pages; ++page) pages_.push_back(page);
    q_ = filled(most_rows, model.heads);
    k_ = filled(most_rows, model.kv_heads);
    v_ = filled(most_rows, model.kv_heads);
    out_ = filled(most_rows, model.heads);
    const std::vector<float> angles = RopeAngles({}, model.head_dim).rows(0, positions);
    rope_ = backend.allocate(positions, model.head_dim);
    backend.upload(angles, rope_.view());
    fill_cache(most_rows);
  }

  void call(int rows) override {
    if (static_cast<int>(layout_.rows.size()) != rows) lay_out(context_, rows);
    attend(next_layer_, rows, 0);
    next_layer_ = (next_layer_ + 1) % cache_->shape.layers;
  }

  double bytes(int rows) const override { return position_bytes_ * (context_ + rows); }
  double macs(int rows) const override {
    const double keys = context_ + (rows + 1) / 2.0;  // a row sees those before it
    return 2.0 * rows * keys * model_.heads * model_.head_dim;
  }
  std::string layout() const override {
    return fmt::format("{} cache", name_of(cache_->shape.type));
  }

 private:
  Buffer filled(int rows, int heads) {
    auto buffer = backend_.allocate(rows, heads * model_.head_dim);
    const std::size_t count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(heads) *
                              static_cast<std::size_t>(model_.head_dim);
    backend_.upload(made_up_values(count), buffer.view());
    return buffer;
  }

  void lay_out(int first, int rows) {
    layout_.rows.clear();
    layout_.pages = {pages_};
    for (int row = first; row < first + rows; ++row)
      layout_.rows.push_back({0, row, row + 1, row, row + 1, 0});
  }

  /// Unscaled: the queries are rotated in place, and scaling them call after call would leave
  /// denormal numbers.
  void attend(int layer, int rows, int window) {
    const auto prepared = backend_.prepare(layout_);
    backend_.attention({.q = q_.rows(rows),
                        .k = k_.rows(rows),
                        .v = v_.rows(rows),
                        .out = out_.rows(rows),
                        .cache = cache_.get(),
                        .layer = layer,
                        .layout = prepared.get(),
                        .rope = rope_.view(),
                        .q_norm = {},
                        .k_norm = {},
                        .scale = 1.0F,
                        .window = window});
    backend_.synchronize();
  }

  /// Writes a key and a value to every position of every layer, for memory that was never written
  /// is one page of zeros.
  void fill_cache(int most_rows) {
    for (int first = 0; first < context_; first += most_rows) {
      const int rows = std::min(most_rows, context_ - first);
      lay_out(first, rows);
      for (int layer = 0; layer < cache_->shape.layers; ++layer) attend(layer, rows, 1);
    }
    layout_.rows.clear();
  }

  Backend& backend_;
  const KernelModel& model_;
  int context_;
  std::unique_ptr<KvStore> cache_;
  double position_bytes_ = 0;
  std::vector<PageId> pages_;
  Buffer q_, k_, v_, out_, rope_;
  AttentionLayout layout_;
  int next_layer_ = 0;
};

}  // namespace

std::span<const KernelModel> kernel_models() { return kModels; }
std::span<const std::string_view> kernel_operations() { return kOperations; }
std::span<const StorageType> kernel_formats() { return kFormats; }

bool can_be_stored(const KernelModel& model, std::string_view operation, StorageType format) {
  const auto inputs = static_cast<std::size_t>(linear_shape(model, operation).inputs);
  return inputs % block_shape(format).elements == 0;
}

std::unique_ptr<KernelWorkload> make_linear_workload(Backend& backend, const KernelModel& model,
                                                     std::string_view operation, StorageType format,
                                                     int most_rows, std::size_t ring_bytes) {
  return std::make_unique<LinearWorkload>(backend, linear_shape(model, operation), format,
                                          most_rows, ring_bytes);
}

std::unique_ptr<KernelWorkload> make_attention_workload(Backend& backend, const KernelModel& model,
                                                        KvType type, int context, int most_rows,
                                                        std::size_t ring_bytes) {
  return std::make_unique<AttentionWorkload>(backend, model, type, context, most_rows, ring_bytes);
}

}  // namespace talon
