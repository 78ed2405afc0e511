#include "train/head/head_loss.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

namespace talon {
namespace {

using torch::Tensor;

constexpr int kTopTokens = 10;  // as HASS

/// What the target wants of the queries, made once for all steps.
struct Wanted {
  Tensor rows;  // [tokens, hidden] of the head's output matrix
  WantedTokens tokens;
  Tensor p;              // [queries, tokens], if a loss needs it
  Tensor noise, winner;  // T * G, [queries, tokens], and its draws, [queries], if a loss needs them
  Tensor share;          // [queries], of the head's logits in that race, as coupled_share()
  Tensor likeliest;      // [queries], if asked for
};

/// The race of each position: -log of exponentials, times the temperature of the answer.
Tensor race_noise(const Batch& batch, std::int64_t tokens, std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const Tensor noise = torch::empty({batch.queries(), tokens}, torch::kFloat)
                           .exponential_(1, generator)
                           .log_()
                           .neg_()
                           .to(batch.wanted.device());
  return noise * batch.temperature.unsqueeze(1);
}

/// What a coupled draft's logits are multiplied by beforehand: 1, but where nothing is drawn that
/// which leaves them as they are.
Tensor coupled_share(const Tensor& temperature, const CouplingWeights& coupling) {
  const double undone = 1 / (coupling.gain * coupling.sharpness);
  return (temperature > 0).to(temperature.scalar_type()) * (1 - undone) + undone;
}

Wanted make_wanted(const TargetTables& target, const Batch& batch, const Tensor& chosen,
                   const LossOptions& options, std::uint64_t seed, bool count_right) {
  const torch::NoGradGuard frozen;
  Wanted wanted;
  wanted.rows = target.head_output.index_select(0, chosen);
  const Tensor logits = target_logits(target, batch.wanted, target.output.index_select(0, chosen));
  const Tensor p = at::softmax(logits, 1);
  Tensor weights = options.soft == 1 ? p : p * options.soft;
  if (options.top > 0) {
    const auto [values, indices] = p.topk(std::min<std::int64_t>(kTopTokens, p.size(1)), 1);
    weights = weights.scatter_add(1, indices, values * options.top);
  }
  if (count_right || options.hard > 0) wanted.likeliest = logits.argmax(1);
  if (options.hard > 0) {
    weights = weights.scatter_add(1, wanted.likeliest.unsqueeze(1),
                                  at::full({p.size(0), 1}, options.hard, p.options()));
  }
  const auto wide = batch.wanted.scalar_type();
  wanted.tokens.mass = at::full({p.size(0)}, options.soft + options.hard, batch.wanted.options());
  if (options.top > 0) wanted.tokens.mass = weights.sum(1, false, wide);
  wanted.tokens.output = at::mm(weights, wanted.rows).to(wide);
  if (options.acceptance > 0 || options.variation > 0) wanted.p = p;
  if (options.coupled > 0) {
    wanted.noise = race_noise(batch, p.size(1), seed).to(wanted.rows.scalar_type());
    wanted.winner = (logits.to(wide) + wanted.noise).argmax(1);
    wanted.share = coupled_share(batch.temperature, options.coupling).to(wanted.rows.scalar_type());
  }
  return wanted;
}

}  // namespace

Tensor target_logits(const TargetTables& target, const Tensor& vectors, const Tensor& rows) {
  const Tensor logits = at::mm(vectors.to(rows.scalar_type()), rows.t());
  return target.logit_cap > 0 ? (logits / target.logit_cap).tanh_().mul_(target.logit_cap) : logits;
}

HeadLoss head_loss(const HeadModel& model, const TargetTables& target, const Batch& batch,
                   const Tensor& chosen, int steps, const LossOptions& options, std::uint64_t seed,
                   bool count_right) {
  const Wanted wanted = make_wanted(target, batch, chosen, options, seed, count_right);
  const std::vector<Tensor> features = model.forward(batch, steps);
  const double queries = static_cast<double>(batch.real_queries);
  HeadLoss loss;
  for (std::size_t step = 0; step < features.size(); ++step) {
    const Tensor& row = batch.step_wanted[step];
    const Tensor weight = batch.step_weight[step] / queries;
    const Tensor h = model.output_input(features[step]);
    Tensor sum = at::zeros({}, weight.options());
    if (options.soft + options.top + options.hard > 0) {
      const WantedTokens tokens{wanted.tokens.mass.index_select(0, row),
                                wanted.tokens.output.index_select(0, row)};
      sum = sum + soft_cross_entropy(h, wanted.rows, tokens, weight);
    }
    if (options.acceptance > 0) {
      sum = sum + options.acceptance *
                      acceptance_loss(h, wanted.rows, wanted.p.index_select(0, row), weight);
    }
    if (options.variation > 0) {
      sum = sum + options.variation *
                      variation_loss(h, wanted.rows, wanted.p.index_select(0, row), weight);
    }
    if (options.coupled > 0) {
      const Tensor scaled = h * wanted.share.index_select(0, row).unsqueeze(1);
      sum = sum + options.coupled *
                      coupled_loss(scaled, wanted.rows, wanted.noise.index_select(0, row),
                                   wanted.winner.index_select(0, row), options.coupling, weight);
    }
    if (options.feature > 0) {
      const double scale = 1 / options.feature_rms;
      sum = sum + options.feature * smooth_l1(features[step] * scale,
                                              batch.wanted.index_select(0, row) * scale, weight);
    }
    loss.step_loss.push_back(sum.item<double>());
    const double share = std::pow(options.decay, static_cast<double>(step));
    loss.total = step == 0 ? sum : loss.total + share * sum;
    if (count_right) {
      const torch::NoGradGuard no_gradient;
      const Tensor right =
          at::mm(h.detach(), wanted.rows.t()).argmax(1).eq(wanted.likeliest.index_select(0, row));
      loss.step_right.push_back((right * weight).sum().item<double>());
    }
  }
  return loss;
}

}  // namespace talon
