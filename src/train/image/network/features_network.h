#pragma once

#include <torch/types.h>

#include <vector>

#include "train/head/math/parameters.h"

namespace talon {

/// Sizes of the network that tells what a picture shows.
struct FeaturesShape {
  std::int64_t width = 32;      // channels of the first layer
  std::int64_t features = 128;  // of a picture
  std::int64_t styles = 0, categories = 0, words = 0;
};

/// All its tensors by their names.
std::vector<ParameterStore::Shape> parameter_shapes(const FeaturesShape& shape);

/// A small convolutional network, differentiable: four stages, each of which halves the side, and
/// three answers that read the same features.
class FeaturesNetwork {
 public:
  struct Answers {
    torch::Tensor features;                // [batch, features], not negative
    torch::Tensor style, category, words;  // logits [batch, as many as there are]
  };

  /// Borrows the parameters.
  explicit FeaturesNetwork(const ParameterStore& parameters) : parameters_(parameters) {}

  /// pictures [batch, 3, side, side], from -1 to 1.
  Answers forward(const torch::Tensor& pictures) const;

 private:
  torch::Tensor conv(const std::string& name, const torch::Tensor& x, std::int64_t stride) const;
  torch::Tensor norm(const std::string& name, const torch::Tensor& x) const;
  torch::Tensor matrix(const std::string& name, const torch::Tensor& x) const;

  const ParameterStore& parameters_;
};

}  // namespace talon
