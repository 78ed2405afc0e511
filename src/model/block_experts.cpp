#include <algorithm>

#include "model/block.h"

namespace talon {

void BlockRunner::allocate_experts(std::span<const LayerPlan> plans, int hidden, int max_rows) {
  int count = 0, used = 0;
  bool shared = false, beside = false;
  for (const LayerPlan& plan : plans) {
    count = std::max(count, plan.experts.count);
    used = std::max(used, plan.experts.used);
    shared |= plan.experts.shared_width > 0;
    beside |= plan.experts.beside_dense;
  }
  if (count == 0) return;
  normed_ = backend_.allocate(max_rows, hidden);
  scores_ = backend_.allocate(max_rows, count);
  shares_ = backend_.allocate(max_rows, used);
  chosen_ = backend_.allocate_indices(max_rows * used);
  if (shared || beside) shared_ = backend_.allocate(max_rows, hidden);
  if (shared) shared_share_ = backend_.allocate(max_rows, 1);
  if (beside) scored_ = backend_.allocate(max_rows, hidden);
}

/// What a layer's experts add up to for x, the normed input; `scored` is what the router reads.
/// Returns those that each row goes to.
Indices BlockRunner::mix_experts(const LayerPlan& plan, const ExpertLayerWeights& w, const View& x,
                                 const View& scored, const View& out) {
  const ExpertPlan& e = plan.experts;
  const View scores = scores_.rows(x.rows).col_range(0, e.count);
  const Projection router[] = {{w.router.get(), scores, w.router_bias.view()}};
  backend_.linear({.input = scored, .outputs = router});
  RouteArgs route;
  route.scores = scores;
  route.score = e.score;
  route.jitter = e.jitter;
  route.renormalize = e.renormalize;
  route.scale = e.scale;
  route.bias = w.choice_bias.view();
  route.expert_scale = w.expert_scale.view();
  route.groups = e.groups;
  route.groups_used = e.groups_used;
  route.group_by_two = e.group_by_two;
  route.ids = chosen_.first(x.rows * e.used);
  route.weights = shares_.rows(x.rows).col_range(0, e.used);
  backend_.route(route);

  ExpertArgs args;
  args.input = x;
  args.ids = route.ids;
  args.weights = route.weights;
  args.experts = w.experts;
  args.gate_bias = w.gate_bias.view();
  args.up_bias = w.up_bias.view();
  args.down_bias = w.down_bias.view();
  args.gate = plan.activation;
  args.weigh_input = e.weigh_input;
  args.out = out;
  backend_.experts(args);
  if (e.shared_width > 0) add_shared_expert(plan, w, x, out);
  return route.ids;
}

/// out += the expert that every row goes to.
void BlockRunner::add_shared_expert(const LayerPlan& plan, const ExpertLayerWeights& w,
                                    const View& x, const View& out) {
  const int width = plan.experts.shared_width;
  const bool gated = is_gate(plan.activation);
  const View between = gate_up_.rows(x.rows).col_range(0, gated ? 2 * width : width);
  const View shared = shared_.rows(x.rows), share = shared_share_.rows(x.rows);
  const Projection gate_and_up[] = {
      {w.shared_gate.get(), between.col_range(0, width)},
      {w.shared_up.get(), between.col_range(gated ? width : 0, width)}};
  backend_.linear({.input = x, .outputs = std::span(gate_and_up).last(gated ? 2 : 1)});
  const Projection down[] = {{w.shared_down.get(), shared}};
  backend_.linear({.input = between, .transform = plan.activation, .outputs = down});
  if (w.shared_router) {
    const Projection to[] = {{w.shared_router.get(), share}};
    backend_.linear({.input = x, .outputs = to});
    backend_.activate(share, Activation::sigmoid);
    backend_.scale_rows(shared, share);
  }
  backend_.add(out, shared, out);
}

/// residual += the experts' sum, and that of the dense network where the layer has both.
void BlockRunner::feed_experts(const LayerPlan& plan, const LayerWeights& w, const View& residual,
                               const Indices& first_uses) {
  const ExpertLayerWeights& e = w.experts;
  const View x = normed_.rows(residual.rows), out = branch_.rows(residual.rows);
  const bool beside = plan.experts.beside_dense;
  const View norm = (beside ? e.pre_norm : w.ffn_norm).view();
  if (plan.norm == LayerPlan::Norm::layer) {
    backend_.layer_norm(residual, norm, w.ffn_norm_bias.view(), plan.norm_epsilon, x);
  } else {
    backend_.rms_norm(residual, norm, plan.norm_epsilon, x);
  }
  View scored = x;
  if (beside) {
    scored = scored_.rows(residual.rows);
    backend_.rms_norm(residual, e.router_norm.view(), plan.norm_epsilon, scored);
  }
  const Indices chosen = mix_experts(plan, e, x, scored, out);
  if (first_uses.count > 0) backend_.count_first_uses(chosen, plan.experts.count, first_uses);
  if (beside) {
    backend_.rms_norm(out, e.expert_post_norm.view(), plan.norm_epsilon, out);
    const View dense = shared_.rows(residual.rows);
    feed_dense(plan, w, residual, dense);
    backend_.rms_norm(dense, e.dense_post_norm.view(), plan.norm_epsilon, dense);
    backend_.add(dense, out, out);
  }
  if (w.post_ffn_norm) backend_.rms_norm(out, w.post_ffn_norm.view(), plan.norm_epsilon, out);
  backend_.add_scaled(residual, out, plan.residual_scale, residual);
}

}  // namespace talon
