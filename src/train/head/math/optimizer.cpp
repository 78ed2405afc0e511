#include "train/head/math/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace talon {
namespace {

constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.95;  // as EAGLE (docs/methods.md 7.1)
constexpr double kEpsilon = 1e-8;
constexpr std::int64_t kChunk = 1 << 16;  // values: all that a chunk needs stays in the cache

}  // namespace

Optimizer::Optimizer(ParameterStore& parameters, const OptimizerOptions& options)
    : first_moment(torch::zeros_like(parameters.values())),
      second_moment(torch::zeros_like(parameters.values())),
      average(parameters.values().clone()),
      parameters_(parameters),
      options_(options) {}

double Optimizer::rate_at(double progress) const {
  const double left = std::clamp(1 - progress, 0.0, 1.0);
  const double decline =
      options_.decline == Decline::linear ? left : 0.5 * (1 - std::cos(std::numbers::pi * left));
  const double warm =
      std::min(1.0, static_cast<double>(iterations + 1) / std::max(1.0, options_.warmup));
  return options_.rate * decline * warm;
}

double Optimizer::step(double progress) {
  const torch::NoGradGuard no_gradient;
  torch::Tensor& gradient = parameters_.gradients();
  torch::Tensor& values = parameters_.values();
  const double norm = gradient.norm().item<double>();
  if (!std::isfinite(norm)) return norm;
  const double rate = rate_at(progress);
  ++iterations;
  const bool is_long = options_.clip > 0 && norm > options_.clip;
  const double factor = is_long ? options_.clip / norm : 1.0;
  const std::int64_t count = values.numel(), most = values.is_cuda() ? count : kChunk;
  for (std::int64_t begin = 0; begin < count; begin += most) {
    update(begin, std::min(most, count - begin), rate, factor);
  }
  parameters_.refresh_low();
  return norm;
}

void Optimizer::update(std::int64_t begin, std::int64_t count, double rate, double factor) {
  const auto part = [&](torch::Tensor& all) { return all.narrow(0, begin, count); };
  torch::Tensor gradient = part(parameters_.gradients()), values = part(parameters_.values());
  torch::Tensor first = part(first_moment), second = part(second_moment);
  const double t = static_cast<double>(iterations);
  if (factor != 1.0) gradient.mul_(factor);
  first.lerp_(gradient, 1 - kBeta1);
  second.mul_(kBeta2).addcmul_(gradient, gradient, 1 - kBeta2);
  const double first_share = 1 - std::pow(kBeta1, t), second_share = 1 - std::pow(kBeta2, t);
  gradient.copy_(second).sqrt_().mul_(1 / std::sqrt(second_share)).add_(kEpsilon);
  if (options_.weight_decay > 0) values.mul_(1 - rate * options_.weight_decay);
  values.addcdiv_(first, gradient, -rate / first_share);
  gradient.zero_();
  part(average).lerp_(values, 1 - std::min(options_.average, t / (t + 10)));
}

}  // namespace talon
