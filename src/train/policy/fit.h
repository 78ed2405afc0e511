#pragma once

#include <torch/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/stop.h"
#include "train/head/math/parameters.h"
#include "train/policy/policy_options.h"

namespace talon {

/// Named numbers, in the order in which they are shown.
using Figures = std::vector<std::pair<std::string, double>>;

/// What to fit, and on what.
struct FitTask {
  ParameterStore& parameters;
  std::int64_t examples = 0;  // to learn from
  /// The loss of the examples of these numbers ([batch] i64), differentiable.
  std::function<torch::Tensor(const torch::Tensor& rows)> loss;
  /// On the held-out texts, with the current values; the first is the loss that decides.
  std::function<Figures()> measure;
};

struct FitHooks {
  std::function<void(std::string_view line)> log;
  const StopFlag* stop = nullptr;  // or null: when requested, fit() returns after the step
};

struct FitResult {
  Figures best;        // of the best epoch, whose values the parameters have afterwards
  int best_epoch = 0;  // 0: stopped before the end of the first
  int epochs = 0;      // finished
  bool stopped = false;
};

/// AdamW with cosine decline, an order of its own each epoch; keeps the epoch of the least held-out
/// loss and stops after options.patience epochs without a better one. Throws Error for a loss that
/// is not finite.
FitResult fit(const FitTask& task, const PolicyTrainOptions& options, const FitHooks& hooks);

}  // namespace talon
