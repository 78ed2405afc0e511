#include "model/block.h"

#include <algorithm>
#include <cmath>

namespace talon {
namespace {

/// Of LayerNorms of heads: that of the layer's own LayerNorms. Beside RMSNorms, as Chameleon has
/// them, the files do not tell.
float head_norm_epsilon(const LayerPlan& plan) {
  constexpr float kUsual = 1e-5F;
  return plan.norm == LayerPlan::Norm::layer ? plan.norm_epsilon : kUsual;
}

InputTransform norm_of(const LayerPlan& plan, const Buffer& weight) {
  if (!weight) return InputTransform::none;
  return plan.norm == LayerPlan::Norm::rms ? InputTransform::rms_norm : InputTransform::layer_norm;
}

bool adds_directly(const LayerPlan& plan, const Buffer& norm) {
  return !norm && plan.residual_scale == 1;
}

}  // namespace

BlockRunner::BlockRunner(Backend& backend, std::span<const LayerPlan> plans, int hidden,
                         int max_rows)
    : backend_(backend) {
  int q = 0, k = 0, v = 0, out = 0, between = 0;
  bool branches = false, parallel = false;
  for (const LayerPlan& plan : plans) {
    q = std::max(q, plan.heads * plan.head_dim);
    k = std::max({k, plan.kv_heads * plan.head_dim, plan.per_layer_input});
    v = std::max(v, plan.kv_heads * plan.values());
    out = std::max(out, plan.heads * plan.values());
    between = std::max(between, plan.intermediate * (is_gate(plan.activation) ? 2 : 1));
    between = std::max({between, 2 * plan.experts.shared_width, 2 * plan.per_layer_input});
    branches |= plan.post_norms || plan.residual_scale != 1 || plan.experts.count > 0;
    parallel |= plan.parallel || (plan.attends && plan.recurrent.value_heads > 0);
  }
  q_ = backend.allocate(max_rows, q);
  k_ = backend.allocate(max_rows, k);
  v_ = backend.allocate(max_rows, v);
  attended_ = backend.allocate(max_rows, out);
  gate_up_ = backend.allocate(max_rows, between);
  if (branches) branch_ = backend.allocate(max_rows, hidden);
  if (parallel) first_half_ = backend.allocate(max_rows, hidden);
  int latent_q = 0, plain_q = 0, joined = 0;
  for (const LayerPlan& plan : plans) {
    const LatentPlan& l = plan.latent;
    latent_q = std::max(latent_q, l.q_rank);
    plain_q = std::max(plain_q, plan.heads * l.plain_dim);
    joined = std::max(joined, plan.heads * l.output_dim);
  }
  if (plain_q > 0) {
    latent_q_ = backend.allocate(max_rows, latent_q);
    plain_q_ = backend.allocate(max_rows, plain_q);
    joined_ = backend.allocate(max_rows, joined);
  }
  allocate_experts(plans, hidden, max_rows);
  allocate_states(plans, max_rows);
}

void BlockRunner::run(const LayerPlan& plan, const LayerWeights& w, const BlockRows& rows,
                      const View& residual) {
  if (!plan.parallel) {
    mix(plan, w, rows, residual);
    if (plan.has_network()) feed_forward(plan, w, residual, rows.first_uses);
    if (rows.input) add_layer_input(plan, w, rows.input, residual);
    if (w.output_scale != 1) backend_.scale(residual, w.output_scale);
    return;
  }
  const View first = first_half_.rows(residual.rows);
  const Projection o[] = {{w.o.get(), first, w.o_bias.view()}};
  backend_.linear({.input = attended(plan, w, rows, residual), .outputs = o});
  feed_forward(plan, w, residual, rows.first_uses);
  backend_.add(residual, first, residual);
}

/// Attention, what a state gives, or both of the same input.
void BlockRunner::mix(const LayerPlan& plan, const LayerWeights& w, const BlockRows& rows,
                      const View& residual) {
  const bool keeps_state = plan.recurrent.value_heads > 0;
  View input = residual;
  if (plan.attends && keeps_state) {
    input = first_half_.rows(residual.rows);
    backend_.copy(residual, input);
  }
  if (plan.attends) attend(plan, w, rows, input, residual);
  if (keeps_state) attend_state(plan, w, rows, input, residual);
}

void BlockRunner::scale_columns(const View& x, int first, int count, float factor) {
  if (factor != 1) backend_.scale(x.col_range(first, count), factor);
}

void BlockRunner::attend(const LayerPlan& plan, const LayerWeights& w, const BlockRows& rows,
                         const View& input, const View& residual) {
  if (plan.output_gate) {
    const View gated = gated_.rows(input.rows).col_range(0, 2 * plan.heads * plan.values());
    attended(plan, w, rows, input);
    return add(plan, {.input = gated, .transform = InputTransform::sigmoid_gate, .outputs = {}},
               {w.o.get(), residual, w.o_bias.view()}, w.post_attention_norm, residual);
  }
  const View out = plan.latent.kv_rank > 0 ? attended_latents(plan, w, rows, input)
                                           : attended(plan, w, rows, input);
  add(plan, {.input = out, .outputs = {}, .rough = plan.rough},
      {w.o.get(), residual, w.o_bias.view()}, w.post_attention_norm, residual);
}

View BlockRunner::attended(const LayerPlan& plan, const LayerWeights& w, const BlockRows& rows,
                           const View& input) {
  const int count = input.rows;
  const View q = q_.rows(count).col_range(0, plan.heads * plan.head_dim);
  View k = k_.rows(count).col_range(0, plan.kv_heads * plan.head_dim);
  View v = v_.rows(count).col_range(0, plan.kv_heads * plan.values());
  const int width = plan.heads * plan.values();
  const View out = plan.output_gate ? gated_.rows(count).col_range(width, width)
                                    : attended_.rows(count).col_range(0, width);
  Projection qkv[4] = {{w.q.get(), q, w.q_bias.view()},
                       {w.k.get(), k, w.k_bias.view()},
                       {w.v.get(), v, w.v_bias.view()}};
  std::size_t projections = !plan.writes_cache ? 1 : plan.keys_are_values ? 2 : 3;
  if (plan.output_gate) {
    qkv[projections++] = {w.output_gate.get(), gated_.rows(count).col_range(0, width)};
  }
  backend_.linear({.input = input,
                   .transform = norm_of(plan, w.attention_norm),
                   .norm = w.attention_norm.view(),
                   .norm_bias = w.attention_norm_bias.view(),
                   .norm_epsilon = plan.norm_epsilon,
                   .outputs = std::span(qkv).first(projections),
                   .rough = plan.rough});
  if (!plan.writes_cache) k = v = {};
  if (k && plan.keys_are_values) backend_.copy(k, v);
  attend_cache(plan, w, rows, q, k, v, out);
  scale_columns(out, 0, width, plan.value_scale * plan.factors.v * plan.factors.o);
  return out;
}

/// LayerNorm of each head's columns (Chameleon, arXiv:2405.09818; Command R+).
void BlockRunner::norm_heads(const LayerPlan& plan, const View& x, const Buffer& weight,
                             const Buffer& bias) {
  const float epsilon = head_norm_epsilon(plan);
  for (int first = 0; first < x.cols; first += plan.head_dim) {
    const View head = x.col_range(first, plan.head_dim);
    const View shift = bias ? bias.view().col_range(first, plan.head_dim) : View{};
    backend_.layer_norm(head, weight.view().col_range(first, plan.head_dim), shift, epsilon, head);
  }
}

void BlockRunner::attend_cache(const LayerPlan& plan, const LayerWeights& w, const BlockRows& rows,
                               const View& q, const View& k, const View& v, const View& out) {
  const bool by_head = plan.head_norm == LayerPlan::HeadNorm::layer_per_head;
  if (by_head) {
    norm_heads(plan, q, w.q_norm, w.q_norm_bias);
    if (k) norm_heads(plan, k, w.k_norm, w.k_norm_bias);
  }
  const float usual_scale = 1.0F / std::sqrt(static_cast<float>(plan.head_dim));
  const float scale = plan.score_scale > 0 ? plan.score_scale : usual_scale;
  backend_.attention({.q = q,
                      .k = k,
                      .v = v,
                      .out = out,
                      .cache = rows.cache,
                      .layer = rows.layer,
                      .layout = rows.layout,
                      .rope = rows.rope,
                      .q_norm = by_head ? View{} : w.q_norm.view(),
                      .k_norm = by_head ? View{} : w.k_norm.view(),
                      .v_norm = w.v_norm.view(),
                      .norm_after_rope = plan.head_norm == LayerPlan::HeadNorm::after_rope,
                      .norm_epsilon = plan.norm_epsilon,
                      .scale = scale * plan.factors.q * plan.factors.k,
                      .query_scale = rows.query_scale,
                      .sinks = w.sinks.view(),
                      .soft_cap = plan.soft_cap,
                      .window = plan.window,
                      .chunk = plan.chunk});
}

void BlockRunner::feed_forward(const LayerPlan& plan, const LayerWeights& w, const View& residual,
                               const Indices& first_uses) {
  if (plan.experts.count > 0) return feed_experts(plan, w, residual, first_uses);
  feed_dense(plan, w, residual, residual);
}

/// The dense network of norm(residual): added to it, or written to `out` where that is another.
void BlockRunner::feed_dense(const LayerPlan& plan, const LayerWeights& w, const View& residual,
                             const View& out) {
  const int width = plan.intermediate;
  const bool gated = is_gate(plan.activation);
  const View between = gate_up_.rows(residual.rows).col_range(0, gated ? 2 * width : width);
  const Projection gate_and_up[] = {
      {w.gate.get(), between.col_range(0, width), w.gate_bias.view()},
      {w.up.get(), between.col_range(gated ? width : 0, width), w.up_bias.view()}};
  backend_.linear({.input = residual,
                   .transform = norm_of(plan, w.ffn_norm),
                   .norm = w.ffn_norm.view(),
                   .norm_bias = w.ffn_norm_bias.view(),
                   .norm_epsilon = plan.norm_epsilon,
                   .outputs = std::span(gate_and_up).last(gated ? 2 : 1),
                   .rough = plan.rough});
  if (gated) {
    scale_columns(between, 0, width, plan.factors.gate);
    scale_columns(between, width, width, plan.factors.down);
  }
  const LinearArgs down{.input = between,
                        .transform = plan.activation,
                        .outputs = {},
                        .rough = plan.rough,
                        .xielu = w.xielu};
  const Projection to{w.down.get(), out, w.down_bias.view()};
  if (out.data == residual.data) return add(plan, down, to, w.post_ffn_norm, residual);
  LinearArgs args = down;
  args.outputs = {&to, 1};
  backend_.linear(args);
}

/// Gemma's per-layer embeddings: residual += norm(projection(gelu(gate(residual)) * input)).
void BlockRunner::add_layer_input(const LayerPlan& plan, const LayerWeights& w, const View& input,
                                  const View& residual) {
  const int width = plan.per_layer_input;
  const View both = gate_up_.rows(residual.rows).col_range(0, 2 * width);
  const View out = branch_.rows(residual.rows);
  const Projection gate[] = {{w.input_gate.get(), both.col_range(0, width)}};
  backend_.linear({.input = residual, .outputs = gate});
  backend_.copy(input, both.col_range(width, width));
  const Projection back[] = {{w.input_projection.get(), out}};
  backend_.linear({.input = both, .transform = InputTransform::gelu_tanh_gate, .outputs = back});
  backend_.rms_norm(out, w.input_norm.view(), plan.norm_epsilon, out);
  backend_.add(residual, out, residual);
}

void BlockRunner::add(const LayerPlan& plan, const LinearArgs& input, const Projection& projection,
                      const Buffer& norm, const View& residual) {
  Projection to = projection;
  LinearArgs args = input;
  args.outputs = {&to, 1};
  if (adds_directly(plan, norm)) {
    to.accumulate = true;
    return backend_.linear(args);
  }
  to.out = branch_.rows(residual.rows);
  backend_.linear(args);
  if (norm) backend_.rms_norm(to.out, norm.view(), plan.norm_epsilon, to.out);
  backend_.add_scaled(residual, to.out, plan.residual_scale, residual);
}

}  // namespace talon
