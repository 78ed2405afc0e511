#include "model/block.h"

#include <algorithm>
#include <cmath>

namespace talon {
namespace {

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
    k = std::max(k, plan.kv_heads * plan.head_dim);
    v = std::max(v, plan.kv_heads * plan.values());
    out = std::max(out, plan.heads * plan.values());
    between = std::max(between, plan.intermediate * (is_gate(plan.activation) ? 2 : 1));
    branches |= plan.post_norms || plan.residual_scale != 1;
    parallel |= plan.parallel;
  }
  q_ = backend.allocate(max_rows, q);
  k_ = backend.allocate(max_rows, k);
  v_ = backend.allocate(max_rows, v);
  attended_ = backend.allocate(max_rows, out);
  gate_up_ = backend.allocate(max_rows, between);
  if (branches) branch_ = backend.allocate(max_rows, hidden);
  if (parallel) first_half_ = backend.allocate(max_rows, hidden);
}

void BlockRunner::run(const LayerPlan& plan, const LayerWeights& w, const BlockRows& rows,
                      const View& residual) {
  if (!plan.parallel) {
    attend(plan, w, rows, residual, residual);
    feed_forward(plan, w, residual);
    return;
  }
  const View first = first_half_.rows(residual.rows);
  const Projection o[] = {{w.o.get(), first, w.o_bias.view()}};
  backend_.linear({.input = attended(plan, w, rows, residual), .outputs = o});
  feed_forward(plan, w, residual);
  backend_.add(residual, first, residual);
}

void BlockRunner::attend(const LayerPlan& plan, const LayerWeights& w, const BlockRows& rows,
                         const View& input, const View& residual) {
  const View out = attended(plan, w, rows, input);
  add(plan, {.input = out, .outputs = {}, .rough = plan.rough},
      {w.o.get(), residual, w.o_bias.view()}, w.post_attention_norm, residual);
}

View BlockRunner::attended(const LayerPlan& plan, const LayerWeights& w, const BlockRows& rows,
                           const View& input) {
  const int count = input.rows;
  const View q = q_.rows(count).col_range(0, plan.heads * plan.head_dim);
  View k = k_.rows(count).col_range(0, plan.kv_heads * plan.head_dim);
  View v = v_.rows(count).col_range(0, plan.kv_heads * plan.values());
  const View out = attended_.rows(count).col_range(0, plan.heads * plan.values());
  const Projection qkv[] = {{w.q.get(), q, w.q_bias.view()},
                            {w.k.get(), k, w.k_bias.view()},
                            {w.v.get(), v, w.v_bias.view()}};
  const std::size_t projections = !plan.writes_cache ? 1 : plan.keys_are_values ? 2 : 3;
  backend_.linear({.input = input,
                   .transform = norm_of(plan, w.attention_norm),
                   .norm = w.attention_norm.view(),
                   .norm_bias = w.attention_norm_bias.view(),
                   .norm_epsilon = plan.norm_epsilon,
                   .outputs = std::span(qkv).first(projections),
                   .rough = plan.rough});
  if (!plan.writes_cache) k = v = {};
  if (k && plan.keys_are_values) backend_.copy(k, v);
  const float usual_scale = 1.0F / std::sqrt(static_cast<float>(plan.head_dim));
  backend_.attention({.q = q,
                      .k = k,
                      .v = v,
                      .out = out,
                      .cache = rows.cache,
                      .layer = rows.layer,
                      .layout = rows.layout,
                      .rope = rows.rope,
                      .q_norm = w.q_norm.view(),
                      .k_norm = w.k_norm.view(),
                      .v_norm = w.v_norm.view(),
                      .norm_after_rope = plan.head_norm == LayerPlan::HeadNorm::after_rope,
                      .norm_epsilon = plan.norm_epsilon,
                      .scale = plan.score_scale > 0 ? plan.score_scale : usual_scale,
                      .query_scale = rows.query_scale,
                      .sinks = w.sinks.view(),
                      .soft_cap = plan.soft_cap,
                      .window = plan.window,
                      .chunk = plan.chunk});
  return out;
}

void BlockRunner::feed_forward(const LayerPlan& plan, const LayerWeights& w, const View& residual) {
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
  add(plan, {.input = between, .transform = plan.activation, .outputs = {}, .rough = plan.rough},
      {w.down.get(), residual, w.down_bias.view()}, w.post_ffn_norm, residual);
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
