#include <vector>

#include "model/block.h"

namespace talon {

/// Attention over latents in its absorbed form, for any number of rows: a query is
/// [rotated part | key_up(plain part)], a key [rotated part | latent], a value the latent.
View BlockRunner::attended_latents(const LayerPlan& plan, const LayerWeights& w,
                                   const BlockRows& rows, const View& input) {
  constexpr float kEpsilon = 1e-6F;  // of the inner norms, whatever the file says of the others
  const LatentPlan& l = plan.latent;
  const LatentWeights& weights = w.latent;
  const int count = input.rows;
  const View q = q_.rows(count).col_range(0, plan.heads * plan.head_dim);
  const View k = k_.rows(count).col_range(0, plan.head_dim);
  const View v = v_.rows(count).col_range(0, l.kv_rank);
  const View plain = plain_q_.rows(count).col_range(0, plan.heads * l.plain_dim);
  const LinearArgs normed{.input = input,
                          .transform = InputTransform::rms_norm,
                          .norm = w.attention_norm.view(),
                          .norm_epsilon = plan.norm_epsilon,
                          .outputs = {}};
  std::vector<Projection> queries = {{weights.q_plain.get(), plain}};
  for (int head = 0; head < plan.heads; ++head) {
    queries.push_back({weights.q_rotary[static_cast<std::size_t>(head)].get(),
                       q.col_range(head * plan.head_dim, l.rotary_dim)});
  }
  std::vector<Projection> first = {{weights.latent.get(), v},
                                   {weights.rotary_key.get(), k.col_range(0, l.rotary_dim)}};
  LinearArgs down = normed;
  if (l.q_rank > 0) {
    const View q_latent = latent_q_.rows(count).col_range(0, l.q_rank);
    first.push_back({weights.q_down.get(), q_latent});
    down.outputs = first;
    backend_.linear(down);
    backend_.linear({.input = q_latent,
                     .transform = InputTransform::rms_norm,
                     .norm = weights.q_norm.view(),
                     .norm_epsilon = kEpsilon,
                     .outputs = queries});
  } else {
    first.insert(first.end(), queries.begin(), queries.end());
    down.outputs = first;
    backend_.linear(down);
  }
  backend_.rms_norm(v, weights.latent_norm.view(), kEpsilon, v);
  backend_.copy(v, k.col_range(l.rotary_dim, l.kv_rank));

  // One matrix for each head, all heads at once.
  std::vector<Projection> outputs(static_cast<std::size_t>(plan.heads));
  std::vector<LinearArgs> calls(outputs.size());
  const auto each_head = [&](const View& from, int from_width, const View& to, int to_width,
                             int to_step, int to_first, const auto& matrices) {
    for (int head = 0; head < plan.heads; ++head) {
      const auto i = static_cast<std::size_t>(head);
      outputs[i] = {matrices[i].get(), to.col_range(head * to_step + to_first, to_width)};
      calls[i] = {.input = from.col_range(head * from_width, from_width),
                  .outputs = {&outputs[i], 1}};
    }
    backend_.linear_all(calls);
  };
  each_head(plain, l.plain_dim, q, l.kv_rank, plan.head_dim, l.rotary_dim, weights.key_up);
  const View out = attended_.rows(count).col_range(0, plan.heads * l.kv_rank);
  attend_cache(plan, w, rows, q, k, v, out);
  const View joined = joined_.rows(count).col_range(0, plan.heads * l.output_dim);
  each_head(out, l.kv_rank, joined, l.output_dim, l.output_dim, 0, weights.value_up);
  return joined;
}

}  // namespace talon
