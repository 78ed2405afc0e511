#include "train/head/math/functions.h"

#include <torch/csrc/api/include/torch/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <limits>

namespace talon {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct Linear : Function<Linear> {
  static Tensor forward(AutogradContext* ctx, Tensor x, Tensor value, Tensor low) {
    ctx->save_for_backward({x, low});
    ctx->saved_data["type"] = static_cast<std::int64_t>(value.scalar_type());
    return at::mm(x, low.t());
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor dy = grads[0].contiguous();
    const auto type = static_cast<torch::ScalarType>(ctx->saved_data["type"].toInt());
    const Tensor dx = ctx->needs_input_grad(0) ? at::mm(dy, saved[1]) : Tensor();
    return {dx, at::mm(dy.t(), saved[0]).to(type), Tensor()};
  }
};

struct RmsNorm : Function<RmsNorm> {
  static Tensor forward(AutogradContext* ctx, Tensor x, Tensor weight, double epsilon,
                        std::int64_t type) {
    const double width = static_cast<double>(x.size(1));
    const Tensor scale =
        (x.norm(2, {1}, /*keepdim=*/true).square_().div_(width)).add_(epsilon).rsqrt_();
    ctx->save_for_backward({x, weight, scale});
    return (x * scale).mul_(weight).to(static_cast<torch::ScalarType>(type));
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &scale = saved[2];
    const Tensor dy = grads[0].to(x.scalar_type());
    const Tensor unit = x * scale;
    const Tensor dy_unit = dy * unit;
    const Tensor dweight = dy_unit.sum(0);
    Tensor dx;
    if (ctx->needs_input_grad(0)) {
      const Tensor along = at::mv(dy_unit, weight).div_(static_cast<double>(x.size(1)));
      dx = (dy * weight).sub_(unit.mul(along.unsqueeze(1))).mul_(scale);
    }
    return {dx, dweight, Tensor(), Tensor()};
  }
};

struct SiluGate : Function<SiluGate> {
  static Tensor forward(AutogradContext* ctx, Tensor gate_up) {
    ctx->save_for_backward({gate_up});
    const auto halves = gate_up.chunk(2, 1);
    return at::silu(halves[0]).mul_(halves[1]);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto halves = saved[0].chunk(2, 1);
    const Tensor &gate = halves[0], &up = halves[1], &dy = grads[0];
    Tensor result = at::empty_like(saved[0]);
    const auto parts = result.chunk(2, 1);
    parts[0].copy_(at::silu_backward(dy * up, gate));
    parts[1].copy_(at::silu(gate).mul_(dy));
    return {result};
  }
};

Tensor rotated(const Tensor& x, const Tensor& cosine, const Tensor& sine) {
  const std::int64_t half = cosine.size(1);
  const Tensor heads = x.view({x.size(0), -1, 2, half});
  const Tensor a = heads.select(2, 0), b = heads.select(2, 1);
  const Tensor c = cosine.unsqueeze(1), s = sine.unsqueeze(1);
  Tensor out = at::empty_like(heads);
  out.select(2, 0).copy_((a * c).sub_(b * s));
  out.select(2, 1).copy_((b * c).add_(a * s));
  return out.view_as(x);
}

struct Rotate : Function<Rotate> {
  static Tensor forward(AutogradContext* ctx, Tensor x, Tensor cosine, Tensor sine) {
    ctx->save_for_backward({cosine, sine});
    return rotated(x, cosine, sine);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return {rotated(grads[0].contiguous(), saved[0], -saved[1]), Tensor(), Tensor()};
  }
};

/// The rows of one sequence, one matrix per key head: queries [kv, group * R, d], in the order of
/// (head of the group, row); keys [kv, K, d]; later keys [kv, 1, R, d] per step. R and K are
/// padded, so that few shapes of products occur: oneDNN compiles each anew.
struct HeadRows {
  static constexpr std::int64_t kMultiple = 64;
  std::int64_t kv, group, d;

