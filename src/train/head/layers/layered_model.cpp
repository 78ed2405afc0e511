#include "train/head/layers/layered_model.h"

#include <fmt/format.h>

#include "train/head/layers/anchors.h"

namespace talon {
namespace {

using torch::Tensor;

std::string named(int layer, std::string_view part) { return fmt::format("{}.{}", layer, part); }

void add_layer(const HeadShape& shape, int layer, std::vector<ParameterStore::Shape>& shapes) {
  const std::int64_t h = shape.hidden, kv = shape.kv_heads * shape.head_dim;
  const std::int64_t q = shape.heads * shape.head_dim, inner = shape.intermediate;
  shapes.push_back({named(layer, "q"), {q, h}});
  shapes.push_back({named(layer, "kv"), {2 * kv, h}});
  shapes.push_back({named(layer, "o"), {h, q}});
  shapes.push_back({named(layer, "gate_up"), {2 * inner, h}});
  shapes.push_back({named(layer, "down"), {h, inner}});
  shapes.push_back({named(layer, "input_norm"), {h}});
  shapes.push_back({named(layer, "post_norm"), {h}});
}

/// Row r of every block, of blocks of `rows`.
Tensor row_of_blocks(const Tensor& x, int rows, int row) {
  return x.view({-1, rows, x.size(1)}).select(1, row);
}

/// All rows of each sequence, as queries.
std::vector<SequenceRange> whole_sequences(const Batch& batch) {
  std::vector<SequenceRange> whole = batch.sequences;
  for (SequenceRange& range : whole) {
    range.query_begin = range.key_begin;
    range.query_count = range.key_count;
  }
  return whole;
}

/// The positions of the rows of blocks whose first row stands `ahead` places after its pair's own.
Tensor block_positions(const Batch& batch, int rows, int ahead) {
  const Tensor first = batch.position.index_select(0, batch.query_pair) + ahead;
  return (first.unsqueeze(1) + at::arange(rows, first.options()).unsqueeze(0)).reshape(-1);
}

}  // namespace

std::vector<ParameterStore::Shape> layered_parameter_shapes(const HeadShape& shape) {
  const std::int64_t h = shape.hidden, taps = shape.taps;
  std::vector<ParameterStore::Shape> shapes;
  const bool dflash = shape.kind == HeadKind::dflash, peagle = shape.kind == HeadKind::peagle;
  if (dflash) {
    shapes = {{"fc", {h, taps * h}}, {"context_norm", {h}}, {"output_norm", {h}}};
  } else if (peagle) {
    shapes = {{"mask_features", {1, taps * h}}};
  } else {
    shapes = {{"output_norm", {h}}};
  }
  for (int layer = peagle ? 1 : 0; layer < shape.layers; ++layer) {
    add_layer(shape, layer, shapes);
    if (!dflash) continue;
    shapes.push_back({named(layer, "q_norm"), {shape.head_dim}});
    shapes.push_back({named(layer, "k_norm"), {shape.head_dim}});
  }
  return shapes;
}

LayeredModel::LayeredModel(const HeadShape& shape, const ParameterStore& parameters,
                           const TargetTables& target, Tensor tap_factor)
    : shape_(shape),
      p_(parameters),
      target_(target),
      tap_factor_(std::move(tap_factor)),
      low_(target.output.scalar_type()) {}

std::vector<Tensor> LayeredModel::forward(const Batch& batch, int places) const {
  if (shape_.kind == HeadKind::draft) return {draft(batch)};
  return shape_.kind == HeadKind::dflash ? dflash(batch, places) : peagle(batch, places);
}

Tensor LayeredModel::norm(const Tensor& x, const std::string& name) const {
  return rms_norm(x, p_[name], shape_.norm_epsilon, low_);
}

Tensor LayeredModel::placed(const Tensor& x, const std::string& head_norm,
                            const Tensor& position) const {
  Tensor y = x;
  if (!head_norm.empty()) {
    const auto wide = p_.values().scalar_type();
    y = norm(x.to(wide).reshape({-1, shape_.head_dim}), head_norm).view(x.sizes());
  }
  return rotate(y, target_.cosine.index_select(0, position),
                target_.sine.index_select(0, position));
}

Tensor LayeredModel::add_halves(const Tensor& x, const Tensor& attended,
                                const std::string& layer) const {
  const auto wide = x.scalar_type();
  const Tensor h = x + linear(attended, p_[layer + "o"]).to(wide);
  const Tensor gated = silu_gate(linear(norm(h, layer + "post_norm"), p_[layer + "gate_up"]));
  return h + linear(gated, p_[layer + "down"]).to(wide);
}

std::vector<Tensor> LayeredModel::dflash(const Batch& batch, int places) const {
  const int rows = places + 1;  // the root and masks
  const auto wide = p_.values().scalar_type();
  const std::int64_t kv = shape_.kv_heads * shape_.head_dim;
  const Tensor fused = linear(batch.taps.to(low_).mul_(tap_factor_), p_["fc"]).to(wide);
  const Tensor context = norm(fused, "context_norm");
  const AnchoredRows blocks = blocks_behind(batch, rows, /*causal=*/false);
  const Tensor roots = batch.step_token[0].unsqueeze(1);
  const Tensor masks = at::full({roots.size(0), places}, shape_.mask_token, roots.options());
  const Tensor position = block_positions(batch, rows, 1);
  const Tensor tokens = at::cat({roots, masks}, 1).reshape(-1);
  Tensor x = target_.embedding.index_select(0, tokens).to(wide) * target_.embedding_scale;
  for (int i = 0; i < shape_.layers; ++i) {
    const std::string layer = named(i, "");
    const Tensor input = norm(x, layer + "input_norm");
    const auto own = linear(input, p_[layer + "kv"]).split(kv, 1);
    const auto text = linear(context, p_[layer + "kv"]).split(kv, 1);
    const Tensor q = placed(linear(input, p_[layer + "q"]), layer + "q_norm", position);
    const Tensor attended = attend_blocks(
        q, placed(text[0], layer + "k_norm", batch.position), text[1].contiguous(),
        placed(own[0], layer + "k_norm", position), own[1].contiguous(), blocks, shape_.head_dim);
    x = add_halves(x, attended, layer);
  }
  std::vector<Tensor> guesses;
  for (int place = 0; place < places; ++place) guesses.push_back(row_of_blocks(x, rows, place + 1));
  return guesses;
}

/// All pairs and the masks behind the queries run through the same layers; masks see the pairs.
std::vector<Tensor> LayeredModel::peagle(const Batch& batch, int places) const {
  const int masks = places - 1;
  const auto wide = p_.values().scalar_type();
  const std::int64_t kv = shape_.kv_heads * shape_.head_dim;
  const std::int64_t rows = batch.query_pair.size(0) * masks;
  const AnchoredRows blocks = blocks_behind(batch, masks, /*causal=*/true);
  const Tensor position = block_positions(batch, masks, 1);
  const std::vector<SequenceRange> whole = whole_sequences(batch);
  const auto fused = [&](const Tensor& taps) {
    return linear(taps, p_["fc"]).to(wide) * shape_.stream_scale;
  };
  const auto pair_input = [&](const Tensor& tokens, const Tensor& residual) {
    const Tensor embedding = target_.embedding.index_select(0, tokens).to(wide);
    return at::cat({norm(embedding, "embedding_norm"), norm(residual, "feature_norm")}, 1);
  };
  Tensor x = fused(batch.taps.to(low_).mul_(tap_factor_));
  const Tensor mask_features = p_["mask_features"].value.to(low_);
  Tensor y = fused(mask_features).expand({rows, shape_.hidden}).contiguous();
  const Tensor mask_tokens = at::full({rows}, shape_.mask_token, batch.pair_token.options());
  for (int i = 0; i < shape_.layers; ++i) {
    const std::string layer = i == 0 ? "" : named(i, "");
    const Tensor in_x = i == 0 ? pair_input(batch.pair_token, x) : norm(x, layer + "input_norm");
    const auto text = linear(in_x, p_[layer + "kv"]).split(kv, 1);
    const Tensor k = placed(text[0], "", batch.position), v = text[1].contiguous();
    if (masks > 0) {
      const Tensor in_y = i == 0 ? pair_input(mask_tokens, y) : norm(y, layer + "input_norm");
      const auto own = linear(in_y, p_[layer + "kv"]).split(kv, 1);
      const Tensor q = placed(linear(in_y, p_[layer + "q"]), "", position);
      y = add_halves(y,
                     attend_blocks(q, k, v, placed(own[0], "", position), own[1].contiguous(),
                                   blocks, shape_.head_dim),
                     layer);
    }
    const Tensor q = placed(linear(in_x, p_[layer + "q"]), "", batch.position);
    const Tensor none = k.new_empty({0, k.size(0), kv});
    x = add_halves(x, attend({q, k, v, none, none}, whole, shape_.head_dim), layer);
  }
  std::vector<Tensor> guesses = {x.index_select(0, batch.query_pair)};
  for (int place = 1; place < places; ++place) {
    guesses.push_back(row_of_blocks(y, masks, place - 1));
  }
  return guesses;
}

/// A model like any other: it reads the tokens alone.
Tensor LayeredModel::draft(const Batch& batch) const {
  const auto wide = p_.values().scalar_type();
  const std::int64_t kv = shape_.kv_heads * shape_.head_dim;
  const std::vector<SequenceRange> whole = whole_sequences(batch);
  Tensor x = target_.embedding.index_select(0, batch.pair_token).to(wide) * target_.embedding_scale;
  for (int i = 0; i < shape_.layers; ++i) {
    const std::string layer = named(i, "");
    const Tensor input = norm(x, layer + "input_norm");
    const auto both = linear(input, p_[layer + "kv"]).split(kv, 1);
    const Tensor q = placed(linear(input, p_[layer + "q"]), "", batch.position);
    const Tensor k = placed(both[0], "", batch.position), v = both[1].contiguous();
    const Tensor none = k.new_empty({0, k.size(0), kv});
    x = add_halves(x, attend({q, k, v, none, none}, whole, shape_.head_dim), layer);
  }
  return x.index_select(0, batch.query_pair);
}

}  // namespace talon
