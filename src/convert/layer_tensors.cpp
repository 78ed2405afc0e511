#include "convert/layer_tensors.h"

#include <fmt/format.h>

#include "core/error.h"

namespace talon {
namespace {

using Part = GgufTensor::Part;

const KeptWeight* kept(const Weight* weight) { return static_cast<const KeptWeight*>(weight); }
const KeptWeight* kept(const std::unique_ptr<Weight>& weight) { return kept(weight.get()); }

std::string whole_name(const std::string& name, int layer) {
  return fmt::format(fmt::runtime(name), layer);
}

struct VectorName {
  Buffer LayerWeights::*weight;
  std::string TensorNames::*name;
  const char* part = "weight";
};
/// Vectors that files hold as they are.
constexpr VectorName kVectors[] = {
    {&LayerWeights::attention_norm, &TensorNames::attention_norm},
    {&LayerWeights::attention_norm_bias, &TensorNames::attention_norm, "bias"},
    {&LayerWeights::post_attention_norm, &TensorNames::post_attention_norm},
    {&LayerWeights::ffn_norm_bias, &TensorNames::ffn_norm, "bias"},
    {&LayerWeights::post_ffn_norm, &TensorNames::post_ffn_norm},
    {&LayerWeights::o_bias, &TensorNames::o, "bias"},
    {&LayerWeights::down_bias, &TensorNames::down, "bias"},
    {&LayerWeights::sinks, &TensorNames::sinks},
    {&LayerWeights::input_norm, &TensorNames::input_norm},
};

struct MatrixName {
  std::unique_ptr<Weight> LayerWeights::*weight;
  std::string TensorNames::*name;
};
constexpr MatrixName kMatrices[] = {
    {&LayerWeights::input_gate, &TensorNames::input_gate},
    {&LayerWeights::input_projection, &TensorNames::input_projection},
};

struct SharedName {
  std::unique_ptr<Weight> ExpertLayerWeights::*weight;
  std::string TensorNames::*name;
};
constexpr SharedName kShared[] = {
    {&ExpertLayerWeights::router, &TensorNames::router},
    {&ExpertLayerWeights::shared_gate, &TensorNames::shared_gate},
    {&ExpertLayerWeights::shared_up, &TensorNames::shared_up},
    {&ExpertLayerWeights::shared_down, &TensorNames::shared_down},
    {&ExpertLayerWeights::shared_router, &TensorNames::shared_router},
};
struct ExpertVector {
  Buffer ExpertLayerWeights::*weight;
  std::string TensorNames::*name;
  const char* part = "weight";  // null: the name is whole
};
constexpr ExpertVector kExpertVectors[] = {
    {&ExpertLayerWeights::router_bias, &TensorNames::router, "bias"},
    {&ExpertLayerWeights::choice_bias, &TensorNames::choice_bias, nullptr},
    {&ExpertLayerWeights::expert_scale, &TensorNames::expert_scale, nullptr},
    {&ExpertLayerWeights::pre_norm, &TensorNames::pre_expert_norm},
    {&ExpertLayerWeights::dense_post_norm, &TensorNames::post_dense_norm},
    {&ExpertLayerWeights::expert_post_norm, &TensorNames::post_expert_norm},
    {&ExpertLayerWeights::gate_bias, &TensorNames::expert_gate, "bias"},
    {&ExpertLayerWeights::up_bias, &TensorNames::expert_up, "bias"},
    {&ExpertLayerWeights::down_bias, &TensorNames::expert_down, "bias"},
};

/// Appends `count` rows from `first` on, of which the first `rotary` are half-split: in pairwise
/// order where the file has that.
void append_rows(int first, int count, int rotary, bool pairwise,
                 std::vector<std::int32_t>& order) {
  for (int i = 0; i < count; ++i) {
    const bool turns = pairwise && i < rotary;
    order.push_back(first + (turns ? i / 2 + i % 2 * rotary / 2 : i));
  }
}

/// Value heads in the order of the file: file head i of the values of `plan` is loaded head
/// order[i].
std::vector<std::int32_t> value_heads(const RecurrentPlan& plan) {
  std::vector<std::int32_t> order;
  const int together = plan.value_heads / plan.key_heads;
  for (int head = 0; head < plan.value_heads; ++head) {
    order.push_back(plan.tiled_heads ? head % plan.key_heads * together + head / plan.key_heads
                                     : head);
  }
  return order;
}

/// Rows of the heads in that order, `rows` of each, behind `before` others.
std::vector<std::int32_t> rows_of_heads(std::span<const std::int32_t> heads, int rows,
                                        int before = 0) {
  std::vector<std::int32_t> order;
  for (int i = 0; i < before; ++i) order.push_back(i);
  for (const std::int32_t head : heads) {
    for (int i = 0; i < rows; ++i) order.push_back(before + head * rows + i);
  }
  return order;
}

}  // namespace

LayerTensors::LayerTensors(Backend& backend, const ModelConfig& target, const TensorNames& names)
    : backend_(backend), target_(target), names_(names) {}

const KeptWeight* LayerTensors::keep(const Buffer& buffer) {
  const View view = buffer.view();
  std::vector<float> values(static_cast<std::size_t>(view.rows) *
                            static_cast<std::size_t>(view.cols));
  backend_.download(view, values);
  vectors_.push_back(keep_values(values, static_cast<int>(values.size())));
  return vectors_.back().get();
}

void LayerTensors::add(std::string name, std::vector<std::int64_t> shape, std::vector<Part> parts) {
  tensors_.push_back({std::move(name), std::move(shape), std::move(parts)});
}

void LayerTensors::add_matrix(std::string name, const Weight* weight, float factor) {
  if (weight) add(std::move(name), {weight->rows, weight->cols}, {{kept(weight), {}, factor}});
}

void LayerTensors::add_vector(std::string name, const Buffer& buffer) {
  if (!buffer) return;
  const View view = buffer.view();
  std::vector<std::int64_t> shape = {view.rows, view.cols};
  if (view.rows == 1) shape.erase(shape.begin());
  add(std::move(name), std::move(shape), {{keep(buffer)}});
}

void LayerTensors::add_values(std::string name, std::vector<std::int64_t> shape,
                              std::span<const float> values) {
  vectors_.push_back(keep_values(values, static_cast<int>(values.size())));
  add(std::move(name), std::move(shape), {{vectors_.back().get()}});
}

void LayerTensors::add_joined(std::string name, std::vector<Part> parts) {
  std::int64_t rows = 0;
  for (const Part& part : parts) {
    rows += part.rows.empty() ? part.weight->rows : static_cast<std::int64_t>(part.rows.size());
  }
  const KeptWeight& first = *parts.at(0).weight;
  const bool vector = name.ends_with(".bias");
  std::vector<std::int64_t> shape = {rows, first.cols};
  if (vector) shape.pop_back();
  add(std::move(name), std::move(shape), std::move(parts));
}

void LayerTensors::add_stack(std::string name, std::vector<const Weight*> weights) {
  std::vector<Part> parts;
  for (const Weight* weight : weights) parts.push_back({kept(weight)});
  const Weight& first = *weights.at(0);
  add(std::move(name), {static_cast<std::int64_t>(weights.size()), first.rows, first.cols},
      std::move(parts));
}

void LayerTensors::add_layer(int layer, const LayerWeights& w, const MatrixFactors& factors) {
  const LayerPlan& plan = target_.plans[static_cast<std::size_t>(layer)];
  factors_ = factors;
  for (const VectorName& one : kVectors) {
    // One norm for both halves.
    const bool same =
        names_.*one.name == names_.attention_norm && one.name != &TensorNames::attention_norm;
    if (!same) add_vector(layer_tensor(names_.*one.name, layer, one.part), w.*one.weight);
  }
  const bool one_norm = names_.ffn_norm == names_.attention_norm && plan.mixes();
  if (!one_norm) add_vector(names_.ffn_norm_of(layer), w.ffn_norm);
  for (const MatrixName& one : kMatrices) {
    add_matrix(layer_tensor(names_.*one.name, layer), (w.*one.weight).get());
  }
  if (plan.output_scale) {
    add_values(layer_tensor(names_.layer_scale, layer), {1}, {&w.output_scale, 1});
  }
  if (plan.recurrent.value_heads > 0) add_recurrent(layer, plan, w);
  if (plan.attends) {
    add_matrix(layer_tensor(names_.o, layer), w.o.get(), factors.o);
    if (plan.latent.kv_rank > 0) {
      add_latents(layer, plan, w.latent);
    } else {
      add_projections(layer, plan, w);
    }
  }
  add_feed_forward(layer, plan, w);
  if (plan.experts.count > 0) add_experts(layer, plan, w.experts);
}

LayerTensors::Order LayerTensors::head_order(int heads, int head_dim, const LayerPlan& plan) const {
  Order order;
  const bool paired = plan.rope != LayerPlan::Rope::none || target_.forms.still_rows_paired;
  if (!target_.interleaved_rope || !paired) return order;
  const bool local = plan.rope == LayerPlan::Rope::local && target_.local_rope;
  const RopeConfig& rope = local ? *target_.local_rope : target_.rope;
  const int rotary = rope.rotary > 0 ? rope.rotary : head_dim;
  for (int head = 0; head < heads; ++head) {
    append_rows(head * head_dim, head_dim, rotary, true, order);
  }
  return order;
}

/// In the order of the rows whose results they weigh.
void LayerTensors::add_layer_norms_of_heads(int layer, const LayerPlan& plan,
                                            const LayerWeights& w) {
  const auto add_one = [&](const std::string& name, int heads, const Buffer& norm) {
    add(layer_tensor(name, layer), {heads, plan.head_dim},
        {{keep(norm), head_order(heads, plan.head_dim, plan)}});
  };
  add_one(names_.q_norm, plan.heads, w.q_norm);
  add_one(names_.k_norm, plan.kv_heads, w.k_norm);
}

void LayerTensors::add_projections(int layer, const LayerPlan& plan, const LayerWeights& w) {
  using HeadNorm = LayerPlan::HeadNorm;
  if (plan.head_norm == HeadNorm::per_head || plan.head_norm == HeadNorm::per_row ||
      plan.head_norm_weights) {
    expects(!target_.interleaved_rope, "head norms of half-split rows");
    add_vector(layer_tensor(names_.q_norm, layer), w.q_norm);
    add_vector(layer_tensor(names_.k_norm, layer), w.k_norm);
  }
  if (plan.head_norm == HeadNorm::layer_per_head) add_layer_norms_of_heads(layer, plan, w);
  if (target_.forms.fused_qkv) return add_fused_projections(layer, plan, w);
  const auto add_one = [&](const std::string& name, const std::unique_ptr<Weight>& weight,
                           const Buffer& bias, const Order& order, float factor) {
    if (weight) add_joined(layer_tensor(name, layer), {{kept(weight), order, factor}});
    if (bias) add_joined(layer_tensor(name, layer, "bias"), {{keep(bias), order}});
  };
  if (plan.output_gate && !target_.forms.gate_apart) {
    add_gated_queries(layer, plan, w);
  } else {
    add_one(names_.q, w.q, w.q_bias, head_order(plan.heads, plan.head_dim, plan), factors_.q);
    add_matrix(layer_tensor(names_.attention_gate, layer), w.output_gate.get());
  }
  add_one(names_.k, w.k, w.k_bias, head_order(plan.kv_heads, plan.head_dim, plan), factors_.k);
  add_one(names_.v, w.v, w.v_bias, {}, factors_.v);
}

/// Queries and their gates take turns, head by head.
void LayerTensors::add_gated_queries(int layer, const LayerPlan& plan, const LayerWeights& w) {
  std::vector<Part> parts;
  for (int head = 0; head < plan.heads; ++head) {
    Order rows;
    append_rows(head * plan.head_dim, plan.head_dim, 0, false, rows);
    parts.push_back({kept(w.q), rows});
    parts.push_back({kept(w.output_gate), rows});
  }
  add_joined(layer_tensor(names_.q, layer), std::move(parts));
}

void LayerTensors::add_fused_projections(int layer, const LayerPlan& plan, const LayerWeights& w) {
  expects(!target_.interleaved_rope && w.k && w.v, "fused rows that are half-split");
  add_joined(layer_tensor(names_.qkv, layer), {{kept(w.q)}, {kept(w.k)}, {kept(w.v)}});
  if (!plan.qkv_bias) return;
  add_joined(layer_tensor(names_.qkv, layer, "bias"),
             {{keep(w.q_bias)}, {keep(w.k_bias)}, {keep(w.v_bias)}});
}

void LayerTensors::add_feed_forward(int layer, const LayerPlan& plan, const LayerWeights& w) {
  if (plan.intermediate == 0) return;
  add_matrix(layer_tensor(names_.down, layer), w.down.get(), factors_.down);
  if (target_.forms.fused_gate_up) {
    add_joined(layer_tensor(names_.gate_up, layer), {{kept(w.gate)}, {kept(w.up)}});
    return;
  }
  add_matrix(layer_tensor(names_.gate, layer), w.gate.get(), factors_.gate);
  add_matrix(layer_tensor(names_.up, layer), w.up.get());
  add_vector(layer_tensor(names_.gate, layer, "bias"), w.gate_bias);
  add_vector(layer_tensor(names_.up, layer, "bias"), w.up_bias);
}

void LayerTensors::add_experts(int layer, const LayerPlan& plan, const ExpertLayerWeights& w) {
  for (const SharedName& one : kShared) {
    add_matrix(layer_tensor(names_.*one.name, layer), (w.*one.weight).get());
  }
  for (const ExpertVector& one : kExpertVectors) {
    const std::string& name = names_.*one.name;
    add_vector(one.part ? layer_tensor(name, layer, one.part) : whole_name(name, layer),
               w.*one.weight);
  }
  add_expert_matrices(layer, plan, w);
}

void LayerTensors::add_expert_matrices(int layer, const LayerPlan& plan,
                                       const ExpertLayerWeights& w) {
  std::vector<const Weight*> gates, ups, downs;
  for (const ExpertWeights& one : w.experts) {
    gates.push_back(one.gate);
    ups.push_back(one.up);
    downs.push_back(one.down);
  }
  add_stack(layer_tensor(names_.expert_down, layer), downs);
  const bool together = plan.experts.beside_dense || target_.architecture == "mistral4";
  if (!together) {
    if (gates[0]) add_stack(layer_tensor(names_.expert_gate, layer), gates);
    add_stack(layer_tensor(names_.expert_up, layer), ups);
    return;
  }
  std::vector<Part> parts;  // both in one, the gate first
  for (std::size_t i = 0; i < gates.size(); ++i) {
    parts.push_back({kept(gates[i])});
    parts.push_back({kept(ups[i])});
  }
  add(layer_tensor(names_.expert_gate_up, layer),
      {plan.experts.count, 2 * plan.experts.width, target_.hidden}, std::move(parts));
}

void LayerTensors::add_latents(int layer, const LayerPlan& plan, const LatentWeights& w) {
  const LatentPlan& l = plan.latent;
  const auto name = [&](const std::string& of) { return layer_tensor(of, layer); };
  Order turned;  // of the rotated rows
  append_rows(0, l.rotary_dim, l.rotary_dim, target_.interleaved_rope, turned);
  add_matrix(name(names_.q_down), w.q_down.get());
  add_vector(name(names_.q_down_norm), w.q_norm);
  std::vector<Part> queries;  // of each head [plain | rotated]
  for (int head = 0; head < plan.heads; ++head) {
    Order plain;
    append_rows(head * l.plain_dim, l.plain_dim, 0, false, plain);
    queries.push_back({kept(w.q_plain), std::move(plain)});
    queries.push_back({kept(w.q_rotary[static_cast<std::size_t>(head)]), turned});
  }
  add_joined(name(l.q_rank > 0 ? names_.q_up : names_.q), std::move(queries));
  add_joined(name(names_.kv_down), {{kept(w.latent)}, {kept(w.rotary_key), turned}});
  add_vector(name(names_.kv_down_norm), w.latent_norm);
  for (const auto& [of, weights] :
       {std::pair{&names_.key_up, &w.key_up}, std::pair{&names_.value_up, &w.value_up}}) {
    std::vector<const Weight*> heads;
    for (const auto& weight : *weights) heads.push_back(weight.get());
    add_stack(name(*of), heads);
  }
}

void LayerTensors::add_recurrent(int layer, const LayerPlan& plan, const LayerWeights& w) {
  const RecurrentPlan& r = plan.recurrent;
  if (r.rule != StateRule::gated_delta) {
    r.rule == StateRule::mamba2 ? add_mamba(layer, r, w.recurrent)
                                : add_convolution(layer, r, w.recurrent);
    return add_matrix(layer_tensor(names_.state_o, layer), w.recurrent.o.get(), factors_.state_o);
  }
  const Order heads = value_heads(r);
  const int keys = r.shape().first_value();
  add_joined(layer_tensor(names_.state_inputs, layer),
             {{kept(w.recurrent.inputs), rows_of_heads(heads, r.value_dim, keys)}});
  add_joined(layer_tensor(names_.state_gate, layer),
             {{kept(w.recurrent.gate), rows_of_heads(heads, r.value_dim)}});
  add_state_gates(layer, r, w.recurrent);
  add_state_vectors(layer, r, w.recurrent);
  add_matrix(layer_tensor(names_.state_o, layer), w.recurrent.o.get());
  if (r.tiled_heads) tensors_.back().column_order = heads;
}

/// Rows [gate | channels | decay] of one matrix; numbers of value heads, and the norm of each key
/// head, are rows.
void LayerTensors::add_mamba(int layer, const RecurrentPlan& plan, const RecurrentWeights& w) {
  const auto add_rows = [&](std::string name, const Buffer& buffer, int rows) {
    const std::int64_t cols = buffer.view().cols / rows;
    add(std::move(name), {rows, cols}, {{keep(buffer)}});
  };
  const MatrixFactors& f = factors_;
  const StateShape shape = plan.shape();
  std::vector<Part> parts = {{kept(w.gate), {}, f.state_gate}};
  const auto add_channels = [&](int first, int count, float factor) {
    Order rows;
    append_rows(first, count, 0, false, rows);
    parts.push_back({kept(w.inputs), std::move(rows), factor});
  };
  add_channels(shape.first_value(), shape.values(), f.state_value);
  add_channels(shape.first_key(), shape.keys(), f.state_key);
  add_channels(shape.first_query(), shape.keys(), f.state_query);
  parts.push_back({kept(w.decay), {}, f.state_decay});
  add_joined(layer_tensor(names_.state_fused_inputs, layer), std::move(parts));
  add_rows(whole_name(names_.state_rate, layer), w.rate, plan.value_heads);
  add_rows(whole_name(names_.state_skip, layer), w.skip, plan.value_heads);
  add_vector(whole_name(names_.state_bias, layer), w.bias);
  if (w.norm) add_rows(layer_tensor(names_.state_norm, layer), w.norm, plan.key_heads);
  add_filter(layer, plan, w);
  add_vector(layer_tensor(names_.state_filter, layer, "bias"), w.filter_bias);
}

/// Rows [factors of inputs | gate | inputs] of one matrix.
void LayerTensors::add_convolution(int layer, const RecurrentPlan& plan,
                                   const RecurrentWeights& w) {
  add_joined(layer_tensor(names_.state_fused_inputs, layer),
             {{kept(w.write)}, {kept(w.gate)}, {kept(w.inputs)}});
  add_filter(layer, plan, w);
}

void LayerTensors::add_state_gates(int layer, const RecurrentPlan& plan,
                                   const RecurrentWeights& w) {
  const auto name = [&](const std::string& of) { return layer_tensor(of, layer); };
  if (!target_.forms.fused_by_key_head) {
    const Order heads = value_heads(plan);
    add_joined(name(names_.state_write), {{kept(w.write), heads}});
    add_joined(name(names_.state_decay), {{kept(w.decay), heads}});
    return;
  }
  std::vector<Part> parts;  // [write | decay] of each key head
  const int together = plan.value_heads / plan.key_heads;
  for (int head = 0; head < plan.key_heads; ++head) {
    Order rows;
    append_rows(head * together, together, 0, false, rows);
    parts.push_back({kept(w.write), rows});
    parts.push_back({kept(w.decay), rows});
  }
  add_joined(name(names_.state_fused_gates), std::move(parts));
}

void LayerTensors::add_state_vectors(int layer, const RecurrentPlan& plan,
                                     const RecurrentWeights& w) {
  const Order heads = value_heads(plan);
  const auto add_heads = [&](const std::string& name, const Buffer& buffer) {
    add(whole_name(name, layer), {plan.value_heads}, {{keep(buffer), heads}});
  };
  add_heads(names_.state_rate, w.rate);
  add_heads(names_.state_bias, w.bias);
  add_vector(layer_tensor(names_.state_norm, layer), w.norm);
  add_filter(layer, plan, w);
}

/// Loaded tap by tap, stored channel by channel.
void LayerTensors::add_filter(int layer, const RecurrentPlan& plan, const RecurrentWeights& w) {
  const auto channels = static_cast<std::size_t>(plan.channels());
  const auto taps = static_cast<std::size_t>(plan.kernel);
  std::vector<float> loaded(channels * taps), stored(channels * taps);
  backend_.download(w.filter.view(), loaded);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    for (std::size_t tap = 0; tap < taps; ++tap) {
      stored[channel * taps + tap] = loaded[tap * channels + channel];
    }
  }
  vectors_.push_back(keep_values(stored, plan.channels()));
  Order order;
  if (plan.tiled_heads) {
    order = rows_of_heads(value_heads(plan), plan.value_dim, plan.shape().first_value());
  }
  add(layer_tensor(names_.state_filter, layer), {plan.channels(), plan.kernel},
      {{vectors_.back().get(), order}});
}

}  // namespace talon
