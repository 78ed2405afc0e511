#include "train/image/compare/stored_features.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "io/checkpoint.h"
#include "io/json_text.h"
#include "io/sha256.h"
#include "train/image/training_run.h"

namespace talon {
namespace {

using torch::Tensor;

constexpr std::int64_t kOfAPass = 64;  // pictures

}  // namespace

StoredFeatures::StoredFeatures(const std::filesystem::path& folder) {
  const auto facts = folder / "features.json", weights = folder / "features.safetensors";
  const std::string doing = "read " + facts.string();
  std::ifstream input(facts);
  std::ostringstream text;
  text << input.rdbuf();
  if (!input) fail("{}: cannot be read; talon train image features writes it", doing);
  const Json json = parse_json(text.str(), doing);
  FeaturesShape shape;
  try {
    json.at("side").get_to(side_);
    json.at("width").get_to(shape.width);
    json.at("features").get_to(shape.features);
    json.at("styles").get_to(styles_);
    json.at("categories").get_to(categories_);
    json.at("words").get_to(words_);
  } catch (const Json::exception& problem) {
    fail("{}: {}", doing, problem.what());
  }
  const Checkpoint file = read_safetensors(weights);
  // The tensors say how large the network is, so that no number of a text asks for memory.
  const StoredTensor& first = file.require("conv_in.bias");
  const StoredTensor& last = file.require("features.bias");
  if (first.shape != std::vector{shape.width} || last.shape != std::vector{shape.features})
    fail("{}: expected \"width\" and \"features\" of {}", doing, weights.string());
  shape.styles = std::ssize(styles_);
  shape.categories = std::ssize(categories_);
  shape.words = std::ssize(words_);
  sha256_ = sha256_of_file(weights);
  parameters_ = std::make_unique<ParameterStore>(parameter_shapes(shape), torch::kFloat,
                                                 torch::kFloat, torch::kCPU);
  for (const std::string& name : parameters_->names())
    read_tensor(file, name, (*parameters_)[name].value);
  parameters_->refresh_low();
}

FeaturesNetwork::Answers StoredFeatures::of(const Tensor& pictures) const {
  const torch::NoGradGuard no_gradient;
  const FeaturesNetwork network(*parameters_);
  std::vector<Tensor> features, style, category, words;
  for (const Tensor& some : pictures.split(kOfAPass)) {
    const FeaturesNetwork::Answers answers = network.forward(some);
    features.push_back(answers.features);
    style.push_back(answers.style);
    category.push_back(answers.category);
    words.push_back(answers.words);
  }
  return {.features = at::cat(features),
          .style = at::cat(style),
          .category = at::cat(category),
          .words = at::cat(words)};
}

}  // namespace talon
