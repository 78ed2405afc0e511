#include "train/head/target_weights.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/half.h"
#include "model/config/tensor_names.h"
#include "model/rope.h"

namespace talon {
namespace {

using torch::Tensor;

constexpr std::size_t kMeasuredConversations = 32;
constexpr double kRandomShare = 0.3;  // of the usual random start: docs/methods.md 7.5

Tensor read_tensor(const Checkpoint& target, const std::string& name,
                   const std::vector<std::int64_t>& shape) {
  const StoredTensor& stored = target.require(name);
  if (stored.shape != shape) {
    fail("train head: target tensor \"{}\" of {}: not of the shape its configuration says", name,
         target.path.string());
  }
  Tensor values = torch::empty(shape, torch::kFloat);
  dequantize(stored.type, stored.bytes,
             std::span(values.data_ptr<float>(), static_cast<std::size_t>(values.numel())));
  return values;
}

/// The tensors of one of the target's layers, as float32, with half-split rotary rows.
class TargetLayer {
 public:
  TargetLayer(const Checkpoint& target, const ModelConfig& config, int layer)
      : target_(target),
        config_(config),
        names_(TensorNames::of(target.format, config)),
        layer_(layer) {}

  Tensor q() const { return rotary(rows_of(names_.q, 0, config_.heads), config_.heads); }
  Tensor kv() const {
    return at::cat({rotary(rows_of(names_.k, config_.heads, config_.kv_heads), config_.kv_heads),
                    rows_of(names_.v, config_.heads + config_.kv_heads, config_.kv_heads)});
  }
  Tensor o() const { return matrix(names_.o, config_.hidden, config_.heads * config_.head_dim); }
  Tensor gate() const { return matrix(names_.gate, config_.intermediate, config_.hidden); }
  Tensor up() const { return matrix(names_.up, config_.intermediate, config_.hidden); }
  Tensor down() const { return matrix(names_.down, config_.hidden, config_.intermediate); }
  Tensor attention_norm() const { return norm(layer_tensor(names_.attention_norm, last())); }
  Tensor ffn_norm() const { return norm(layer_tensor(names_.ffn_norm, last())); }
  Tensor final_norm() const { return norm(names_.final_norm + ".weight"); }

 private:
  int last() const { return layer_; }
  Tensor norm(const std::string& name) const {
    return read_tensor(target_, name, {config_.hidden}) + (config_.forms.norm_plus_one ? 1 : 0);
  }
  Tensor matrix(std::string_view name, std::int64_t rows, std::int64_t cols) const {
    return read_tensor(target_, layer_tensor(name, last()), {rows, cols});
  }
  /// Rows of heads, which are a matrix of their own or lie in one of queries, keys and values.
  Tensor rows_of(std::string_view name, std::int64_t first_head, std::int64_t heads) const {
    const std::int64_t width = config_.head_dim;
    if (!config_.forms.fused_qkv) return matrix(name, heads * width, config_.hidden);
    const Tensor all =
        matrix(names_.qkv, (config_.heads + 2 * config_.kv_heads) * width, config_.hidden);
    return all.narrow(0, first_head * width, heads * width);
  }
  Tensor rotary(const Tensor& stored, std::int64_t heads) const {
    if (!config_.interleaved_rope) return stored;
    return stored.view({heads, config_.head_dim / 2, 2, config_.hidden})
        .transpose(1, 2)
        .reshape({heads * config_.head_dim, config_.hidden});
  }

