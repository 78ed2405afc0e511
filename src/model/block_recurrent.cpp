#include <algorithm>

#include "model/block.h"

namespace talon {

void BlockRunner::allocate_states(std::span<const LayerPlan> plans, int max_rows) {
  int mixed = 0, gated = 0;
  for (const LayerPlan& plan : plans) {
    const RecurrentPlan& r = plan.recurrent;
    if (r.value_heads > 0) {
      mixed = std::max(mixed, r.channels() + 2 * r.value_heads);
      gated = std::max(gated, 2 * r.width());
    }
    if (plan.output_gate) gated = std::max(gated, 2 * plan.heads * plan.values());
  }
  if (mixed > 0) mixed_ = backend_.allocate(max_rows, mixed);
  if (gated > 0) gated_ = backend_.allocate(max_rows, gated);
}

/// What a layer with a state adds: o(silu(gate) * norm(S^T q)).
void BlockRunner::attend_state(const LayerPlan& plan, const LayerWeights& w, const BlockRows& rows,
                               const View& input, const View& residual) {
  const RecurrentPlan& r = plan.recurrent;
  const RecurrentWeights& weights = w.recurrent;
  const View inputs = mixed_.rows(input.rows).col_range(0, r.channels() + 2 * r.value_heads);
  const View gated = gated_.rows(input.rows).col_range(0, 2 * r.width());
  const Projection projections[] = {
      {weights.inputs.get(), inputs.col_range(0, r.channels())},
      {weights.write.get(), inputs.col_range(r.channels(), r.value_heads)},
      {weights.decay.get(), inputs.col_range(r.channels() + r.value_heads, r.value_heads)},
      {weights.gate.get(), gated.col_range(0, r.width())}};
  backend_.linear({.input = input,
                   .transform = InputTransform::rms_norm,
                   .norm = w.attention_norm.view(),
                   .norm_epsilon = plan.norm_epsilon,
                   .outputs = projections});
  if (rows.flight) backend_.gather_rows(inputs, rows.flight_rows, rows.flight);
  RecurrentArgs args = *rows.recurrent;
  args.inputs = inputs;
  args.layout = rows.layout;
  args.out = gated.col_range(r.width(), r.width());
  backend_.recurrent(args);
  add(plan, {.input = gated, .transform = InputTransform::silu_gate, .outputs = {}},
      {w.o.get(), residual}, w.post_attention_norm, residual);
}

}  // namespace talon