  static std::int64_t padded(std::int64_t count) {
    return (count + kMultiple - 1) / kMultiple * kMultiple;
  }
  Tensor queries(const Tensor& x, const SequenceRange& s) const {
    const Tensor out = at::zeros({kv, group, padded(s.query_count), d}, x.options());
    out.narrow(2, 0, s.query_count)
        .copy_(x.narrow(0, s.query_begin, s.query_count)
                   .view({s.query_count, kv, group, d})
                   .permute({1, 2, 0, 3}));
    return out.view({kv, -1, d});
  }
  Tensor keys(const Tensor& x, const SequenceRange& s) const {
    const Tensor out = at::zeros({kv, padded(s.key_count), d}, x.options());
    out.narrow(1, 0, s.key_count)
        .copy_(x.narrow(0, s.key_begin, s.key_count).view({s.key_count, kv, d}).transpose(0, 1));
    return out;
  }
  Tensor later(const Tensor& x, std::int64_t step, const SequenceRange& s) const {
    return x.select(0, step)
        .narrow(0, s.query_begin, s.query_count)
        .view({s.query_count, kv, 1, d})
        .permute({1, 2, 0, 3});
  }
  /// [kv, group, R, ...] without the padding.
  Tensor by_head(const Tensor& x, const SequenceRange& s) const {
    return x.view({kv, group, padded(s.query_count), -1}).narrow(2, 0, s.query_count);
  }
  void put_queries(const Tensor& x, const SequenceRange& s, const Tensor& to) const {
    to.narrow(0, s.query_begin, s.query_count)
        .view({s.query_count, kv, group, d})
        .copy_(by_head(x, s).permute({2, 0, 1, 3}));
  }
  void put_keys(const Tensor& x, const SequenceRange& s, const Tensor& to) const {
    to.narrow(0, s.key_begin, s.key_count)
        .view({s.key_count, kv, d})
        .copy_(x.narrow(1, 0, s.key_count).transpose(0, 1));
  }
  void put_later(const Tensor& x, std::int64_t step, const SequenceRange& s,
                 const Tensor& to) const {
    to.select(0, step)
        .narrow(0, s.query_begin, s.query_count)
        .view({s.query_count, kv, d})
        .copy_(x.transpose(0, 1));
  }
};

/// [R, padded K]: true where query row r may not look.
Tensor future(const SequenceRange& s, const torch::Device& device) {
  const auto options = torch::TensorOptions().device(device).dtype(torch::kBool);
  return at::ones({s.query_count, HeadRows::padded(s.key_count)}, options)
      .triu(s.key_count - s.query_count + 1);
}

struct Attend : Function<Attend> {
  static Tensor forward(AutogradContext* ctx, Tensor q, Tensor k, Tensor v, Tensor later_k,
                        Tensor later_v, const std::vector<SequenceRange>& sequences,
                        std::int64_t d) {
    const HeadRows rows{k.size(1) / d, q.size(1) / k.size(1), d};
    const double scale = 1 / std::sqrt(static_cast<double>(d));
    const auto wide = q.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
    const std::int64_t steps = later_k.size(0);
    Tensor out = at::zeros_like(q);  // rows of no sequence: padding
    std::vector<Tensor> weights;
    for (const SequenceRange& s : sequences) {
      const Tensor query = rows.queries(q, s);
      const std::int64_t keys = HeadRows::padded(s.key_count);
      Tensor scores = at::zeros({rows.kv, query.size(1), keys + steps}, q.options().dtype(wide));
      const Tensor first = scores.narrow(2, 0, keys);
      first.copy_(at::bmm(query, rows.keys(k, s).transpose(1, 2)));
      rows.by_head(scores, s)
          .narrow(3, 0, keys)
          .masked_fill_(future(s, q.device()), -std::numeric_limits<double>::infinity());
      for (std::int64_t j = 0; j < steps; ++j) {
        rows.by_head(scores, s)
            .select(3, keys + j)
            .copy_((rows.by_head(query, s) * rows.later(later_k, j, s)).sum(3));
      }
      const Tensor weight = at::softmax(scores.mul_(scale), 2).to(q.scalar_type());
      Tensor sum = at::bmm(weight.narrow(2, 0, keys), rows.keys(v, s));
      for (std::int64_t j = 0; j < steps; ++j) {
        rows.by_head(sum, s).addcmul_(rows.by_head(weight, s).narrow(3, keys + j, 1),
                                      rows.later(later_v, j, s));
      }
      rows.put_queries(sum, s, out);
      weights.push_back(weight);
    }
    ctx->save_for_backward({q, k, v, later_k, later_v, out});
    ctx->saved_data["weights"] = weights;
    std::vector<std::int64_t> flat;
    for (const SequenceRange& s : sequences) {
      flat.insert(flat.end(), {s.key_begin, s.key_count, s.query_begin, s.query_count});
    }
    ctx->saved_data["sequences"] = flat;
    ctx->saved_data["d"] = d;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &later_k = saved[3],
                 &later_v = saved[4], &out = saved[5];
    const Tensor dout = grads[0].contiguous();
    const std::int64_t d = ctx->saved_data["d"].toInt();
    const HeadRows rows{k.size(1) / d, q.size(1) / k.size(1), d};
    const double scale = 1 / std::sqrt(static_cast<double>(d));
    const auto flat = ctx->saved_data["sequences"].toIntVector();
    const auto weights = ctx->saved_data["weights"].toTensorVector();
    const std::int64_t steps = later_k.size(0);
    Tensor dq = at::zeros_like(q), dk = at::zeros_like(k), dv = at::zeros_like(v);
    Tensor dlater_k = at::zeros_like(later_k), dlater_v = at::zeros_like(later_v);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const SequenceRange s{flat[4 * i], flat[4 * i + 1], flat[4 * i + 2], flat[4 * i + 3]};
      const Tensor& weight = weights[i];
      const std::int64_t keys = HeadRows::padded(s.key_count);
      const Tensor query = rows.queries(q, s), dsum = rows.queries(dout, s);
      const Tensor query4 = rows.by_head(query, s), dsum4 = rows.by_head(dsum, s);
      // dS = P * (dP - sum over keys of P * dP), and that sum is dO . O
      Tensor dscores = at::empty_like(weight);
      dscores.narrow(2, 0, keys).copy_(at::bmm(dsum, rows.keys(v, s).transpose(1, 2)));
      for (std::int64_t j = 0; j < steps; ++j) {
        rows.by_head(dscores, s)
            .select(3, keys + j)
            .copy_((dsum4 * rows.later(later_v, j, s)).sum(3));
      }
      const Tensor mean = (dsum * rows.queries(out, s)).sum(2, /*keepdim=*/true);
      dscores.sub_(mean).mul_(weight).mul_(scale);
      const Tensor first = dscores.narrow(2, 0, keys);
      Tensor dquery = at::bmm(first, rows.keys(k, s));
      for (std::int64_t j = 0; j < steps; ++j) {
        const Tensor dscore = rows.by_head(dscores, s).narrow(3, keys + j, 1);
        rows.by_head(dquery, s).addcmul_(dscore, rows.later(later_k, j, s));
        rows.put_later((dscore * query4).sum(1), j, s, dlater_k);
        rows.put_later((rows.by_head(weight, s).narrow(3, keys + j, 1) * dsum4).sum(1), j, s,
                       dlater_v);
      }
      rows.put_queries(dquery, s, dq);
      rows.put_keys(at::bmm(first.transpose(1, 2), query), s, dk);
      rows.put_keys(at::bmm(weight.narrow(2, 0, keys).transpose(1, 2), dsum), s, dv);
    }
    return {dq, dk, dv, dlater_k, dlater_v, Tensor(), Tensor()};
  }
};