  const Checkpoint& target_;
  const ModelConfig& config_;
  TensorNames names_;
  int layer_;
};

struct Mlp {
  Tensor gate, up;  // [neurons, hidden]
  Tensor down;      // [hidden, neurons]
};

/// The neurons whose output can be largest: by the product of the sizes of their three vectors.
Mlp strongest_neurons(const Mlp& mlp, std::int64_t count) {
  if (count == mlp.gate.size(0)) return mlp;
  const Tensor strength = mlp.gate.norm(2, 1) * mlp.up.norm(2, 1) * mlp.down.norm(2, 0);
  const Tensor kept = std::get<0>(std::get<1>(strength.topk(count)).sort());
  return {mlp.gate.index_select(0, kept), mlp.up.index_select(0, kept),
          mlp.down.index_select(1, kept)};
}

/// Layers of block drafters: dflash's start from the target's last ones, those of peagle behind the
/// first as nothing.
void set_further_layers(ParameterStore& parameters, const HeadShape& shape,
                        const Checkpoint& target, const ModelConfig& config,
                        at::Generator& generator) {
  const bool dflash = shape.kind == HeadKind::dflash;
  for (int i = dflash ? 0 : 1; i < shape.layers; ++i) {
    const TargetLayer from(target, config, config.layers - shape.layers + i);
    const auto name = [i](const char* part) { return fmt::format("{}.{}", i, part); };
    const Mlp mlp = strongest_neurons({from.gate(), from.up(), from.down()}, shape.intermediate);
    const double kept = dflash ? 1 : 0;
    parameters.set(name("q"), from.q());
    parameters.set(name("kv"), from.kv());
    parameters.set(name("o"), from.o() * kept);
    parameters.set(name("gate_up"), at::cat({mlp.gate, mlp.up}));
    parameters.set(name("down"), mlp.down * kept);
    parameters.set(name("input_norm"), from.attention_norm());
    parameters.set(name("post_norm"), from.ffn_norm());
    if (!dflash) continue;
    parameters.set(name("q_norm"), torch::ones({shape.head_dim}));
    parameters.set(name("k_norm"), torch::ones({shape.head_dim}));
  }
  if (dflash) return;
  parameters.set(
      "mask_features",
      torch::empty({1, shape.taps * shape.hidden}, torch::kFloat).uniform_(-1, 1, generator));
}

double mean_square(const Conversation& from, int first_column, int count) {
  double sum = 0;
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  for (int row = 1; row < from.rows(); ++row) {
    from.copy_row(row, static_cast<std::size_t>(first_column), values);
    for (const std::uint16_t half : values) {
      const double value = half_to_float(half);
      sum += value * value;
    }
  }
  return sum / std::max(1, (from.rows() - 1) * count);
}

}  // namespace

FeatureScales measure_features(const Dataset& data) {
  const FeatureLayout layout = feature_layout(data.info());
  const std::size_t measured = std::min(kMeasuredConversations, data.size());
  std::vector<double> squares(static_cast<std::size_t>(layout.taps) + 1);
  for (std::size_t i = 0; i < measured; ++i) {
    const Conversation conversation = data.read(i);
    for (std::size_t tap = 0; tap < squares.size(); ++tap) {
      squares[tap] +=
          mean_square(conversation, static_cast<int>(tap) * layout.hidden, layout.hidden);
    }
  }
  FeatureScales scales;
  for (const double square : squares)
    scales.taps.push_back(
        std::sqrt(square / static_cast<double>(std::max<std::size_t>(1, measured))));
  for (double& scale : scales.taps) scale = scale > 0 ? scale : 1;
  scales.last = scales.taps.back();
  scales.taps.pop_back();
  return scales;
}

void check_target(const ModelConfig& target, const DatasetInfo& data, HeadKind kind,
                  const std::filesystem::path& file) {
  if (data.hidden != target.hidden || data.vocabulary != target.input_count()) {
    fail("train head: data of {}: expected vectors of {} and {} tokens, as {} has, found {} and {}",
         data.model, target.hidden, target.input_count(), file.string(), data.hidden,
         data.vocabulary);
  }
  if (!target.image) return;
  if (kind != HeadKind::eagle && kind != HeadKind::eagle3) {
    fail("train head: --kind: expected eagle or eagle3 for {}, which draws, found {}",
         file.string(), name_of(kind));
  }
  if (target.image->prompts_vary()) {
    fail(
        "train head: of models that draw, expected one that is asked by words or a class, found {}",
        file.string());
  }
}

HeadShape head_shape(HeadKind kind, const ModelConfig& target, const FeatureScales& scales) {
  HeadShape shape;
  shape.kind = kind;
  shape.hidden = target.hidden;
  shape.intermediate = target.intermediate;
  shape.heads = target.heads;
  shape.kv_heads = target.kv_heads;
  shape.head_dim = target.head_dim;
  shape.norm_epsilon = target.norm_epsilon;
  shape.pairwise = target.image && target.interleaved_rope;
  if (!reads_taps(kind)) return shape;
  shape.taps = static_cast<int>(scales.taps.size());
  shape.tap_scale = scales.taps;
  shape.stream_scale = scales.taps.back();
  return shape;
}

TargetTables read_target_tables(const Checkpoint& target, const ModelConfig& config, int positions,
                                torch::ScalarType low, torch::Device device) {
  const TensorNames names = TensorNames::of(target.format, config);
  const auto options = torch::TensorOptions().dtype(low).device(device);
  const std::vector<std::int64_t> shape = {config.vocabulary, config.hidden};
  TargetTables tables;
  Tensor embedding = read_tensor(target, std::string(names.embedding), shape);
  if (config.image) {
    const std::int64_t prompts = config.input_count() - config.vocabulary;
    embedding = at::cat({embedding, read_tensor(target, names.prompts, {prompts, config.hidden})});
  }
  tables.embedding = embedding.to(options);
  tables.output = config.tied_output
                      ? tables.embedding
                      : read_tensor(target, std::string(names.output), shape).to(options);
  if (config.logit_scale != 1) tables.output = tables.output * config.logit_scale;
  tables.logit_cap = config.logit_cap;
  RopeConfig rope;
  rope.base = config.rope.base;
  if (config.image) rope = config.rope;
  std::vector<float> angles = RopeAngles(rope, config.head_dim).rows(0, positions);
  const Tensor table =
      torch::from_blob(angles.data(), {positions, config.head_dim}, torch::kFloat).to(options);
  const auto halves = table.chunk(2, 1);
  tables.cosine = halves[0].contiguous();
  tables.sine = halves[1].contiguous();
  return tables;
}

void set_initial_values(ParameterStore& parameters, const HeadShape& shape,
                        const Checkpoint& target, const ModelConfig& config,
                        const FeatureScales& scales, std::uint64_t seed) {
  const torch::NoGradGuard no_gradient;
  if (shape.kind == HeadKind::medusa) return;
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto random = [&](std::int64_t rows, std::int64_t cols, std::int64_t inputs) {
    const double bound = kRandomShare / std::sqrt(static_cast<double>(inputs));
    return torch::empty({rows, cols}, torch::kFloat).uniform_(-bound, bound, generator);
  };
  const TargetLayer last(target, config, config.layers - 1);
  const std::int64_t h = shape.hidden;
  if (shape.kind == HeadKind::dflash) {
    Tensor fc = random(h, shape.taps * h, shape.taps * h);
    fc.narrow(1, (shape.taps - 1) * h, h).add_(torch::eye(h));
    parameters.set("fc", fc);
    parameters.set("context_norm", last.attention_norm());
    parameters.set("output_norm", last.final_norm());
    return set_further_layers(parameters, shape, target, config, generator);
  }
  const Tensor q = last.q(), kv = last.kv(), same = torch::eye(h);
  const Mlp mlp = strongest_neurons({last.gate(), last.up(), last.down()}, shape.intermediate);
  parameters.set("gate_up", at::cat({mlp.gate, mlp.up}));
  parameters.set("post_norm", last.ffn_norm());
  if (shape.kind == HeadKind::peagle)
    set_further_layers(parameters, shape, target, config, generator);
  if (reads_taps(shape.kind)) {
    parameters.set("q", at::cat({random(q.size(0), h, 2 * h), q}, 1));
    parameters.set("kv", at::cat({random(kv.size(0), h, 2 * h), kv}, 1));
    Tensor fc = random(h, shape.taps * h, shape.taps * h);
    fc.narrow(1, (shape.taps - 1) * h, h).add_(same);
    parameters.set("fc", fc);
    parameters.set("o", last.o());
    parameters.set("down", mlp.down);
    parameters.set("embedding_norm", torch::ones({h}));
    parameters.set("feature_norm", last.attention_norm());
    parameters.set("output_norm", last.final_norm());
    return;
  }
  // The layer reads and writes final vectors, which are smaller than the stream it was made for.
  const Tensor folded = last.attention_norm() / scales.last;
  const double shrink = 1 / std::max(1.0, scales.taps.empty() ? 1.0 : scales.taps.back());
  parameters.set("q", q * folded);
  parameters.set("kv", kv * folded);
  parameters.set("fc", at::cat({random(h, h, 2 * h), same}, 1));
  parameters.set("o", last.o() * shrink);
  parameters.set("down", mlp.down * shrink);
}

}  // namespace talon
