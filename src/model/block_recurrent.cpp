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

/// What a layer with a state adds: o(silu(gate) * norm(S^T q)), of Mamba-2 o of RecurrentArgs::out.
void BlockRunner::attend_state(const LayerPlan& plan, const LayerWeights& w, const BlockRows& rows,
                               const View& input, const View& residual) {
  const RecurrentPlan& r = plan.recurrent;
  const RecurrentWeights& weights = w.recurrent;
  const bool mamba = r.rule == StateRule::mamba2;
  const View inputs = mixed_.rows(input.rows).col_range(0, r.shape().input_cols());
  const View gated = gated_.rows(input.rows).col_range(0, 2 * r.width());
  const View gate = gated.col_range(0, r.width()), out = gated.col_range(r.width(), r.width());
  const int last = inputs.cols - r.value_heads;
  const Projection projections[] = {
      {weights.inputs.get(), inputs.col_range(0, r.channels())},
      {weights.gate.get(), gate},
      {weights.decay.get(), inputs.col_range(last, r.value_heads)},
      {weights.write.get(), inputs.col_range(r.channels(), r.value_heads)}};
  backend_.linear({.input = input,
                   .transform = InputTransform::rms_norm,
                   .norm = w.attention_norm.view(),
                   .norm_epsilon = plan.norm_epsilon,
                   .outputs = std::span(projections).first(mamba ? 3 : 4)});
  if (rows.flight) backend_.gather_rows(inputs, rows.flight_rows, rows.flight);
  RecurrentArgs args = *rows.recurrent;
  args.inputs = inputs;
  args.layout = rows.layout;
  args.out = out;
  if (mamba) args.gate = gate;
  backend_.recurrent(args);
  const auto transform = mamba ? InputTransform::none : InputTransform::silu_gate;
  add(plan, {.input = mamba ? out : gated, .transform = transform, .outputs = {}},
      {w.o.get(), residual}, w.post_attention_norm, residual);
}

}  // namespace talon