/// The gradient of a sum over rows, found in the forward pass.
struct ReadyGradient : Function<ReadyGradient> {
  static Tensor forward(AutogradContext* ctx, Tensor h, Tensor value, Tensor gradient) {
    ctx->save_for_backward({gradient});
    static_cast<void>(h);
    return value.clone();
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor gradient = ctx->get_saved_variables()[0];
    return {gradient * grads[0].to(gradient.scalar_type()), Tensor(), Tensor()};
  }
};

torch::ScalarType wide_type(const Tensor& x) {
  return x.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
}

}  // namespace

Tensor linear(const Tensor& x, const Parameter& weight) {
  return Linear::apply(x, weight.value, weight.low);
}

Tensor rms_norm(const Tensor& x, const Parameter& weight, double epsilon, torch::ScalarType type) {
  return RmsNorm::apply(x, weight.value, epsilon, static_cast<std::int64_t>(type));
}

Tensor silu_gate(const Tensor& gate_up) { return SiluGate::apply(gate_up); }

Tensor rotate(const Tensor& x, const Tensor& cosine, const Tensor& sine) {
  return Rotate::apply(x.contiguous(), cosine, sine);
}

Tensor attend(const AttentionInput& input, const std::vector<SequenceRange>& sequences,
              int head_dim) {
  return Attend::apply(input.q.contiguous(), input.k.contiguous(), input.v.contiguous(),
                       input.later_k, input.later_v, sequences,
                       static_cast<std::int64_t>(head_dim));
}

namespace {

/// What head and target agree on: sum min(p, q) of each row, and how the logits raise it.
struct Overlap {
  Tensor accepted;  // [rows]
  Tensor falling;   // [rows, tokens], the gradient of -accepted for the logits

