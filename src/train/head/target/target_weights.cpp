#include "train/head/target/target_weights.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/half.h"
#include "model/load/fingerprint.h"
#include "model/rope.h"
#include "train/head/math/rounding.h"
#include "train/head/target/target_layer.h"

namespace talon {
namespace {

using torch::Tensor;

constexpr std::size_t kMeasuredConversations = 32;
constexpr double kRandomShare = 0.3;  // of the usual random start: docs/methods.md 7.5

/// Uniform rows from one generator.
class RandomRows {
 public:
  explicit RandomRows(std::uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}
  /// share: of the usual size for rows that read so many inputs.
  Tensor operator()(std::int64_t rows, std::int64_t cols, std::int64_t inputs,
                    double share = kRandomShare) {
    const double bound = share / std::sqrt(static_cast<double>(inputs));
    return torch::empty({rows, cols}, torch::kFloat).uniform_(-bound, bound, generator_);
  }

 private:
  at::Generator generator_;
};

/// What layers of a head begin with: the target's own, and random rows where these are of another
/// form, with small ones for what is added to the stream.
class Beginnings {
 public:
  Beginnings(const Checkpoint& target, const ModelConfig& config, const HeadShape& shape,
             std::uint64_t seed)
      : random(seed),
        tensors_(target),
        config_(config),
        names_(TensorNames::of(target.format, config)),
        shape_(shape) {}

  TargetLayer layer(int layer) const { return {tensors_, names_, config_, layer}; }
  TargetLayer::Attention attention(int from) {
    if (auto found = layer(from).attention()) return *std::move(found);
    random_parts.insert("attention");
    const std::int64_t h = shape_.hidden, q = shape_.heads * shape_.head_dim;
    const std::int64_t kv = 2 * shape_.kv_heads * shape_.head_dim;
    return {random(q, h, h, 1), random(kv, h, h, 1), random(h, q, q)};
  }
  TargetLayer::Mlp mlp(int from) {
    if (auto found = layer(from).mlp(shape_.intermediate)) return *std::move(found);
    random_parts.insert("MLP");
    const std::int64_t h = shape_.hidden, inner = shape_.intermediate;
    return {random(inner, h, h, 1), random(inner, h, h, 1), random(h, inner, inner)};
  }

  RandomRows random;
  std::set<std::string> random_parts;

