#include "train/policy/fit.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "train/head/math/optimizer.h"

namespace talon {
namespace {

using torch::Tensor;

class Fit {
 public:
  Fit(const FitTask& task, const PolicyTrainOptions& options, const FitHooks& hooks)
      : task_(task),
        options_(options),
        hooks_(hooks),
        optimizer_(task.parameters, {.rate = options.rate,
                                     .warmup = 10,
                                     .decline = Decline::cosine,
                                     .weight_decay = options.weight_decay}),
        best_values_(task.parameters.values().clone()) {}

  FitResult run() {
    for (int epoch = 1; epoch <= options_.epochs; ++epoch) {
      const double loss = train_epoch(epoch - 1);
      if (result_.stopped) break;
      measure(epoch, loss);
      if (options_.patience > 0 && epoch - result_.best_epoch >= options_.patience) break;
    }
    const torch::NoGradGuard no_gradient;
    task_.parameters.values().copy_(best_values_);
    task_.parameters.refresh_low();
    return result_;
  }

 private:
  double train_epoch(int done) {
    const Tensor order = at::randperm(task_.examples, torch::kLong);
    double sum = 0;
    for (std::int64_t begin = 0; begin < task_.examples; begin += options_.batch) {
      result_.stopped = hooks_.stop && hooks_.stop->requested();
      if (result_.stopped) break;
      const std::int64_t count = std::min<std::int64_t>(options_.batch, task_.examples - begin);
      const Tensor loss = task_.loss(order.narrow(0, begin, count));
      const double value = loss.item<double>();
      loss.backward();
      const double part = static_cast<double>(begin) / static_cast<double>(task_.examples);
      const double norm = optimizer_.step((done + part) / options_.epochs);
      if (!std::isfinite(value) || !std::isfinite(norm)) {
        fail(
            "train policy: epoch {}: expected a finite loss and gradient, found {} and {}: lower "
            "--rate",
            done + 1, value, norm);
      }
      sum += value * static_cast<double>(count);
    }
    return sum / static_cast<double>(task_.examples);
  }

  void measure(int epoch, double train_loss) {
    const torch::NoGradGuard no_gradient;
    const Figures figures = task_.measure();
    result_.epochs = epoch;
    const bool is_best =
        result_.best_epoch == 0 || figures.front().second < result_.best.front().second;
    if (is_best) {
      result_.best = figures;
      result_.best_epoch = epoch;
      best_values_.copy_(task_.parameters.values());
    }
    std::string line = fmt::format("epoch {}: train loss {:.4f}", epoch, train_loss);
    for (const auto& [name, value] : figures) line += fmt::format(", {} {:.4f}", name, value);
    hooks_.log(line + (is_best ? " *" : ""));
  }

  const FitTask& task_;
  const PolicyTrainOptions& options_;
  const FitHooks& hooks_;
  Optimizer optimizer_;
  Tensor best_values_;
  FitResult result_;
};

}  // namespace

FitResult fit(const FitTask& task, const PolicyTrainOptions& options, const FitHooks& hooks) {
  return Fit(task, options, hooks).run();
}

}  // namespace talon