  Tensor gradient(const Tensor& output_rows, const Tensor& weight, torch::ScalarType type) const {
    return at::mm((falling * weight.unsqueeze(1)).to(type), output_rows);
  }
};

Overlap overlap_of(const Tensor& h, const Tensor& output_rows, const Tensor& p) {
  const auto wide = wide_type(h);
  const Tensor q = at::softmax(at::mm(h, output_rows.t()).to(wide), 1);
  const Tensor risen = q * (q < p.to(wide));  // tokens whose q still limits acceptance
  return {at::minimum(q, p.to(wide)).sum(1), (q * risen.sum(1, true)).sub_(risen)};
}

}  // namespace

Tensor soft_cross_entropy(const Tensor& h, const Tensor& output_rows, const WantedTokens& wanted,
                          const Tensor& row_weight) {
  Tensor value, gradient;
  {
    const torch::NoGradGuard forward_only;
    const auto wide = wide_type(h);
    const Tensor logits = at::mm(h, output_rows.t());
    const Tensor q = at::softmax(logits, 1);
    const auto [largest, where] = q.max(1, /*keepdim=*/true);
    const Tensor log_sum =
        (logits.gather(1, where).to(wide) - largest.to(wide).log()).squeeze(1);  // one pass fewer
    const Tensor drawn = (h.to(wide) * wanted.output).sum(1);
    value = ((wanted.mass * log_sum - drawn) * row_weight).sum();
    const Tensor expected = at::mm(q, output_rows).to(wide);
    gradient = expected.mul_(wanted.mass.unsqueeze(1))
                   .sub_(wanted.output)
                   .mul_(row_weight.unsqueeze(1))
                   .to(h.scalar_type());
  }
  return ReadyGradient::apply(h, value, gradient);
}

Tensor acceptance_loss(const Tensor& h, const Tensor& output_rows, const Tensor& p,
                       const Tensor& row_weight) {
  Tensor value, gradient;
  {
    const torch::NoGradGuard forward_only;
    const Overlap overlap = overlap_of(h, output_rows, p);
    value = (-overlap.accepted.log() * row_weight).sum();
    gradient = overlap.gradient(output_rows, row_weight / overlap.accepted, h.scalar_type());
  }
  return ReadyGradient::apply(h, value, gradient);
}

Tensor variation_loss(const Tensor& h, const Tensor& output_rows, const Tensor& p,
                      const Tensor& row_weight) {
  Tensor value, gradient;
  {
    const torch::NoGradGuard forward_only;
    const Overlap overlap = overlap_of(h, output_rows, p);
    value = ((1 - overlap.accepted) * row_weight).sum();
    gradient = overlap.gradient(output_rows, row_weight, h.scalar_type());
  }
  return ReadyGradient::apply(h, value, gradient);
}

Tensor coupled_loss(const Tensor& h, const Tensor& output_rows, const Tensor& noise,
                    const Tensor& winner, const CouplingWeights& weights,
                    const Tensor& row_weight) {
  Tensor value, gradient;
  {
    const torch::NoGradGuard forward_only;
    const auto wide = wide_type(h);
    const Tensor scores =
        at::mm(h, output_rows.t()).to(wide).mul_(weights.gain).add_(noise).mul_(weights.sharpness);
    const Tensor log_q = at::log_softmax(scores, 1);
    value = -(log_q.gather(1, winner.unsqueeze(1)).squeeze(1) * row_weight).sum();
    const Tensor expected = at::mm(log_q.exp().to(h.scalar_type()), output_rows).to(wide);
    gradient = expected.sub_(output_rows.index_select(0, winner))
                   .mul_((row_weight * (weights.gain * weights.sharpness)).unsqueeze(1))
                   .to(h.scalar_type());
  }
  return ReadyGradient::apply(h, value, gradient);
}

Tensor smooth_l1(const Tensor& a, const Tensor& b, const Tensor& row_weight) {
  Tensor value, gradient;
  {
    const torch::NoGradGuard forward_only;
    const Tensor difference = a - b;
    const Tensor size = difference.abs();
    const Tensor each = at::where(size < 1, difference.square().mul_(0.5), size - 0.5);
    value = (each.mean(1) * row_weight).sum();
    gradient =
        difference.clamp(-1, 1).mul_((row_weight / static_cast<double>(a.size(1))).unsqueeze(1));
  }
  return ReadyGradient::apply(a, value, gradient);
}

}  // namespace talon
