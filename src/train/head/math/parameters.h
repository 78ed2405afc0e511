#pragma once

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "train/head/math/functions.h"

namespace talon {

/// All trained tensors of a head in one flat piece of memory each: values, their low-precision
/// copies and gradients. The optimiser, checkpoints and the exchange between processes see one
/// vector.
class ParameterStore {
 public:
  using Shape = std::pair<std::string, std::vector<std::int64_t>>;
  /// Zeroed. wide: float32 (double in tests); low: bfloat16, or the same as wide. rounds: the
  /// low-precision copies of matrices are rounded as WeightLayout::int4 keeps them, so that a head
  /// learns what it will be (gradients go straight through to the values).
  ParameterStore(const std::vector<Shape>& shapes, torch::ScalarType wide, torch::ScalarType low,
                 torch::Device device, bool rounds = false);

  /// The parameter of that name. REQUIRES: it exists.
  const Parameter& operator[](std::string_view name) const;
  const std::vector<std::string>& names() const { return names_; }
  bool has(std::string_view name) const;

  torch::Tensor& values() { return values_; }  // [count], all of them
  const torch::Tensor& values() const { return values_; }
  torch::Tensor& gradients() { return gradients_; }  // [count], added to by backward()
  std::int64_t count() const { return values_.numel(); }
  /// Of `flat` [count], laid out as values() is, the part of that name, as its shape.
  torch::Tensor part(const torch::Tensor& flat, std::string_view name) const;

  /// Sets an initial value.
  void set(std::string_view name, const torch::Tensor& value);
  /// Copies values to their low-precision copies.
  void refresh_low();

 private:
  std::size_t index_of(std::string_view name) const;

  std::vector<std::string> names_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<std::int64_t> offsets_;
  bool rounds_;
  torch::Tensor values_, low_, gradients_;
  std::vector<Parameter> parameters_;
};

}  // namespace talon
