#pragma once

#include <torch/types.h>

#include "train/head/math/parameters.h"

namespace talon {

enum class Decline { linear, cosine };

struct OptimizerOptions {
  double rate = 1e-3;  // the highest learning rate
  double warmup = 20;  // iterations until it is reached
  Decline decline = Decline::linear;
  double clip = 1.0;        // largest norm of the gradient; 0: no limit
  double weight_decay = 0;  // of matrices and vectors alike
  double average = 0.998;   // decay of the moving average of the values
};

/// AdamW (beta 0.9, 0.95) in float32 over all parameters at once, with a moving average of them.
class Optimizer {
 public:
  Optimizer(ParameterStore& parameters, const OptimizerOptions& options);

  /// Applies and clears the gradients. progress: share of the run that is done, for the learning
  /// rate. Returns the gradient's norm before clipping; if that is not finite, nothing is changed.
  double step(double progress);

  /// [count] each; the state that a checkpoint keeps, beside values and iterations.
  torch::Tensor first_moment, second_moment, average;
  std::int64_t iterations = 0;

  double rate_at(double progress) const;

 private:
  /// The step of values [begin, begin + count), their gradient scaled by `factor`.
  void update(std::int64_t begin, std::int64_t count, double rate, double factor);

  ParameterStore& parameters_;
  OptimizerOptions options_;
};

}  // namespace talon
