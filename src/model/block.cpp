#include "model/block.h"

#include <cmath>

namespace talon {

BlockRunner::BlockRunner(Backend& backend, const BlockPlan& widest, int max_rows)
    : backend_(backend),
      q_(backend.allocate(max_rows, widest.heads * widest.head_dim)),
      k_(backend.allocate(max_rows, widest.kv_heads * widest.head_dim)),
      v_(backend.allocate(max_rows, widest.kv_heads * widest.head_dim)),
      attended_(backend.allocate(max_rows, widest.heads * widest.head_dim)),
      gate_up_(backend.allocate(max_rows, 2 * widest.intermediate)) {}

void BlockRunner::attend(const BlockPlan& plan, const LayerWeights& w, const BlockRows& rows,
                         const View& input, const View& residual) {
  const int width = plan.heads * plan.head_dim, kv_width = plan.kv_heads * plan.head_dim;
  const View q = q_.rows(input.rows).col_range(0, width);
  const View k = k_.rows(input.rows).col_range(0, kv_width);
  const View v = v_.rows(input.rows).col_range(0, kv_width);
  const View attended = attended_.rows(input.rows).col_range(0, width);
  const Projection qkv[] = {{w.q.get(), q, w.q_bias.view()},
                            {w.k.get(), k, w.k_bias.view()},
                            {w.v.get(), v, w.v_bias.view()}};
  backend_.linear({.input = input,
                   .transform = w.attention_norm ? InputTransform::rms_norm : InputTransform::none,
                   .norm = w.attention_norm.view(),
                   .norm_epsilon = plan.norm_epsilon,
                   .outputs = qkv,
                   .rough = plan.rough});
  backend_.attention({.q = q,
                      .k = k,
                      .v = v,
                      .out = attended,
                      .cache = rows.cache,
                      .layer = rows.layer,
                      .layout = rows.layout,
                      .rope = rows.rope,
                      .q_norm = w.q_norm.view(),
                      .k_norm = w.k_norm.view(),
                      .norm_epsilon = plan.norm_epsilon,
                      .scale = 1.0F / std::sqrt(static_cast<float>(plan.head_dim)),
                      .window = plan.window});
  const Projection o[] = {{w.o.get(), residual, w.o_bias.view(), /*accumulate=*/true}};
  backend_.linear({.input = attended, .outputs = o, .rough = plan.rough});
}

void BlockRunner::feed_forward(const BlockPlan& plan, const LayerWeights& w, const View& residual) {
  const View both = gate_up_.rows(residual.rows).col_range(0, 2 * plan.intermediate);
  const Projection gate_and_up[] = {
      {w.gate.get(), both.col_range(0, plan.intermediate)},
      {w.up.get(), both.col_range(plan.intermediate, plan.intermediate)}};
  backend_.linear({.input = residual,
                   .transform = InputTransform::rms_norm,
                   .norm = w.ffn_norm.view(),
                   .norm_epsilon = plan.norm_epsilon,
                   .outputs = gate_and_up,
                   .rough = plan.rough});
  const Projection down[] = {{w.down.get(), residual, {}, /*accumulate=*/true}};
  backend_.linear({.input = both,
                   .transform = InputTransform::silu_gate,
                   .outputs = down,
                   .rough = plan.rough});
}

}  // namespace talon
