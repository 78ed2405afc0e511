#include "train/head/head_model.h"

#include <fmt/ranges.h>

#include <string_view>

#include "core/error.h"
#include "train/head/layers/layered_model.h"

namespace talon {
namespace {

using torch::Tensor;

std::string medusa_name(int head, int layer, std::string_view part) {
  return fmt::format("{}.{}.linear.{}", head, layer, part);
}

}  // namespace

HeadKind head_kind_of(const std::string& text) {
  std::vector<std::string_view> names;
  for (const HeadKind kind : kTrainedKinds) {
    if (text == name_of(kind)) return kind;
    names.push_back(name_of(kind));
  }
  throw UsageError(fmt::format("--kind: expected one of {}, got {}", fmt::join(names, ", "), text));
}

bool reads_taps(HeadKind kind) { return kind == HeadKind::eagle3 || guesses_blocks(kind); }
bool guesses_blocks(HeadKind kind) { return kind == HeadKind::dflash || kind == HeadKind::peagle; }
bool has_layers(HeadKind kind) { return guesses_blocks(kind) || kind == HeadKind::draft; }

std::vector<ParameterStore::Shape> parameter_shapes(const HeadShape& shape) {
  const std::int64_t h = shape.hidden;
  std::vector<ParameterStore::Shape> shapes;
  if (shape.kind == HeadKind::medusa) {
    for (int head = 0; head < shape.medusa_heads; ++head) {
      for (int layer = 0; layer < shape.medusa_layers; ++layer) {
        shapes.push_back({medusa_name(head, layer, "weight"), {h, h}});
        shapes.push_back({medusa_name(head, layer, "bias"), {h}});
      }
    }
    return shapes;
  }
  if (shape.kind == HeadKind::dflash || shape.kind == HeadKind::draft)
    return layered_parameter_shapes(shape);
  const bool eagle3 = reads_taps(shape.kind);
  const std::int64_t input = eagle3 ? 2 * h : h;
  const std::int64_t q = shape.heads * shape.head_dim, kv = shape.kv_heads * shape.head_dim;
  shapes = {{"fc", {h, eagle3 ? shape.taps * h : 2 * h}},
            {"q", {q, input}},
            {"kv", {2 * kv, input}},
            {"o", {h, q}},
            {"gate_up", {2 * shape.intermediate, h}},
            {"down", {h, shape.intermediate}},
            {"post_norm", {h}}};
  if (eagle3) {
    for (const char* name : {"embedding_norm", "feature_norm", "output_norm"})
      shapes.push_back({name, {h}});
  } else {
    shapes.push_back({"fc_bias", {h}});
  }
  if (shape.kind == HeadKind::peagle) {
    for (auto& more : layered_parameter_shapes(shape)) shapes.push_back(std::move(more));
  }
  return shapes;
}

HeadModel::HeadModel(HeadShape shape, const ParameterStore& parameters, const TargetTables& target)
    : shape_(std::move(shape)), parameters_(parameters), target_(target) {
  if (!reads_taps(shape_.kind)) return;
  std::vector<Tensor> factors;
  for (const double scale : shape_.tap_scale)
    factors.push_back(torch::full({shape_.hidden}, 1 / scale, target.output.options()));
  tap_factor_ = at::cat(factors);
}

Tensor HeadModel::output_input(const Tensor& feature) const {
  if (!parameters_.has("output_norm")) return feature.to(low_type());
  return rms_norm(feature, parameters_["output_norm"], shape_.norm_epsilon, low_type());
}

std::vector<Tensor> HeadModel::forward(const Batch& batch, int steps) const {
  expects(steps >= 1 && steps <= static_cast<int>(batch.step_token.size()),
          "a batch packed for as many steps");
  if (has_layers(shape_.kind)) {
    return LayeredModel(shape_, parameters_, target_, tap_factor_).forward(batch, steps);
  }
  return shape_.kind == HeadKind::medusa ? medusa(batch, steps) : unroll(batch, steps);
}

/// EAGLE-3: the taps' sum (or the head's own output) and, side by side, the normed embedding and
/// feature. EAGLE-1: fc of both, which the layer reads as it is.
HeadModel::Fused HeadModel::fuse(const Tensor& feature, const Tensor& tokens,
                                 bool from_target) const {
  const ParameterStore& p = parameters_;
  const auto wide = p.values().scalar_type();
  const Tensor embedding = target_.embedding.index_select(0, tokens);
  if (shape_.kind == HeadKind::eagle) {
    const Tensor both = at::cat({embedding, feature.to(low_type())}, 1);
    const Tensor x = linear(both, p["fc"]).to(wide) + p["fc_bias"].value;
    return {x.to(low_type()), x};
  }
  const Tensor residual =
      from_target ? linear(feature, p["fc"]).to(wide) * shape_.stream_scale : feature;
  const Tensor normed_embedding =
      rms_norm(embedding.to(wide), p["embedding_norm"], shape_.norm_epsilon, low_type());
  const Tensor normed = rms_norm(residual, p["feature_norm"], shape_.norm_epsilon, low_type());
  return {at::cat({normed_embedding, normed}, 1), residual};
}

Tensor HeadModel::layer(const Tensor& attended, const Tensor& residual) const {
  const ParameterStore& p = parameters_;
  const auto wide = residual.scalar_type();
  const Tensor h = residual + linear(attended, p["o"]).to(wide);
  const Tensor normed = rms_norm(h, p["post_norm"], shape_.norm_epsilon, low_type());
  return h + linear(silu_gate(linear(normed, p["gate_up"])), p["down"]).to(wide);
}

Tensor HeadModel::rotated(const Tensor& x, const Tensor& position) const {
  return rotate(x, target_.cosine.index_select(0, position),
                target_.sine.index_select(0, position));
}

std::vector<Tensor> HeadModel::unroll(const Batch& batch, int steps) const {
  const ParameterStore& p = parameters_;
  const bool eagle3 = shape_.kind == HeadKind::eagle3;
  const std::int64_t kv = shape_.kv_heads * shape_.head_dim;
  const auto keys_and_values = [&](const Tensor& input, const Tensor& position) {
    const auto both = linear(input, p["kv"]).split(kv, 1);
    return std::pair(rotated(both[0], position), both[1].contiguous());
  };
  const Tensor query_position = batch.position.index_select(0, batch.query_pair);

  const Tensor feature = eagle3 ? batch.taps.to(low_type()).mul_(tap_factor_) : batch.features;
  const Fused pairs = fuse(feature, batch.pair_token, /*from_target=*/true);
  const auto [k, v] = keys_and_values(pairs.input, batch.position);
  Fused rows{pairs.input.index_select(0, batch.query_pair),
             pairs.residual.index_select(0, batch.query_pair)};
  std::vector<Tensor> later_k, later_v, outputs;
  for (int step = 0; step < steps; ++step) {
    const Tensor position = query_position + step;
    if (step > 0) {
      rows = fuse(outputs.back(), batch.step_token[static_cast<std::size_t>(step)],
                  /*from_target=*/false);
      const auto [own_k, own_v] = keys_and_values(rows.input, position);
      later_k.push_back(own_k);
      later_v.push_back(own_v);
    }
    const auto stacked = [&](const std::vector<Tensor>& later) {
      return later.empty() ? k.new_empty({0, batch.queries(), kv}) : at::stack(later);
    };
    const Tensor q = rotated(linear(rows.input, p["q"]), position);
    const Tensor attended =
        attend({q, k, v, stacked(later_k), stacked(later_v)}, batch.sequences, shape_.head_dim);
    outputs.push_back(layer(attended, rows.residual));
  }
  return outputs;
}

/// Head j reads the target's vector of the query's pair and predicts token i + 2 + j.
std::vector<Tensor> HeadModel::medusa(const Batch& batch, int steps) const {
  const Tensor features = batch.features.index_select(0, batch.query_pair);
  std::vector<Tensor> outputs;
  for (int head = 0; head < steps; ++head) {
    Tensor x = features;
    for (int layer = 0; layer < shape_.medusa_layers; ++layer) {
      const Tensor inner = linear(x.to(low_type()), parameters_[medusa_name(head, layer, "weight")])
                               .to(x.scalar_type()) +
                           parameters_[medusa_name(head, layer, "bias")].value;
      x = x + at::silu(inner);
    }
    outputs.push_back(x);
  }
  return outputs;
}

}  // namespace talon
