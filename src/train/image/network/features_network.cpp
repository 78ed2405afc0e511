#include "train/image/network/features_network.h"

#include <algorithm>

#include "train/image/network/picture_functions.h"

namespace talon {
namespace {

using torch::Tensor;

constexpr int kStages = 4;  // each halves the side and doubles the channels
constexpr std::int64_t kMostChannels = 256;

std::string stage(int index, const char* name) {
  return "stages." + std::to_string(index) + "." + name;
}

}  // namespace

std::vector<ParameterStore::Shape> parameter_shapes(const FeaturesShape& shape) {
  std::vector<ParameterStore::Shape> list;
  const auto conv = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    list.push_back({name + ".weight", {out, in, 3, 3}});
    list.push_back({name + ".bias", {out}});
  };
  const auto norm = [&](const std::string& name, std::int64_t width) {
    list.push_back({name + ".weight", {width}});
    list.push_back({name + ".bias", {width}});
  };
  const auto matrix = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    list.push_back({name + ".weight", {out, in}});
    list.push_back({name + ".bias", {out}});
  };
  std::int64_t width = shape.width;
  conv("conv_in", 3, width);
  for (int i = 0; i < kStages; ++i) {
    const std::int64_t next = i == 0 ? width : std::min(2 * width, kMostChannels);
    norm(stage(i, "norm1"), width);
    conv(stage(i, "conv1"), width, next);
    norm(stage(i, "norm2"), next);
    conv(stage(i, "conv2"), next, next);
    width = next;
  }
  norm("norm_out", width);
  matrix("features", width, shape.features);
  matrix("style", shape.features, shape.styles);
  matrix("category", shape.features, shape.categories);
  matrix("words", shape.features, shape.words);
  return list;
}

FeaturesNetwork::Answers FeaturesNetwork::forward(const Tensor& pictures) const {
  Tensor x = conv("conv_in", pictures.to(parameters_["conv_in.weight"].low.scalar_type()), 1);
  for (int i = 0; i < kStages; ++i) {
    x = conv(stage(i, "conv1"), norm(stage(i, "norm1"), x), /*stride=*/2);
    x = x + conv(stage(i, "conv2"), norm(stage(i, "norm2"), x), /*stride=*/1);
  }
  const Tensor pooled = norm("norm_out", x).to(torch::kFloat).mean({2, 3});
  Answers answers;
  answers.features = at::relu(matrix("features", pooled));
  answers.style = matrix("style", answers.features);
  answers.category = matrix("category", answers.features);
  answers.words = matrix("words", answers.features);
  return answers;
}

Tensor FeaturesNetwork::conv(const std::string& name, const Tensor& x, std::int64_t stride) const {
  return convolve(x, parameters_[name + ".weight"], parameters_[name + ".bias"], stride, 1);
}

Tensor FeaturesNetwork::norm(const std::string& name, const Tensor& x) const {
  return group_norm(x,
                    {.weight = parameters_[name + ".weight"], .bias = parameters_[name + ".bias"]});
}

Tensor FeaturesNetwork::matrix(const std::string& name, const Tensor& x) const {
  return at::addmm(parameters_[name + ".bias"].value, x, parameters_[name + ".weight"].value.t());
}

}  // namespace talon
