#include <algorithm>

#include "model/block.h"

namespace talon {

void BlockRunner::allocate_states(std::span<const LayerPlan> plans, int max_rows) {
  int mixed = 0, gated = 0;
  for (const LayerPlan& plan : plans) {
    const RecurrentPlan& r = plan.recurrent;
    if (r.value_heads > 0) {
      mixed = std::max(mixed, r.shape().input_cols());
      gated = std::max(gated, 2 * r.width());
    }
    if (plan.output_gate) gated = std::max(gated, 2 * plan.heads * plan.values());
  }
  if (mixed > 0) mixed_ = backend_.allocate(max_rows, mixed);
  if (gated > 0) gated_ = backend_.allocate(max_rows, gated);
}

/// What a layer with a state adds: o(silu(gate) * norm(S^T q)), of other rules o of what they give.
void BlockRunner::attend_state(const LayerPlan& plan, const LayerWeights& w, const BlockRows& rows,
                               const View& input, const View& residual) {
  const RecurrentPlan& r = plan.recurrent;
  const RecurrentWeights& weights = w.recurrent;
  const bool gates_itself = r.rule != StateRule::gated_delta;
  const View inputs = mixed_.rows(input.rows).col_range(0, r.shape().input_cols());
  const View gated = gated_.rows(input.rows).col_range(0, 2 * r.width());
  const View gate = gated.col_range(0, r.width()), out = gated.col_range(r.width(), r.width());
  Projection projections[4] = {{weights.inputs.get(), inputs.col_range(0, r.channels())},
                               {weights.gate.get(), gate}};
  std::size_t count = 2;
  if (const Weight* decay = weights.decay.get()) {
    projections[count++] = {decay, inputs.col_range(inputs.cols - decay->rows, decay->rows)};
  }
  if (const Weight* write = weights.write.get()) {
    projections[count++] = {write, inputs.col_range(r.channels(), write->rows)};
  }
  backend_.linear({.input = input,
                   .transform = InputTransform::rms_norm,
                   .norm = w.attention_norm.view(),
                   .norm_epsilon = plan.norm_epsilon,
                   .outputs = std::span(projections).first(count)});
  const MatrixFactors& f = plan.factors;
  const StateShape shape = r.shape();
  scale_columns(gate, 0, r.width(), f.state_gate);
  scale_columns(inputs, shape.first_value(), shape.values(), f.state_value);
  scale_columns(inputs, shape.first_key(), shape.keys(), f.state_key);
  scale_columns(inputs, shape.first_query(), shape.keys(), f.state_query);
  scale_columns(inputs, inputs.cols - r.value_heads, r.value_heads, f.state_decay);
  if (rows.flight) backend_.gather_rows(inputs, rows.flight_rows, rows.flight);
  RecurrentArgs args = *rows.recurrent;
  args.inputs = inputs;
  args.layout = rows.layout;
  args.out = out;
  if (gates_itself) args.gate = gate;
  backend_.recurrent(args);
  scale_columns(out, 0, r.width(), f.state_o);
  const auto transform = gates_itself ? InputTransform::none : InputTransform::silu_gate;
  add(plan, {.input = gates_itself ? out : gated, .transform = transform, .outputs = {}},
      {weights.o.get(), residual}, w.post_attention_norm, residual);
}

}  // namespace talon