 private:
  TargetTensors tensors_;
  const ModelConfig& config_;
  TensorNames names_;
  const HeadShape& shape_;
};

/// Of a head's layer i: the target's last ones, but for a draft model, which takes its first ones
/// and the last.
int target_layer_of(const HeadShape& shape, int i, int target_layers) {
  const bool early = shape.kind == HeadKind::draft && i < shape.layers - 1;
  return early ? i : target_layers - shape.layers + i;
}

/// Layers of heads that have several: all start from the target's, but those of peagle behind the
/// first as nothing.
void set_further_layers(ParameterStore& parameters, const HeadShape& shape, int target_layers,
                        Beginnings& beginnings) {
  const bool dflash = shape.kind == HeadKind::dflash, peagle = shape.kind == HeadKind::peagle;
  for (int i = peagle ? 1 : 0; i < shape.layers; ++i) {
    const int from = target_layer_of(shape, i, target_layers);
    const auto name = [i](const char* part) { return fmt::format("{}.{}", i, part); };
    const TargetLayer::Attention attention = beginnings.attention(from);
    const TargetLayer::Mlp mlp = beginnings.mlp(from);
    const double kept = peagle ? 0 : 1;
    parameters.set(name("q"), attention.q);
    parameters.set(name("kv"), attention.kv);
    parameters.set(name("o"), attention.o * kept);
    parameters.set(name("gate_up"), at::cat({mlp.gate, mlp.up}));
    parameters.set(name("down"), mlp.down * kept);
    parameters.set(name("input_norm"), beginnings.layer(from).attention_norm());
    parameters.set(name("post_norm"), beginnings.layer(from).ffn_norm());
    if (!dflash) continue;
    parameters.set(name("q_norm"), torch::ones({shape.head_dim}));
    parameters.set(name("k_norm"), torch::ones({shape.head_dim}));
  }
  if (!peagle) return;
  parameters.set("mask_features", beginnings.random(1, shape.taps * shape.hidden, 1, 1));
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

void check_target(const Checkpoint& checkpoint, const ModelConfig& target, const DatasetInfo& data,
                  HeadKind kind) {
  const std::filesystem::path& file = checkpoint.path;
  if (data.hidden != target.hidden || data.vocabulary != target.input_count()) {
    fail("train head: data of {}: expected vectors of {} and {} tokens, as {} has, found {} and {}",
         data.model, target.hidden, target.input_count(), file.string(), data.hidden,
         data.vocabulary);
  }
  const std::string fingerprint = fingerprint_of(checkpoint, target);
  if (!data.fingerprint.empty() && data.fingerprint != fingerprint) {
    fail("train head: data: expected that of {}, whose fingerprint is {}, found that of {}, {}",
         file.string(), fingerprint, data.model, data.fingerprint);
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

int neurons_of(const ModelConfig& target) {
  const LayerPlan& last = target.plans.back();
  const ExpertPlan& experts = last.experts;
  if (last.intermediate > 0 || experts.count == 0) return target.intermediate;
  return experts.used * experts.width + experts.shared_width;
}

HeadShape head_shape(HeadKind kind, const ModelConfig& target, const FeatureScales& scales) {
  HeadShape shape;
  shape.kind = kind;
  shape.hidden = target.hidden;
  shape.intermediate = neurons_of(target);
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
                                torch::ScalarType low, torch::Device device, bool rounds) {
  if (config.output_matrix_bias) {
    fail("train head: {}: expected an output matrix without a bias, found one of {}",
         target.path.string(), config.architecture);
  }
  const TensorNames names = TensorNames::of(target.format, config);
  const auto options = torch::TensorOptions().dtype(low).device(device);
  const TargetTensors tensors(target);
  const std::vector<std::int64_t> shape = {config.vocabulary, config.hidden};
  TargetTables tables;
  Tensor embedding = tensors.require(names.embedding, shape);
  if (config.image) {
    const std::int64_t prompts = config.input_count() - config.vocabulary;
    embedding = at::cat({embedding, tensors.require(names.prompts, {prompts, config.hidden})});
  }
  tables.embedding = embedding.to(options);
  tables.output =
      config.tied_output ? tables.embedding : tensors.require(names.output, shape).to(options);
  if (config.logit_scale != 1) tables.output = tables.output * config.logit_scale;
  tables.head_output = rounds ? rounded_to_int4(tables.output) : tables.output;
  tables.logit_cap = config.logit_cap;
  tables.embedding_scale = config.embedding_scale;
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

std::set<std::string> set_initial_values(ParameterStore& parameters, const HeadShape& shape,
                                         const Checkpoint& target, const ModelConfig& config,
                                         const FeatureScales& scales, std::uint64_t seed) {
  const torch::NoGradGuard no_gradient;
  if (shape.kind == HeadKind::medusa) return {};
  Beginnings beginnings(target, config, shape, seed);
  RandomRows& random = beginnings.random;
  const int last = config.layers - 1;
  const TargetLayer from = beginnings.layer(last);
  const std::int64_t h = shape.hidden;
  if (shape.kind == HeadKind::draft) {
    parameters.set("output_norm", from.final_norm());
    set_further_layers(parameters, shape, config.layers, beginnings);
    return beginnings.random_parts;
  }
  if (shape.kind == HeadKind::dflash) {
    Tensor fc = random(h, shape.taps * h, shape.taps * h);
    fc.narrow(1, (shape.taps - 1) * h, h).add_(torch::eye(h));
    parameters.set("fc", fc);
    parameters.set("context_norm", from.attention_norm());
    parameters.set("output_norm", from.final_norm());
    set_further_layers(parameters, shape, config.layers, beginnings);
    return beginnings.random_parts;
  }
  const TargetLayer::Attention attention = beginnings.attention(last);
  const TargetLayer::Mlp mlp = beginnings.mlp(last);
  const Tensor &q = attention.q, &kv = attention.kv, same = torch::eye(h);
  parameters.set("gate_up", at::cat({mlp.gate, mlp.up}));
  parameters.set("post_norm", from.ffn_norm());
  if (shape.kind == HeadKind::peagle)
    set_further_layers(parameters, shape, config.layers, beginnings);
  if (reads_taps(shape.kind)) {
    parameters.set("q", at::cat({random(q.size(0), h, 2 * h), q}, 1));
    parameters.set("kv", at::cat({random(kv.size(0), h, 2 * h), kv}, 1));
    Tensor fc = random(h, shape.taps * h, shape.taps * h);
    fc.narrow(1, (shape.taps - 1) * h, h).add_(same);
    parameters.set("fc", fc);
    parameters.set("o", attention.o);
    parameters.set("down", mlp.down);
    parameters.set("embedding_norm", torch::ones({h}));
    parameters.set("feature_norm", from.attention_norm());
    parameters.set("output_norm", from.final_norm());
    return beginnings.random_parts;
  }
  // The layer reads and writes final vectors, which are smaller than the stream it was made for.
  const Tensor folded = from.attention_norm() / scales.last;
  const double shrink = 1 / std::max(1.0, scales.taps.empty() ? 1.0 : scales.taps.back());
  parameters.set("q", q * folded);
  parameters.set("kv", kv * folded);
  parameters.set("fc", at::cat({random(h, h, 2 * h), same}, 1));
  parameters.set("o", attention.o * shrink);
  parameters.set("down", mlp.down * shrink);
  return beginnings.random_parts;
}

}  // namespace talon
