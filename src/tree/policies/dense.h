#pragma once

#include <span>
#include <string>
#include <vector>

#include "io/checkpoint.h"

namespace talon {

/// out = weight * in + bias, on the processor that asks: for predictors so small that a call of the
/// backend would cost more. Weights below 1e-20 count as 0.
class Dense {
 public:
  Dense() = default;
  /// weight: [bias.size(), inputs].
  Dense(std::span<const float> weight, std::span<const float> bias);

  int outputs() const { return outputs_; }
  int inputs() const { return inputs_; }
  std::span<const float> bias() const {
    return std::span(bias_).first(static_cast<std::size_t>(outputs_));
  }
  /// in: [inputs], out: [outputs]; they do not overlap.
  void apply(std::span<const float> in, std::span<float> out) const;

 private:
  int outputs_ = 0;
  int inputs_ = 0;
  std::vector<float> panels_;  // [outputs / panel][inputs][outputs of a panel], padded with zeros
  std::vector<float> bias_;    // [outputs], padded with zeros to whole panels
};

/// Reads a matrix and a vector of plain floating-point type. -1: any size. Throws Error naming the
/// file, the tensor, what was expected and what was found.
Dense read_dense(const Checkpoint& file, const std::string& weight, const std::string& bias,
                 int outputs, int inputs);

}  // namespace talon
